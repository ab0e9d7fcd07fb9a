"""The one exception a user is meant to read."""


class BertlineError(Exception):
    """Something the user can mend: the message says what was wrong, where, and what to do.

    The command line prints it as one sentence without a stack trace; everything else that escapes is a fault of
    ours and keeps its trace in the log file.
    """
