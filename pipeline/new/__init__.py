"""`bertline new DATA`: looks at data and writes a config for it, to be read and corrected by a person."""

from __future__ import annotations

from pathlib import Path

from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new.inspection import describe
from bertline.pipeline.new.writer import as_yaml, config_name

__all__ = ["describe", "write_config"]


def write_config(
    path: str,
    out: str,
    *,
    format: str | None = None,
    task: str | None = None,
    checkpoint: str | None = None,
    query: str | None = None,
) -> str:
    """Writes a commented config for a data file, a folder or a query, and returns its text. Never overwrites a file."""
    target = Path(out)
    if target.exists():  # before the look at the data, which can take a while
        raise BertlineError(f"{out}: the file exists; remove it, or give another with --out.")
    text = as_yaml(describe(path, format=format, task=task, query=query), config_name(path), target.parent, checkpoint)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise BertlineError(f"{out}: cannot be written: {error.strerror}.") from None
    return text
