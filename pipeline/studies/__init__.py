"""Several runs of one pipeline that are looked at together."""
