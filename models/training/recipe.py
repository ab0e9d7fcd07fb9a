"""How long and how fast to train, from the data: what an experienced user would set, with the reason for each value.

Steps and not epochs decide: of few examples, two epochs are a handful of steps that change nothing, and of many, each epoch
is thousands. Nothing here was tuned to one data set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bertline.models.encoders.bert.config import EncoderSize
from bertline.models.tasks.base.task import Task, epoch_scores
from bertline.pipeline.config import TrainingConfig

_SMALL = 2_000
"""Examples below which a batch has half as many, so that an epoch has steps enough."""
_STEPS, _STEPS_FROM_SCRATCH = 400, 3_000
"""That a training should have at the least. Not many more: the rate falls to 0 over them, and a training that stops early
has only seen its high end. 2,000 film reviews came to an accuracy of 0.83 in 6 whole epochs, and to 0.81 in 8 of 13."""
_EPOCHS, _EPOCHS_FROM_SCRATCH = (3, 15), (5, 60)
_MAX_STEPS = 8_000
"""More than one epoch is for data that leaves fewer."""
_PATIENCE = 3
_TOKENS_AT_ONCE = 4096
"""Of windows that are learned from together: with six layers of 384 numbers, 8 windows of 512 tokens take 3 GB."""
_MAX_KEPT = 3e9
"""Bytes that a training keeps for the gradients of a part, estimated; where it would be more, layers are computed twice,
which takes a quarter more time."""
_EXACT = 1e-9
_FROM_PROBE = 5e-5
"""The highest learning rate under a head that a probe has learned: it is right already, and large steps throw away what it
reads: with 1e-4 the film reviews' accuracy fell to 0.68 in one epoch and rose to 0.83 in the next, at twice the loss."""


class Chosen(NamedTuple):
    settings: TrainingConfig
    reasons: Mapping[str, str]
    """Of each value that was chosen, as `10: 1,000 steps for 3,200 examples`."""


def choose(
    task: Task,
    settings: TrainingConfig,
    *,
    examples: int,
    evaluated: int,
    classes: int,
    hidden: int,
    from_checkpoint: bool,
    probed: bool = False,
) -> Chosen:
    """The settings with what `settings.recipe` leaves to the data.

    Args:
      examples: to learn from.
      evaluated: examples that each epoch is measured on.
      hidden: width of the encoder.
      probed: whether the head begins as a probe has learned it.
    """
    recipe = set(settings.recipe)
    found: dict[str, tuple[Any, str]] = {}
    small = examples < _SMALL
    if "batch_size" in recipe:
        found["batch_size"] = (16 if small else 32), f"{examples:,} examples"
    batch = found["batch_size"][0] if "batch_size" in found else settings.batch_size
    an_epoch = max(1, math.ceil(examples / batch))
    if "epochs" in recipe:
        least, most = _EPOCHS if from_checkpoint else _EPOCHS_FROM_SCRATCH
        wanted = math.ceil((_STEPS if from_checkpoint else _STEPS_FROM_SCRATCH) / an_epoch)
        epochs = min(max(least, wanted), most, max(1, _MAX_STEPS // an_epoch))
        found["epochs"] = epochs, f"{epochs * an_epoch:,} steps of {batch} examples at most"
    if "learning_rate" in recipe:
        if from_checkpoint:
            # Narrow encoders bear, and want, larger steps: the usual 2e-5 to 5e-5 are those of BERT-base and -large.
            rate = 1e-4 if hidden <= 384 else 5e-5 if hidden <= 768 else 2e-5
            why = f"an encoder of width {hidden}"
            if probed and rate > _FROM_PROBE:
                rate, why = _FROM_PROBE, f"{why}, with the head of the probe"
            found["learning_rate"] = rate, why
        else:
            rate = 1e-3 if hidden <= 256 else 5e-4
            found["learning_rate"] = rate, f"from scratch, width {hidden}"
    if evaluated and "epochs" in found:
        if "restore_best" in recipe:
            found["restore_best"] = True, f"by {evaluated:,} evaluation examples after each epoch"
        if "early_stopping_patience" in recipe and found["epochs"][0] > _PATIENCE:
            found["early_stopping_patience"] = _PATIENCE, "epochs without a better one end the training"
        if "monitor" in recipe:
            found["monitor"] = _best_by(task, classes, settings.monitor)
    values = {name: value for name, (value, _) in found.items()}
    return Chosen(settings.model_copy(update=values), {name: f"{value}  ({why})" for name, (value, why) in found.items()})


def parts_of_windows(batch_size: int, windows: int, seq_len: int, replicas: int) -> int:
    """Parts that a batch of long texts is worked through in, so that each has no more windows than a batch has examples
    and no more tokens than fit into memory, where it can be divided so. A text stays in one piece.

    Args:
      windows: of a text at most.
      seq_len: tokens of a window.

    >>> parts_of_windows(32, 8, 128, 1), parts_of_windows(16, 8, 512, 1), parts_of_windows(24, 8, 128, 2)
    (8, 16, 4)
    """
    most, parts = min(batch_size, max(1, _TOKENS_AT_ONCE // seq_len)), 1
    while batch_size * windows > parts * most and 2 * parts <= batch_size and batch_size % (2 * parts * replicas) == 0:
        parts *= 2
    return parts


def keeps_too_much(tokens: int, seq_len: int, size: EncoderSize) -> bool:
    """Whether the encoder would keep more for its gradients than a machine can be expected to have.

    Counted are the float32 numbers that each layer keeps of a token: five quarters of a weight for each other token and
    head, six times the widened state, and twenty times the state. The measured peak is about a tenth more.

    Args:
      tokens: that are learned from at once, padding included.
      seq_len: tokens that see each other.
    """
    of_token = 1.25 * size.heads * seq_len + 6 * size.intermediate + 20 * size.hidden
    return 4 * of_token * tokens * size.layers > _MAX_KEPT


def cannot_be_beaten(task: Task, history: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all answers of the last epoch that was measured were right, by every score. Not of numbers: of few, a
    correlation is easily 1.

    Args:
      history: of a training, also of one that goes on after it was killed.
    """
    measured = next((record for record in reversed(history) if "eval_loss" in record), dict[str, Any]())
    scores = [measured[f"eval_{name}"] for name in task.evaluation.metrics if f"eval_{name}" in measured]
    return bool(scores) and all(value >= 1 - _EXACT for value in (*scores, measured["eval_accuracy"]))


def _best_by(task: Task, classes: int, judged_by: str) -> tuple[str, str]:
    """The metric that the thresholds name first, where it is measured after an epoch: what decides about the model at the
    end should choose its best epoch. Of rare classes, nearly all examples are right at any epoch."""
    if judged_by in epoch_scores(task, classes):
        return judged_by, "the metric that evaluation.thresholds names first"
    return main_score(task, classes), "what the task is measured by"


def main_score(task: Task, classes: int) -> str:
    """What an epoch is best by: the task's first score that is measured after each; of classes, how many are right."""
    scores = epoch_scores(task, classes)
    return "micro_f1" if "micro_f1" in scores else next(iter(scores), "loss")
