"""Rows that were written as they came, put into one file by their ids; what is held in memory is bounded."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice

import numpy as np

from bertline.components.evaluator.predictions.rows import ID, ROWS_IN_GROUP, Description
from bertline.pipeline.core.arrow import pa, pq

_BYTES_AT_ONCE = 64 << 20
"""Parts larger than this are sorted piece by piece."""
_BATCHES_AT_ONCE = 256
_MAX_PIECES = 256
"""Files that are open at once."""


def write_sorted(parts: Sequence[str], path: str, description: Description, at_once: int = _BYTES_AT_ONCE) -> int:
    """Puts the rows of the parts into one file, sorted by id, and says how many they are.

    Ids are digests, so their first digits deal the rows evenly to as many pieces as fit into memory one at a time.

    Args:
      at_once: bytes of a piece.
    """
    if not parts:
        return 0
    size = sum(os.path.getsize(part) for part in parts)
    pieces = min(_MAX_PIECES, 1 + size // at_once)
    dealt = [list(parts)] if pieces == 1 else _dealt(parts, pieces)
    with pa.ipc.open_file(parts[0]) as first, ExitStack() as stack:
        schema = description.on(first.schema)
        writer = stack.enter_context(pq.ParquetWriter(path, schema, compression="zstd"))
        rows = 0
        for piece in dealt:
            table = _sorted(pa.Table.from_batches(list(_batches(piece)), first.schema))
            writer.write_table(table.cast(schema), row_group_size=ROWS_IN_GROUP)
            rows += table.num_rows
    return rows


def _batches(parts: Iterable[str]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        with pa.ipc.open_file(part) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


def _dealt(parts: Sequence[str], pieces: int) -> list[list[str]]:
    """The rows of the parts in files by the begin of their ids, in its order."""
    paths = [os.path.join(os.path.dirname(parts[0]), f"piece-{piece}.arrow") for piece in range(pieces)]
    with ExitStack() as stack:
        with pa.ipc.open_file(parts[0]) as first:
            writers = [stack.enter_context(pa.ipc.new_file(path, first.schema)) for path in paths]
        batches = _batches(parts)
        # Many at once: of a single one, each piece would get hardly a row.
        while group := list(islice(batches, _BATCHES_AT_ONCE)):
            table = pa.Table.from_batches(group).combine_chunks()
            begins = np.asarray([int(name[:4], 16) for name in table[ID].to_pylist()])
            of_rows = begins * pieces >> 16
            for piece in np.unique(of_rows):
                writers[piece].write_table(table.take(pa.array(np.flatnonzero(of_rows == piece))))
    return [[path] for path in paths]


def _sorted(table: pa.Table) -> pa.Table:
    """By id; of rows that are equal, the second is -2, the third -3."""
    seen: dict[str, int] = {}
    names = []
    for name in table[ID].to_pylist():
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    table = table.set_column(0, ID, pa.array(names, pa.string()))
    return table.take(pa.array(np.argsort(np.asarray(names, str), kind="stable")))
