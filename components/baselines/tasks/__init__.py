"""The baselines of each task."""
