"""One training loop for every task and strategy.

Why not `fit`: Keras 3's `fit` fails under MultiWorkerMirroredStrategy, and has no room for exact resume. The loop below
is short: plan the epoch, run a step a batch, write a checkpoint, validate. Everything that decides the next step (weights,
moments, dropout's random state, the step itself, the best weights so far) is in the checkpoint, and the plan of the data
follows from the seed, so a training that was killed ends with the very weights of one that was not.

Over 300 lines in one module: `train` is to be read from top to bottom, beside what it is given and gives back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from bertline.models.adapters import lora
from bertline.models.adapters.gradient_checkpointing import recompute_layers
from bertline.models.data import batching
from bertline.models.data.class_balance import drawn_rows
from bertline.models.tasks.base.task import ACCURACY, Task
from bertline.models.training import precision
from bertline.models.training.checkpointing import Checkpoint
from bertline.models.training.distribution import join, scaled
from bertline.models.training.optimizer import Optimizer
from bertline.models.training.recipe import cannot_be_beaten
from bertline.models.training.step import epochs, evaluator, plan, step_function
from bertline.models.training.tensorboard import Curves
from bertline.models.training.weight_averaging import assign, trained_weights
from bertline.pipeline.config import TrainingConfig
from bertline.pipeline.core.errors import BertlineError, TrainingDivergedError


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

    def numbers(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class EpochRecord:
    """The evaluation examples after an epoch."""

    step: int
    epoch: int
    eval_loss: float
    eval_accuracy: float
    scores: Mapping[str, float] = field(default_factory=dict)
    """The task's own metrics."""

    def numbers(self) -> dict[str, float]:
        """All of them side by side. Where the task measures its accuracy itself, that is the one."""
        found = {name: value for name, value in asdict(self).items() if name != "scores"}
        return {**found, **{f"eval_{name}": value for name, value in self.scores.items()}}


class Phase(NamedTuple):
    """A part of a training: its rows, and its own epochs and batch size among the settings."""

    rows: batching.Corpus
    settings: TrainingConfig


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    model: Any
    """Plain and float32, whatever it was trained with."""
    steps: int
    resumed_at: int
    kept_step: int
    """The step whose weights the model has."""
    history: list[dict[str, Any]]
    unbeatable: bool = False
    """Whether it was over because every score was the best that there is."""


