"""pyarrow, made safe for files of others; every module of the four packages takes it from here.

Up to release 14, pyarrow unpickles what the schema of a file calls an extension type (CVE-2023-47248): to open a Parquet
file is to run its author's code. TFX's libraries are built for release 10; `pyarrow_hotfix` switches these types off in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow_hotfix  # noqa: F401  its import is the mend; after pyarrow's own, which it alters

from bertline.pipeline.core.errors import BertlineError

__all__ = ["open_parquet", "pa", "pq", "unreadable"]

_FORBIDDEN = "arrow.py_extension_type"


def open_parquet(source: Any, name: str | Path) -> pq.ParquetFile:
    """Opens a Parquet file that anybody may have written.

    Args:
      source: a path or a binary stream.
      name: of the file, for messages.
    """
    try:
        return pq.ParquetFile(source)
    except RuntimeError as error:
        if _FORBIDDEN not in str(error):
            raise
        raise BertlineError(
            f"{name}: the file carries pickled Python code in its schema (the extension type {_FORBIDDEN}), which could run"
            " any code; none was run. Write the file again with plain columns."
        ) from None
    except pa.ArrowException as error:
        raise unreadable(name, error) from None


def unreadable(name: str | Path, error: Exception) -> BertlineError:
    """The sentence for what Arrow says of a file that is damaged, or no Parquet at all."""
    reason = str(error).strip().splitlines()[0].rstrip(".")
    return BertlineError(f"{name}: not readable as Parquet: {reason}; check data.format, or write the file again.")
