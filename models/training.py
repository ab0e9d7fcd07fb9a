"""One training loop for every task and strategy.

Why not `fit`: Keras 3's `fit` fails under MultiWorkerMirroredStrategy, and has no room for exact resume. The loop below
is short: plan the epoch, run a step a batch, write a checkpoint, validate. Everything that decides the next step (weights,
moments, dropout's random state, the step itself) is in the checkpoint, and the plan of the data follows from the seed, so
a training that was killed ends with the very weights of one that was not.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from safetensors import safe_open
from safetensors.numpy import save_file

from models import inputs
from models.optimizer import AdamW
from models.task import Task
from pipeline.config import TrainingConfig
from pipeline.errors import BertlineError


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """What one step did; also a line of `history.jsonl`."""

    step: int
    total_steps: int
    epoch: float
    loss: float
    accuracy: float
    learning_rate: float
    tokens_per_second: float


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """The held-out rows after an epoch."""

    step: int
    epoch: int
    eval_loss: float
    eval_accuracy: float


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    model: Any
    steps: int
    resumed_at: int
    history: list[dict[str, Any]]


def choose_strategy(devices: tuple[str, ...]) -> tf.distribute.Strategy:
    """MirroredStrategy over the named devices, or over every GPU, or on the CPU."""
    names = list(devices) or [f"GPU:{i}" for i, _ in enumerate(tf.config.list_logical_devices("GPU"))] or ["CPU:0"]
    known = {f"{device.device_type}:{device.name.rsplit(':', 1)[1]}" for device in tf.config.list_logical_devices()}
    missing = [name for name in names if name not in known]
    if missing:
        raise BertlineError(
            f"training.devices: {', '.join(missing)} not found; this machine has {', '.join(sorted(known))}."
        )
    # One CPU needs no mirroring; the default strategy takes the same code path without its overhead.
    return tf.distribute.get_strategy() if names == ["CPU:0"] else tf.distribute.MirroredStrategy(names)


def train(
    build_model: Callable[[], Any],
    task: Task,
    settings: TrainingConfig,
    train_rows: inputs.Corpus,
    eval_rows: inputs.Corpus,
    *,
    checkpoint_folder: Path,
    report: Callable[[StepRecord | EpochRecord], None] = lambda record: None,
) -> TrainingResult:
    """Trains from the last checkpoint in `checkpoint_folder`, or from the start.

    Args:
      build_model: makes the model; called in the strategy's scope, after the seeds are set.
      report: is told of every step and every epoch.
    """
    strategy = choose_strategy(settings.devices)
    replicas = strategy.num_replicas_in_sync
    if settings.batch_size % replicas:
        raise BertlineError(f"training.batch_size={settings.batch_size} cannot be dealt out to {replicas} devices evenly.")
    if len(train_rows) == 0:
        raise BertlineError("no training row has a usable text and label; see the ingest report of this run.")
    plans = [_plan(train_rows, settings, epoch) for epoch in range(settings.epochs)]
    ends = np.cumsum([len(planned) for planned in plans])
    total_steps = int(ends[-1])

    keras.utils.set_random_seed(settings.seed)
    with strategy.scope():
        model = build_model()
        optimizer = AdamW(
            model.trainable_variables,
            peak=settings.learning_rate or 5e-5,
            total_steps=total_steps,
            warmup=settings.warmup,
            weight_decay=settings.weight_decay,
            clip_norm=settings.clip_norm,
        )
    checkpoint = Checkpoint(checkpoint_folder, model, optimizer)
    start = step = checkpoint.restore()
    step_fn = _step_function(strategy, model, task, optimizer, train_rows, settings)
    evaluate = evaluator(model, task)

    for epoch, planned in enumerate(plans):
        first = int(ends[epoch]) - len(planned)
        if step >= int(ends[epoch]):
            continue
        dataset = inputs.batches(train_rows, planned[step - first :], settings.batch_size)
        began = time.perf_counter()
        for batch in strategy.experimental_distribute_dataset(dataset):
            loss, accuracy, tokens = (float(value) for value in step_fn(batch))
            step += 1
            now = time.perf_counter()
            record = StepRecord(
                step=step,
                total_steps=total_steps,
                epoch=round(epoch + (step - first) / len(planned), 4),
                loss=loss,
                accuracy=accuracy,
                learning_rate=float(optimizer.learning_rate(step - 1)),
                tokens_per_second=round(tokens / (now - began), 1),
            )
            began = now
            if not np.isfinite(loss):
                raise BertlineError(
                    f"training: the loss is {loss} at step {step}; lower training.learning_rate"
                    f" (now {settings.learning_rate}) or raise training.warmup."
                )
            checkpoint.record(record)
            report(record)
            if settings.checkpoint_steps and step % settings.checkpoint_steps == 0 and step != ends[epoch]:
                checkpoint.save(step)
        eval_loss, eval_accuracy = evaluate(eval_rows, settings)
        epoch_record = EpochRecord(step=step, epoch=epoch + 1, eval_loss=eval_loss, eval_accuracy=eval_accuracy)
        checkpoint.record(epoch_record)
        report(epoch_record)
        checkpoint.save(step)
    return TrainingResult(model=model, steps=step, resumed_at=start, history=checkpoint.history)


def _plan(rows: inputs.Corpus, settings: TrainingConfig, epoch: int) -> list[inputs.Batch]:
    return inputs.plan(rows.lengths, settings.batch_size, settings.buckets, seed=settings.seed, epoch=epoch)


def _step_function(
    strategy: tf.distribute.Strategy,
    model: Any,
    task: Task,
    optimizer: AdamW,
    rows: inputs.Corpus,
    settings: TrainingConfig,
) -> Callable[[Any], tuple[Any, Any, Any]]:
    """One traced step for all lengths: the signature leaves the length open, so nothing is traced twice."""

    @tf.function(jit_compile=settings.xla, autograph=False)
    def gradients(batch: dict[str, tf.Tensor]) -> tuple[Any, ...]:
        with tf.GradientTape() as tape:
            logits = model(batch, training=True)
            loss = tf.reduce_sum(batch["weight"] * task.loss(logits, batch))
        found = tape.gradient(loss, [weight.value for weight in model.trainable_variables])
        accuracy = tf.reduce_sum(batch["weight"] * task.correct(logits, batch))
        real = tf.cast(batch["mask"], tf.float32) * tf.cast(batch["weight"] > 0, tf.float32)[:, tf.newaxis]
        return found, loss, accuracy, tf.reduce_sum(real)

    def replica_step(batch: dict[str, tf.Tensor]) -> tuple[Any, ...]:
        found, *numbers = gradients(batch)
        optimizer.apply(found)
        return tuple(numbers)

    example = inputs.batches(rows, [inputs.Batch(np.zeros(1, np.int64), 4)], settings.batch_size)
    spec = strategy.experimental_distribute_dataset(example).element_spec

    @tf.function(input_signature=[spec], autograph=False)
    def step(batch: Any) -> tuple[Any, ...]:
        numbers = strategy.run(replica_step, args=(batch,))
        return tuple(strategy.reduce(tf.distribute.ReduceOp.SUM, number, axis=None) for number in numbers)

    return step


def evaluator(model: Any, task: Task) -> Callable[[inputs.Corpus, TrainingConfig], tuple[float, float]]:
    """Mean loss and accuracy over a corpus, in batches of like length."""

    @tf.function(reduce_retracing=True, autograph=False)
    def numbers(batch: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        logits = model(batch, training=False)
        return (
            tf.reduce_sum(batch["weight"] * task.loss(logits, batch)),
            tf.reduce_sum(batch["weight"] * task.correct(logits, batch)),
        )

    def evaluate(rows: inputs.Corpus, settings: TrainingConfig) -> tuple[float, float]:
        planned = inputs.plan(rows.lengths, settings.batch_size, settings.buckets, seed=None)
        sums = np.zeros(2)
        for batch, part in zip(inputs.batches(rows, planned, settings.batch_size), planned, strict=True):
            sums += len(part.rows) * np.asarray([float(value) for value in numbers(batch)])
        loss, accuracy = sums / max(1, len(rows))
        return float(loss), float(accuracy)

    return evaluate


class Checkpoint:
    """The last state of a training: one safetensors file and the history so far.

    A file is written under another name and renamed, so the newest complete one is always whole.
    """

    def __init__(self, folder: Path, model: Any, optimizer: AdamW) -> None:
        self.folder, self.history = folder, []  # type: ignore[var-annotated]
        folder.mkdir(parents=True, exist_ok=True)
        self._history_path = folder / "history.jsonl"
        self._variables = {f"model/{v.path}": v.value for v in model.variables}
        if len(self._variables) != len(model.variables):
            raise AssertionError("two weights of the model share a path; give their layers distinct names")
        self._variables |= {f"optimizer/{v.name}": v for v in (optimizer.step, *optimizer.means, *optimizer.squares)}

    def _saved(self) -> Iterator[tuple[int, Path]]:
        for path in sorted(self.folder.glob("step-*.safetensors")):
            yield int(path.stem.removeprefix("step-")), path

    def restore(self) -> int:
        """Returns the step that was restored, 0 if there was none."""
        *_, (step, path) = [(0, None), *self._saved()]
        if path is None:
            self._history_path.unlink(missing_ok=True)
            return 0
        with safe_open(path, "np") as tensors:
            names = set(tensors.keys())
            if names != set(self._variables):
                raise BertlineError(f"{path}: written by another model; remove the folder to start afresh.")
            for name, variable in self._variables.items():
                variable.assign(tensors.get_tensor(name).reshape(variable.shape))
        lines = self._history_path.read_text().splitlines() if self._history_path.exists() else []
        self.history = [record for record in map(json.loads, lines) if record["step"] <= step]
        self._history_path.write_text("".join(json.dumps(record) + "\n" for record in self.history))
        return step

    def record(self, record: StepRecord | EpochRecord) -> None:
        self.history.append(asdict(record))
        with self._history_path.open("a") as file:
            file.write(json.dumps(self.history[-1]) + "\n")

    def save(self, step: int) -> None:
        older = [path for _, path in self._saved()]
        target = self.folder / f"step-{step:09d}.safetensors"
        unfinished = target.with_suffix(".part")
        save_file({name: np.ascontiguousarray(v.numpy()) for name, v in self._variables.items()}, str(unfinished))
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.rename(target)
        for path in older:
            if path != target:
                path.unlink()
