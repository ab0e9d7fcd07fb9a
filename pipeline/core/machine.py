"""What the machine refuses: a full disk, a folder that may not be written to, a path that cannot be.

The user can mend it, so it is one sentence, wherever it came up and however it was wrapped on its way.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.paths import from_here

_REASONS = {
    errno.ENOSPC: "the disk is full; free some space, or name a folder on another disk",
    errno.EDQUOT: "your disk quota is used up; free some space, or use a folder on another disk",
    errno.EROFS: "the file system is read-only; name a folder that can be written to",
    errno.EACCES: "you are not allowed to; change its permissions, or name another path",
    errno.EPERM: "you are not allowed to; change its permissions, or name another path",
    errno.ENOTDIR: "a part of the path is a file, and no folder; name another path",
    errno.ENAMETOOLONG: "the name is too long; name a shorter one",
    errno.ELOOP: "links lead to each other in a circle; name another path",
}
# Libraries in C++ and databases say it in words, and keep no number.
_SAID = {
    "no space left on device": errno.ENOSPC,
    "database or disk is full": errno.ENOSPC,
    "disk quota exceeded": errno.EDQUOT,
    "read-only file system": errno.EROFS,
    "attempt to write a readonly database": errno.EROFS,
}


def refusal(error: BaseException) -> BertlineError | None:
    """What the machine refused, if that is behind the error; None where it is a fault of ours."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in _REASONS:
            path = f"{from_here(cause.filename)}: " if isinstance(cause.filename, str) else ""
            return BertlineError(f"{path}{_REASONS[cause.errno]}.")
    for cause in _causes(error):
        text = str(cause).lower()
        if number := next((number for words, number in _SAID.items() if words in text), None):
            return BertlineError(f"{_REASONS[number]}.")
    return None


def require_workspace(workspace: str | Path) -> None:
    """Refuses a workspace that cannot be written to before anything is loaded or computed."""
    try:
        Path(workspace).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=workspace):
            pass
    except OSError as error:
        known = {**_REASONS, errno.EEXIST: "it is a file, and no folder"}
        reason = known.get(error.errno or 0, str(error.strerror)).partition("; ")[0]
        raise BertlineError(
            f"the workspace {from_here(workspace)} cannot be written to: {reason}; name another folder with --workspace."
        ) from None


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
