"""What outlives a killed training: the last complete checkpoint, the history, and the best weights so far."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from bertline.models.training.optimizer import Optimizer
from bertline.models.training.weight_averaging import RecentWeights
from bertline.pipeline.core.errors import BertlineError

_BEST = "best/"


@dataclass
class BestEpoch:
    """What the evaluation examples have said so far: decides when to stop and which weights to keep."""

    best_loss: float = float("inf")
    """Or whatever else is judged by: less is better."""
    best_tie: float = float("inf")
    """The evaluation loss of the best step, which decides between equals: of few evaluation examples, or of rare classes,
    a metric often stays what it was while the model still learns."""
    best_step: int = 0
    stale_epochs: int = 0
    """Epochs since it was lowest."""
    best_weights: dict[str, np.ndarray] = field(default_factory=dict)
    """Trained weights of the best step, by path; empty if nobody asked to keep them."""

    def judge(self, step: int, loss: float, weights: Callable[[], Mapping[str, np.ndarray]], tie: float = 0.0) -> None:
        if (loss, tie) < (self.best_loss, self.best_tie):
            self.best_loss, self.best_tie, self.best_step, self.stale_epochs = loss, tie, step, 0
            self.best_weights = dict(weights())
        else:
            self.stale_epochs += 1

    def tensors(self) -> dict[str, np.ndarray]:
        numbers = {
            "held_out/best_loss": np.asarray([self.best_loss], np.float64),
            "held_out/best_tie": np.asarray([self.best_tie], np.float64),
            "held_out/best_step": np.asarray([self.best_step], np.int64),
            "held_out/stale_epochs": np.asarray([self.stale_epochs], np.int64),
        }
        return numbers | {f"{_BEST}{path}": value for path, value in self.best_weights.items()}

    def restore(self, tensors: Mapping[str, np.ndarray]) -> None:
        self.best_loss = float(tensors["held_out/best_loss"][0])
        # A checkpoint of before has none, and an equal epoch after it then counts as no better.
        self.best_tie = float(tensors.get("held_out/best_tie", [float("-inf")])[0])
        self.best_step = int(tensors["held_out/best_step"][0])
        self.stale_epochs = int(tensors["held_out/stale_epochs"][0])
        self.best_weights = {name.removeprefix(_BEST): v for name, v in tensors.items() if name.startswith(_BEST)}


class Checkpoint:
    """The last state of a training: one safetensors file and the history so far.

    A file is written under another name and renamed, so the newest complete one is always whole.

    Args:
      writes: whether this process does; the others of a cluster read what it has written.
      saved: is called when another state is whole.
    """

    def __init__(
        self,
        folder: Path,
        model: Any,
        optimizer: Optimizer,
        average: int = 1,
        *,
        writes: bool = True,
        saved: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder, self._writes, self._saved_one = folder, writes, saved
        self.recent = RecentWeights(model, average)
        self.history: list[dict[str, Any]] = []
        self.best_epoch = BestEpoch()
        folder.mkdir(parents=True, exist_ok=True)
        self._history_path = folder / "history.jsonl"
        self._variables = {f"model/{v.path}": v.value for v in model.variables}
        if len(self._variables) != len(model.variables):
            raise AssertionError("two weights of the model share a path; give their layers distinct names")
        self._variables |= {f"optimizer/{name}": variable for name, variable in optimizer.state.items()}

    def _saved(self) -> Iterator[tuple[int, Path]]:
        for path in sorted(self.folder.glob("step-*.safetensors")):
            yield int(path.stem.removeprefix("step-")), path

    def restore(self) -> int:
        """Returns the step that was restored, 0 if there was none."""
        *_, (step, path) = [(0, None), *self._saved()]
        if path is None:
            if self._writes:
                self._history_path.unlink(missing_ok=True)
            return 0
        with safe_open(path, "np") as tensors:
            names = set(tensors.keys())
            others = {name for name in names if name.startswith(("held_out/", _BEST)) or RecentWeights.is_of(name)}
            if names - others != set(self._variables):
                raise BertlineError(f"{path}: written by another model; remove the folder to start afresh.")
            for name, variable in self._variables.items():
                variable.assign(tensors.get_tensor(name).reshape(variable.shape))
            found = {name: tensors.get_tensor(name) for name in others}
            self.best_epoch.restore(found)
            self.recent.restore(found)
        lines = self._history_path.read_text().splitlines() if self._history_path.exists() else []
        self.history = [record for record in map(json.loads, lines) if record["step"] <= step]
        if self._writes:  # under another name first: other processes of a cluster read it at this moment
            unfinished = self._history_path.with_suffix(".part")
            unfinished.write_text("".join(json.dumps(record) + "\n" for record in self.history))
            unfinished.rename(self._history_path)
        return step

    def record(self, record: dict[str, Any]) -> None:
        self.history.append(record)
        if not self._writes:
            return
        with self._history_path.open("a") as file:
            file.write(json.dumps(record) + "\n")

    def save(self, step: int) -> None:
        if not self._writes:
            return
        older = [path for _, path in self._saved()]
        target = self.folder / f"step-{step:09d}.safetensors"
        unfinished = target.with_suffix(".part")
        tensors = {name: np.ascontiguousarray(v.numpy()) for name, v in self._variables.items()}
        save_file(tensors | self.best_epoch.tensors() | self.recent.tensors(), str(unfinished))
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.rename(target)
        for path in older:
            if path != target:
                path.unlink()
        self._saved_one()
