"""A client of any TensorFlow Serving. It imports no TensorFlow."""
