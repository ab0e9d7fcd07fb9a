"""One training loop for every task and strategy."""
