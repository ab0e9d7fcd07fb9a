"""Texts to tokens, inside the graph."""
