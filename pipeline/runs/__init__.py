"""The record of runs, read back and compared."""
