"""Parquet, a batch of rows at a time and only the columns that are needed."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from bertline.components.ingest.files import open_bytes
from bertline.components.ingest.readers.records import BadRow, Row, make_row
from bertline.pipeline.config import DataConfig

if TYPE_CHECKING:
    from bertline.pipeline.core.arrow import pa

_BATCH_ROWS = 1024


def columns(path: str, data: DataConfig) -> list[str]:
    from bertline.pipeline.core.arrow import open_parquet

    with open_bytes(path) as stream:
        return list(open_parquet(stream, path).schema_arrow.names)


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    from bertline.pipeline.core.arrow import open_parquet, pa, unreadable

    number = 0
    try:
        with open_bytes(path) as stream:
            file = open_parquet(stream, path)
            kept = [name for name in file.schema_arrow.names if columns is None or name in columns]
            for batch in file.iter_batches(_BATCH_ROWS, columns=kept):
                for values in _plain(batch):
                    number += 1
                    yield make_row(path, number, values, columns, list_columns=data.list_columns)
    except pa.ArrowException as error:
        raise unreadable(path, error) from None


def _plain(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    try:
        return batch.to_pylist()
    except UnicodeDecodeError:  # Arrow does not check a string's bytes; one wrong cell must not cost its whole batch
        return [
            {name: _cell(batch.column(at)[row]) for at, name in enumerate(batch.schema.names)}
            for row in range(batch.num_rows)
        ]


def _cell(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.as_buffer().to_pybytes()
