"""Simple answers to every task, measured on the same evaluation examples by the same metrics as the model.

A model is worth its trouble where it beats what counting words does in seconds.

    data.py         the raw Examples of both splits, and the model's rows that they belong to
    scoring.py      predictions beside the model's own, and the project's metrics of them
    features.py     TF-IDF over words and characters, and how far the two texts of a pair overlap
    linear.py       logistic and ridge regression over these
    classes.py      one class, or any number of them       numbers.py   numbers and similarities
    choices.py      endings                                 tagging.py   tags of words
    answering.py    spans of a text                         matching.py  search
    translation.py  texts that are written                  probe.py    the linear model on the frozen encoder's vectors
    measuring.py    which baselines a task has, and what they come to
    judging.py      whether the model loses to one of them, by more than noise

scikit-learn is imported where something is learned, and nowhere else: the command line and cached runs do without it.
"""
