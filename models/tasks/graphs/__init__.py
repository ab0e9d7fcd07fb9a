"""What needs TensorFlow of each task."""
