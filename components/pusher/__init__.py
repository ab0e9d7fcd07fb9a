"""A model becomes a numbered version that a server never sees half-copied."""
