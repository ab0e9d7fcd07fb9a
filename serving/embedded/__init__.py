"""TensorFlow Serving's protocol on SavedModels, in this process: for a laptop, a test, a machine without the real one."""
