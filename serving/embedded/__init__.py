"""TensorFlow Serving's protocol on SavedModels, in this process: for a laptop, a test, a machine without the real one."""

from bertline.serving import lean_tensorflow  # noqa: F401  before any module here, or of TensorFlow Serving's, imports all of it
