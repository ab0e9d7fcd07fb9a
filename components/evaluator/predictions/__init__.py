"""The evaluation examples of a run, each with the model's answer: kept by the Evaluator, read by whoever looks closer.

    writer.py       keeps them, from TFMA's own extracts; parts.py sorts them
    rows.py         the file, and what it says of itself
    asked.py        the same rows of a model that is asked here, without Beam and TFMA
    scores.py       every metric again, with the interval that a bootstrap gives it
    outcomes.py     which answers are right, the worst mistakes, what changed between two models
    curves.py       what the plots of plots.py are drawn from; translation_plots.py has those of translations
    error_records.py  the worst mistakes as plain values

Reading needs no TensorFlow.
"""
