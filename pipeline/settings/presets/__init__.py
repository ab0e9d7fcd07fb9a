"""Configs that are named instead of a file."""
