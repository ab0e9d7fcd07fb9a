"""The real TensorFlow Serving: files, flags, manifests, and the process."""
