"""The page on which a model is tried in a browser: its files, what it is told of the models, and what explains answers.

Predictions go through TensorFlow Serving's own REST API, as everybody's do. What the page needs beside it stands under
`/page/`, where TensorFlow Serving has nothing.
"""
