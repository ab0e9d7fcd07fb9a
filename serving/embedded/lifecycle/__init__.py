"""Versions of models: found, loaded, swapped and unloaded."""
