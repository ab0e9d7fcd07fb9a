"""Encoders by their family."""
