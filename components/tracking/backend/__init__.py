"""What tells MLflow, in a process of its own."""
