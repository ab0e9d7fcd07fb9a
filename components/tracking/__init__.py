"""The record of every run in MLflow, never in the way of the run.

    tracker.py     what the pipeline tells of a run, appended to a journal
    journal.py     the journal, a file in the workspace
    process.py     starts the sender, a process of its own
    sender.py      has journals told to MLflow, again and again until all is told
    round.py       one pass over them
    operations.py  what each entry of a journal is in MLflow
    words.py       why a store failed, without its secrets
    registry.py    models, versions and aliases
    files.py       which files of a run's steps are kept
    system.py      versions, commit and load

The sender imports MLflow, which takes seconds; the pipeline does not.
"""
