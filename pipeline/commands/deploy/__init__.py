"""Commands that hand a pipeline to a cluster."""
