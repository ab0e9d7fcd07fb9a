"""The heads of a pushed model: what each is worth on evaluation examples, and the model without some of them.

    heads = PushedHeads("workspace/models/reviews/1", records)
    importance = heads.importance("gradient")
    lost = heads.least_important(importance, keep=36)
    heads.metrics(lost)             # with them masked
    heads.export(lost, "smaller")   # without them, for good

`pipeline/prune/heads.py` does it for `bertline prune`, with a record of it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import tensorflow as tf

from bertline.components.evaluator.predictions.in_process import asked_rows
from bertline.components.evaluator.predictions.scores import scores
from bertline.components.pusher.executor import model_digest
from bertline.components.serve_check.executor import read_samples
from bertline.models.adapters.head_importance import (
    Heads,
    Progress,
    by_ablation,
    by_gradient,
    least_important,
    mask_without,
    no_progress,
    present,
)
from bertline.models.adapters.lora import find_encoder
from bertline.models.adapters.pruning import prune_model
from bertline.models.checkpoints.from_saved_model import rebuild
from bertline.models.data.batching import by_length, padded
from bertline.models.data.example_parsing import features_of
from bertline.models.kinds import need_encoder
from bertline.models.tasks.base.task import Tensors, as_learned, expanded, get_task
from bertline.pipeline.config import nearest, task_names
from bertline.pipeline.config.renamed import current_section
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.contract import read_metadata
from bertline.serving.embedded.errors import RequestError
from bertline.serving.export.exporter import export_whole
from bertline.serving.export.samples import Row

By = Literal["gradient", "ablation"]
FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_ROWS_AT_ONCE = 32
_PARSED_AT_ONCE = 1024
_OF_A_PUSH = ("digest", "version", "mlflow_run_id")
"""What metadata says of the push of one model, and not of another made from it."""


class Point(NamedTuple):
    """What a model is worth with some of its heads."""

    keep: float
    """The share that is left."""
    heads: int
    value: float


class PushedHeads:
    """The heads of a model that the pipeline has exported, and rows that tell what each is worth.

    Args:
      folder: of the SavedModel, with its metadata.
      records: evaluation examples: serialized Examples, as Ingest writes them.
    """

    def __init__(self, folder: str | Path, records: Sequence[bytes]) -> None:
        self.folder = Path(folder)
        check_prunable(self.folder)
        if not records:
            raise BertlineError(f"{self.folder}: no evaluation examples to measure its heads on; give some by --data.")
        task, self.context, self.model = rebuild(self.folder)
        self.task = as_learned(task, self.context.pretraining)
        self.size = find_encoder(self.model).size
        self.count = int(present(self.size).sum())
        """Heads that it has."""
        self._rows = list(self._batches(records))
        self._ask = self._asked()

    def metric(self, name: str | None) -> str:
        """The metric of a name; the first that the task is measured by without one."""
        known = [
            name for name, metric in self.task.evaluation.metrics.items() if metric.is_measured(len(self.context.labels))
        ]
        if name is not None and name not in known:
            hint = nearest(name, known)
            raise BertlineError(f"the task {self.task.name} has no metric {name!r}{hint}; it has {', '.join(known)}.")
        return name or known[0]

    def metrics(self, lost: Heads | None = None) -> dict[str, float]:
        """Every metric of the task, with some of the heads masked."""
        return self._scores(mask_without(self.size, lost or {}))

    def importance(self, by: By, metric: str | None = None, progress: Progress = no_progress) -> np.ndarray:
        """[layers, heads]: see `models/adapters/head_importance.py`.

        Args:
          metric: what an ablation is measured by.
        """
        if by not in get_args(By):
            raise BertlineError(f"importance is measured by {' or '.join(get_args(By))}. Received: {by!r}")
        if by == "gradient":
            rows = list(self._labelled())
            if not rows:
                raise BertlineError(f"{self.folder}: no example has a known label, so there is no loss.")
            return by_gradient(self.task, self.context, self.model, rows, progress)
        name = self.metric(metric)
        return by_ablation(
            lambda mask: self._scores(mask)[name], self.size, self.task.evaluation.metrics[name].better, progress
        )

    def least_important(self, importance: np.ndarray, keep: int) -> Heads:
        """The heads to lose, so that so many are left."""
        if not 0 < keep < self.count:
            raise BertlineError(
                f"the model has {self.count} heads; keep at least one, and fewer than that. Received: {keep}"
            )
        lost = self._without(importance, keep)
        if not lost:
            raise BertlineError(
                f"its {self.size.layers} layers share their heads, so they can only be removed together; keep fewer."
            )
        return lost

    def curve(
        self,
        importance: np.ndarray,
        metric: str | None = None,
        fractions: Sequence[float] = FRACTIONS,
        progress: Progress = no_progress,
    ) -> list[Point]:
        """The metric with smaller and larger shares of the heads, the least important masked first."""
        name = self.metric(metric)
        found = []
        for done, fraction in enumerate(fractions, 1):
            keep = min(self.count, max(1, round(fraction * self.count)))
            lost = self._without(importance, keep)
            left = int(mask_without(self.size, lost).sum())
            found.append(Point(left / self.count, left, self.metrics(lost)[name]))
            progress(done, len(fractions))
        return found

    def export(self, lost: Heads, out: str | Path) -> Path:
        """Writes the model without these heads, with everything that the other has. `out` is whole, or not there at all."""
        out = Path(out)
        if out.exists():
            raise BertlineError(f"{out} already exists; name another folder by --out, or remove it first.")
        smaller = prune_model(self.task, self.context, self.model, lost)
        # No format of ALBERT's says which heads are gone, so its encoder stays inside the model.
        without = replace(self.task.model, heads=None)
        task = replace(self.task, model=without) if self.size.shared_layers else self.task
        partial = out.absolute().parent / f".{out.name}.{os.getpid()}.partial"
        partial.mkdir(parents=True)
        try:
            export_whole(
                task,
                self.context,
                smaller,
                str(partial),
                self._metadata(smaller),
                rows=self._sample_rows(),
                name=str(read_metadata(self.folder).get("pipeline", "model")),
                vocab_path=str(self.folder / "assets" / "vocab.txt"),
            )
            partial.rename(out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return out

    def _without(self, importance: np.ndarray, keep: int) -> Heads:
        return least_important(importance, keep, shared=self.size.shared_layers)

    def _metadata(self, smaller: Any) -> dict[str, Any]:
        before = read_metadata(self.folder)
        kept = {name: value for name, value in before.items() if name not in _OF_A_PUSH}
        size = find_encoder(smaller).size
        pruned = {"digest": line_digest(self.folder), "heads": int(present(size).sum()), "of": size.layers * size.heads}
        # What is not said in older metadata was the default then, and is what the model was rebuilt by.
        text = {"lowercase": True, "strip_accents": None, **current_section("text", kept.get("text", {}))}
        return {**kept, "text": text, "pruned": pruned}

    def _sample_rows(self) -> list[Row]:
        """What the model brings along as samples: its smaller self brings the same, with its own answers."""
        names = self.task.preprocessing.input_names or self.context.text_keys
        try:
            asked = [sample.inputs for sample in read_samples(self.folder) if sample.inputs.keys() == set(names)]
        except RequestError as error:
            raise BertlineError(f"{self.folder}: its sample requests cannot be read: {error}") from None
        return [{name: _plain(inputs[name][0]) for name in names} for inputs in asked]

    def _batches(self, records: Sequence[bytes]) -> Iterator[Tensors]:
        spec = [tf.TensorSpec([None], tf.string)]
        made = tf.function(lambda some: features_of(some, self.task, self.context), input_signature=spec, autograph=False)
        parts = (records[begin : begin + _PARSED_AT_ONCE] for begin in range(0, len(records), _PARSED_AT_ONCE))
        return by_length((made(tf.constant(part)) for part in parts), _ROWS_AT_ONCE)

    def _labelled(self) -> Iterator[Tensors]:
        """Batches without the rows that have no label to be learned from."""
        weight = next(iter(self.task.evaluation.outputs.values())).weight
        for features in self._rows:
            usable = self.task.evaluation.targets(features)[weight] > 0
            if tf.reduce_any(usable):
                yield {name: tf.ragged.boolean_mask(value, usable) for name, value in features.items()}

    def _asked(self) -> Callable[[Tensors, tf.Tensor], Tensors]:
        task, context, model, encoder = self.task, self.context, self.model, find_encoder(self.model)

        @tf.function(reduce_retracing=True, autograph=False)
        def ask(features: Tensors, mask: tf.Tensor) -> Tensors:
            batch = task.evaluation.prepare(padded(expanded(task, features, context)))
            with encoder.masking(mask):
                outputs = task.serving.predict(model, batch, context)
            return {**task.evaluation.measure(outputs, batch, context), **task.evaluation.targets(features)}

        return ask

    def _scores(self, mask: np.ndarray) -> dict[str, float]:
        answers = (self._ask(features, tf.constant(mask, tf.float32)) for features in self._rows)
        batches = ({name: value.numpy() for name, value in batch.items()} for batch in answers)
        return scores(asked_rows(self.task, self.context.labels, batches, self.context.decision))


def check_prunable(folder: Path) -> None:
    """Refuses a model of which no heads can be removed, before anything is loaded."""
    metadata = read_metadata(folder)
    need_encoder(folder, metadata, "so there are no heads to remove")
    task = metadata.get("task")
    if task in task_names() and get_task(task).model.make_encoder:
        raise BertlineError(
            f"{folder}: its task is {task}, with an encoder and a decoder; only heads of BERT's encoder can be removed."
        )


def line_digest(folder: Path) -> str:
    """The digest of the model that the pipeline has made: of one that was pruned, that of the first one."""
    metadata: Mapping[str, Any] = read_metadata(folder)
    return metadata.get("pruned", {}).get("digest") or metadata.get("digest") or model_digest(folder)


def _plain(value: Any) -> bytes | list[bytes]:
    return value.tolist() if isinstance(value, np.ndarray) else bytes(value)