def train(
    build_model: Callable[[], Any],
    task: Task,
    settings: TrainingConfig,
    train_examples: batching.Corpus | Sequence[Phase],
    eval_examples: batching.Corpus,
    *,
    checkpoint_folder: Path,
    score: Callable[[Any], Mapping[str, float]] | None = None,
    start_counts: bool = False,
    ends_at_best: bool = False,
    report: Callable[[StepRecord | EpochRecord], None] = lambda record: None,
    saved: Callable[[], None] = lambda: None,
    tensorboard_folder: Path | None = None,
) -> TrainingResult:
    """Trains from the last checkpoint in `checkpoint_folder`, or from the start.

    Args:
      build_model: makes a model; called in the strategy's scope, after the seeds are set. It is called a second time for
        the model that is returned where the trained one has adapters or computes in another way.
      train_examples: or phases, gone through one after the other; epochs and steps are counted over all of them.
      score: (model) -> the task's own metrics on the evaluation examples, if it has any.
      start_counts: whether the model is a candidate before the first step, as one that a probe has made: it is measured,
        and kept where no epoch is better and `settings.restore_best` is set.
      ends_at_best: whether to stop when every score on the evaluation examples is the best that there is; at the start
        too, if that counts.
      report: is told of every step and every epoch.
      saved: is called after every checkpoint.
      tensorboard_folder: of this training's events, if `settings.tensorboard`; `tensorboard/NAME` beside the checkpoint
        folder by default, with the checkpoint folder's name.
    """
    devices = join(settings.devices)
    strategy = devices.strategy
    given = [Phase(train_examples, settings)] if isinstance(train_examples, batching.Corpus) else train_examples
    phases = [Phase(rows, scaled(of_phase, devices.replicas)) for rows, of_phase in given]
    settings = scaled(settings, devices.replicas)
    for phase in phases:
        _check(phase.settings, devices.replicas, phase.rows, eval_examples)
    phase_of = [number for number, phase in enumerate(phases) for _ in range(phase.settings.epochs)]  # by epoch
    plans = [_plan(phases[number], epoch, task.objective.class_key) for epoch, number in enumerate(phase_of)]
    ends = np.cumsum([len(planned) for planned in plans])
    total_steps = int(ends[-1])

    policy = precision.dtype_policy(settings.precision, precision.gpu_capabilities())
    keras.utils.set_random_seed(settings.seed)
    with strategy.scope():
        with precision.building_with(policy):
            model = _prepared(build_model(), settings)
        optimizer = Optimizer(
            model.trainable_variables,
            rule=settings.optimizer,
            schedule=settings.schedule,
            peak=settings.learning_rate or 5e-5,
            total_steps=total_steps,
            warmup=settings.warmup_ratio,
            weight_decay=settings.weight_decay,
            clip_norm=settings.clip_norm,
            layer_decay=settings.layer_decay,
            betas=(0.9, settings.beta_2),
            scale_loss=policy == "mixed_float16",
        )
    checkpoint = Checkpoint(
        checkpoint_folder, model, optimizer, settings.average_epochs, writes=devices.is_chief, saved=saved
    )
    start = step = checkpoint.restore()
    if devices.summed(start) != start * devices.processes:
        raise BertlineError(
            f"the processes of this training do not see the same checkpoints; this one resumes from step {start} of"
            f" {checkpoint_folder}. Give them a shared workspace."
        )
    best_epoch, recent = checkpoint.best_epoch, checkpoint.recent
    trained = {variable.path: variable for variable in model.trainable_variables}
    step_of = cache(lambda number: step_function(devices, model, task, optimizer, *phases[number]))  # traced once a phase
    left = [planned[max(0, start - int(end) + len(planned)) :] for planned, end in zip(plans, ends, strict=True)]

    @cache
    def stream_of(number: int) -> Iterator[Iterator[Any]]:
        of_phase = [planned for planned, phase in zip(left, phase_of, strict=True) if planned and phase == number]
        return epochs(devices, phases[number].rows, of_phase, phases[number].settings)

    # Evaluation examples are as long as those of the last phase.
    evaluate = evaluator(devices, model, task, eval_examples, phases[-1].settings)
    events = tensorboard_folder or checkpoint_folder.parent / "tensorboard" / checkpoint_folder.name
    curves = Curves(events, checkpoint.history) if settings.tensorboard and devices.is_chief else None

    def tell(record: StepRecord | EpochRecord) -> None:
        checkpoint.record(record.numbers())
        if curves:
            curves.write(record.numbers())
        report(record)

    def measure(epoch: int) -> None:
        with recent.mean():
            eval_loss, eval_accuracy = evaluate()
            scores = score(model) if score and devices.is_chief else {}
            measured = {"loss": eval_loss, ACCURACY: eval_accuracy, **scores}
            selection_loss = devices.from_chief(_selection_loss(task, settings.monitor, measured))
            tie = devices.from_chief(eval_loss)
            best_epoch.judge(step, selection_loss, lambda: trained_weights(trained) if settings.restore_best else {}, tie)
        tell(EpochRecord(step=step, epoch=epoch, eval_loss=eval_loss, eval_accuracy=eval_accuracy, scores=scores))

    def is_unbeatable() -> bool:  # processes must stop together, and only the chief knows scores
        return devices.from_chief(float(cannot_be_beaten(task, checkpoint.history))) > 0

    try:
        if start_counts and step == 0:
            measure(0)
        for epoch, planned in enumerate(plans):
            first = int(ends[epoch]) - len(planned)
            if step >= int(ends[epoch]):
                continue
            if settings.early_stopping_patience and best_epoch.stale_epochs >= settings.early_stopping_patience:
                break
            if ends_at_best and is_unbeatable():
                break
            step_fn = step_of(phase_of[epoch])
            began = time.perf_counter()
            for batch in next(stream_of(phase_of[epoch])):
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
                    raise TrainingDivergedError(
                        f"training: the loss is {loss} at step {step}; lower training.learning_rate"
                        f" (now {settings.learning_rate}) or raise training.warmup_ratio."
                    )
                tell(record)
                if settings.checkpoint_steps and step % settings.checkpoint_steps == 0 and step != ends[epoch]:
                    checkpoint.save(step)
            recent.add()
            measure(epoch + 1)
            checkpoint.save(step)
    finally:
        if curves:
            curves.close()
    recent.take_mean()
    assign(trained, best_epoch.best_weights)
    # Variables that several processes share could only be exported by all of them; a copy is this process's own.
    is_plain = _is_plain(settings, policy) and devices.processes == 1
    plain = model if is_plain else _plain_copy(model, build_model(), settings)
    return TrainingResult(
        model=plain,
        steps=step,
        resumed_at=start,
        kept_step=best_epoch.best_step if best_epoch.best_weights else step,
        history=checkpoint.history,
        unbeatable=ends_at_best and is_unbeatable(),
    )


