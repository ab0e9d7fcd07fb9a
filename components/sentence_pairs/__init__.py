"""Pre-training examples from documents."""
