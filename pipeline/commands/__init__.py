"""The commands of `bertline`, a module each."""