def _check(
    settings: TrainingConfig, replicas: int, train_examples: batching.Corpus, eval_examples: batching.Corpus
) -> None:
    if not settings.batch_tokens and settings.batch_size % (replicas * settings.gradient_accumulation_steps):
        parts = (
            f" in {settings.gradient_accumulation_steps} parts (training.gradient_accumulation_steps)"
            if settings.gradient_accumulation_steps > 1
            else ""
        )
        raise BertlineError(
            f"training.batch_size={settings.batch_size} cannot be distributed evenly over {replicas} devices{parts}."
        )
    if len(train_examples) == 0:
        raise BertlineError("no training example has a usable text and label; see the ingest report of this run.")
    if len(eval_examples) == 0 and (settings.early_stopping_patience or settings.restore_best):
        raise BertlineError(
            "training.early_stopping_patience and training.restore_best need evaluation examples, and none has a"
            " usable text and label; add some, or leave these settings out."
        )


def _plan(phase: Phase, epoch: int, class_key: str | None) -> list[batching.Batch]:
    (rows, settings), lengths = phase, phase.rows.lengths
    if settings.sampling == "natural" or class_key is None:
        return plan(rows, settings, seed=settings.seed, epoch=epoch)
    drawn = drawn_rows(rows.targets[class_key], settings.sampling, seed=settings.seed, epoch=epoch)
    planned = batching.plan(lengths[drawn], settings.batch_size, settings.buckets, seed=settings.seed, epoch=epoch)
    return [replace(batch, rows=drawn[batch.rows]) for batch in planned]


def _prepared(model: Any, settings: TrainingConfig) -> Any:
    if settings.lora_rank:
        lora.adapt(model, rank=settings.lora_rank, alpha=settings.lora_alpha, seed=settings.seed)
    if settings.gradient_checkpointing:
        recompute_layers(lora.find_encoder(model).distinct_layers)
    return model


def _is_plain(settings: TrainingConfig, policy: str) -> bool:
    return not settings.lora_rank and not settings.gradient_checkpointing and policy == "float32"


def _plain_copy(model: Any, plain: Any, settings: TrainingConfig) -> Any:
    """Gives `plain`, fresh from `build_model`, the weights of `model`, with its adapters merged."""
    shared = lora.without_adapters(model) if settings.lora_rank else model.variables
    for source, target in zip(shared, plain.variables, strict=True):
        target.assign(source)
    if settings.lora_rank:
        lora.merge(model, plain)
    return plain


def _selection_loss(task: Task, monitor: str, measured: Mapping[str, float]) -> float:
    """What the epochs are compared by: less is better."""
    if monitor == "loss" or monitor not in measured:  # only the chief measures scores, and the others take its word
        return measured["loss"]
    value = measured[monitor]
    return float("inf") if np.isnan(value) else value if task.evaluation.metrics[monitor].better == "lower" else -value
