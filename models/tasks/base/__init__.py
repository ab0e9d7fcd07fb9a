"""What a task is."""
