"""The vocabulary: given, or learned from the training texts."""
