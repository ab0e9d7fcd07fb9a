"""What can be learned from a table."""
