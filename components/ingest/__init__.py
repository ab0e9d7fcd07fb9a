"""Raw files become Examples: one reader a format, hashed or given splits, bad rows to a quarantine with reasons.

`files` finds and digests the files, `readers` reads them as rows, `rows` decides what becomes of each, `report` counts
and judges, `run` does all of it as one Beam pipeline, and `component` is the TFX door to it. Only the last two import
anything heavy.
"""
