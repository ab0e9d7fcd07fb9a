"""Scores as plain functions."""
