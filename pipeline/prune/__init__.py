"""Heads of a pushed model removed, with a record of it."""
