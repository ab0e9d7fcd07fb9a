"""The mark of words that stood together, in a module of its own: clients know it without TensorFlow."""

JOINER = "\uffed"
"""Stands at that side of a mark of punctuation, or of a Chinese character, on which there was no space, where that is to be
known: in `"(a)"` both brackets have one, and the word is the same as elsewhere. It is dropped from texts."""
