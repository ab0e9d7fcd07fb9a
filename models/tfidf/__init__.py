"""TF-IDF over words and characters with a linear layer: the baseline of texts, and a model that can be served.

What is counted is the same for scikit-learn, which learns the linear layer, and for the graph, which serves it:

    characters.py  what a character is: part of a word, a word by itself, white space; and its small letter
    counting.py    texts -> keys of their n-grams, in numpy      graph.py  the same in TensorFlow
    vocabulary.py  which n-grams are kept, and how rare they are; texts as sparse numbers
    model.py       the linear layer as a Keras model, and the task that is answered by it

Only the last and `graph.py` need TensorFlow.
"""
