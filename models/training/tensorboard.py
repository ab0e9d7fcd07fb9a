"""Learning curves for TensorBoard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

_NOT_CURVES = ("step", "total_steps", "epoch")


class Curves:
    """One scalar event for every number of every record.

    Args:
      folder: of this training alone: events in it are replaced. An earlier, killed part of the training may have written
        steps that are done again now, and TensorBoard would show both.
      history: the records up to now.
    """

    def __init__(self, folder: Path, history: Iterable[Mapping[str, Any]]) -> None:
        for path in folder.glob("events.out.tfevents.*"):
            path.unlink()
        self._writer = tf.summary.create_file_writer(str(folder))
        for record in history:
            self.write(record)

    def write(self, record: Mapping[str, Any]) -> None:
        with self._writer.as_default(step=record["step"]):
            for name, value in record.items():
                if name not in _NOT_CURVES:
                    tf.summary.scalar(name, value)

    def close(self) -> None:
        self._writer.close()
