"""Pushed models that answer, here or at a server."""
