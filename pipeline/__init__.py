"""The command line and all that runs the steps of `components` as one pipeline."""
