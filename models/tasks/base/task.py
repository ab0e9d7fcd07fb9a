"""What a task is: a value that says how text and labels become tensors, what is learned, and how it is judged."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bertline.models.metrics import extra as extra_metrics
from bertline.models.metrics.accumulators import family_of
from bertline.models.responses.base import ResponseSpec
from bertline.models.tasks.base.later import Part, changed
from bertline.models.tasks.base.parts import (
    LABELS,
    MISSING,
    Configuration,
    Context,
    Evaluation,
    Fallback,
    Inspection,
    Metric,
    Model,
    Objective,
    Output,
    Preprocessing,
    Raw,
    Recognition,
    Serving,
    Signature,
    Tensors,
)
from bertline.pipeline.config import CHOICES, PretrainingConfig, own_tasks, task_names
from bertline.pipeline.core import plugins
from bertline.pipeline.core.errors import BertlineError

if TYPE_CHECKING:  # so that not every step that knows its task runs again when the code of these sections changes
    from bertline.pipeline.config import Pooling, TrainingConfig

__all__ = [
    "LABELS", "MISSING", "Configuration", "Context", "Evaluation", "Fallback", "Inspection", "Metric", "Model",
    "Objective", "Output", "Preprocessing", "Raw", "Recognition", "Serving", "Signature", "Task", "Tensors",
    "as_learned", "check_label", "check_test", "check_texts", "check_training", "expanded", "get_task", "is_task",
    "epoch_scores", "kind_for", "raw_features", "tasks_with",
]  # fmt: skip

ACCURACY = "accuracy"
"""The metric that is the fraction of examples predicted correctly (`Objective.correct`), of the tasks that have it."""


@dataclass(frozen=True, kw_only=True)
class Task(Part):
    """One file in `models/tasks/` makes one of these and calls it `TASK`.

    Tensors travel under names. `preprocessing.features` makes them from the raw columns of Examples, `expand` makes more
    examples of them where the model reads one in parts, `inputs.padded` makes a batch of them, the model of `model.build`
    turns a batch into outputs, `serving.signature` the outputs into what a caller of the served model reads.
    """

    name: str
    preprocessing: Preprocessing
    model: Model
    objective: Objective
    evaluation: Evaluation
    serving: Serving
    inspection: Inspection | None = None
    """Without it, answers are not explained."""
    config: Configuration = Configuration()


def raw_features(task: Task, text_keys: Sequence[str]) -> dict[str, Raw]:
    """Everything of an Example that `Preprocessing.features` reads, by its name."""
    texts = () if task.preprocessing.number_keys else text_keys
    return {
        **{name: Raw("string", is_list=name == CHOICES) for name in texts},
        **({"label": LABELS[task.preprocessing.label]} if task.preprocessing.label else {}),
        **{name: Raw(dtype, is_list=True) for name, dtype in task.preprocessing.list_keys.items()},
        **{name: Raw("int64", is_list=True) for name in task.preprocessing.number_keys},
    }


def expanded(task: Task, features: Tensors, context: Context, *, training: bool = False) -> Tensors:
    """The features of what the model reads."""
    return task.preprocessing.expand(features, context, training) if task.preprocessing.expand else features


def as_learned(task: Task, settings: PretrainingConfig) -> Task:
    """The task, measured by nothing that a pipeline with these settings does not learn."""
    given = task.evaluation
    left_out = given.left_out(settings)
    metrics = {name: metric for name, metric in given.metrics.items() if name not in left_out}
    measured = {metric.output for metric in metrics.values()}
    confusion = given.confusion if given.confusion in measured else None
    return replace(task, evaluation=replace(given, metrics=metrics, confusion=confusion))


def check_texts(task: Task, text_keys: Sequence[str], pooling: Pooling | None = None) -> None:
    """Refuses examples with fewer or more texts than the task or the pooling reads, before the run starts."""
    if CHOICES in task.preprocessing.text_keys and CHOICES not in text_keys:
        raise BertlineError(f"data.choices: the task {task.name} needs the columns to choose from, as [a, b, c, d].")
    if CHOICES in text_keys and CHOICES not in task.preprocessing.text_keys:
        raise BertlineError(f"data.choices: the task {task.name} does not choose; leave it out, or set task: choice.")
    given, known = (sum(key != CHOICES for key in keys) for keys in (text_keys, task.preprocessing.text_keys))
    least, most = task.preprocessing.min_texts, known
    if not least <= given <= most:
        wanted = f"{least}" if least == most else f"{least} or {most}"
        raise BertlineError(
            f"data.text: the task {task.name} reads {wanted} text{'s' * (most > 1)} per example, and the config names"
            f" {given}; name as many columns."
        )
    if pooling == "pair" and (given != 2 or not task.model.linear_probe):
        raise BertlineError(
            "model.pooling: pair compares the two texts of an example, for a class or a number; here the task is"
            f" {task.name} with {given} text{'s' * (given > 1)}. Leave it out, or choose pooler, cls or mean."
        )


def check_label(task: Task, column: str | None) -> None:
    """Refuses a config with a label that the task would not look at, before the run starts."""
    if task.preprocessing.label is None and column is not None:
        raise BertlineError(f"data.label: the task {task.name} learns from the texts alone; leave it out.")


def check_test(task: Task, path: str | None) -> None:
    """Refuses test examples of a task that is measured on examples which its own pipeline has made."""
    if path is not None and task.preprocessing.number_keys:
        raise BertlineError(
            f"data.test: the task {task.name} is measured on pairs that are made of documents; leave it out."
        )


def epoch_scores(task: Task, classes: int | None = None) -> list[str]:
    """The metrics that are measured after each epoch: those that add up over examples, or else how many are predicted
    correctly.

    Args:
      classes: how many there are; None before that is known.
    """
    metrics = {
        name: metric for name, metric in task.evaluation.metrics.items() if classes is None or metric.is_measured(classes)
    }
    return [name for name, metric in metrics.items() if family_of(metric.tfma)] or [
        name for name in metrics if name == ACCURACY
    ]


def check_training(task: Task, training: TrainingConfig, crf: bool) -> None:
    """Refuses settings that the task's loss does not know, before the run starts."""
    together = "with model.crf, which learns whole sequences of tags" if crf else f"of the task {task.name}"
    if training.label_smoothing and (crf or task.objective.smoothing is None):
        raise BertlineError(f"training.label_smoothing: the loss {together} cannot be smoothed; leave it out.")
    if training.class_weights and (crf or task.objective.class_weights is None):
        raise BertlineError(f"training.class_weights: the loss {together} has no weights of classes; leave them out.")
    if task.model.make_encoder and (training.lora_rank or training.gradient_checkpointing):
        raise BertlineError(
            f"training.lora_rank, training.gradient_checkpointing: they are for BERT's encoder; the task {task.name} has"
            " another model. Leave them out."
        )
    known = ["loss", *epoch_scores(task)]
    if "monitor" not in training.recipe and training.monitor not in known:
        raise BertlineError(
            f"training.monitor: {training.monitor!r} is not measured after an epoch of the task {task.name};"
            f" choose {', '.join(known)}."
        )
    if training.sampling != "natural" and task.preprocessing.label != "class":
        raise BertlineError(
            f"training.sampling: examples of the task {task.name} do not have one class each to be sampled by; leave it"
            " out."
        )


def is_task(name: object) -> bool:
    """Whether a task of this name is known here; a model may be of one that is not."""
    return name in task_names()


def get_task(name: str) -> Task:
    """The task of a name, ours or a registered one, with the metrics that other packages add."""
    if name in own_tasks() and name not in plugins.registered(plugins.TASKS):
        return _with_extra_metrics(importlib.import_module(f"bertline.models.tasks.{name}").TASK)
    task: Task = plugins.load(plugins.TASKS, name, Task, own_tasks())
    if task.name != name:
        owner = plugins.owner(plugins.point_of(plugins.TASKS, name))
        raise BertlineError(f"the task {name!r} of the package {owner} calls itself {task.name!r}; both must be one name.")
    return _with_extra_metrics(task)


def _with_extra_metrics(task: Task) -> Task:
    """A metric of the same family says which output a further one is of."""
    given = task.evaluation
    of_family: dict[str | None, str] = {}
    for metric in given.metrics.values():
        of_family.setdefault(family_of(metric.tfma), metric.output)
    extra = {}
    for name in extra_metrics.names():
        found = extra_metrics.get(name)
        if found.family not in of_family:
            continue
        if name in given.metrics:
            owner = plugins.owner(plugins.point_of(plugins.METRICS, name))
            raise BertlineError(
                f"the metric {name!r} of the package {owner}: the task {task.name} has one of this name; have it renamed."
            )
        extra[name] = Metric(name, of_family[found.family], better=found.better)
    return changed(task, evaluation=changed(given, metrics={**given.metrics, **extra})) if extra else task


def kind_for(task: str, signature: str | None = None) -> ResponseSpec[Any] | None:
    """How the answers of a task are read, or those of one of its models' further signatures, by their names.

    >>> kind_for("tagging") is TAGGED, kind_for("matching", "embed") is EMBEDDED, kind_for("tagging", "other")
    (True, True, None)
    """
    if not is_task(task):
        return None
    serving = get_task(task).serving
    if signature is None:
        return serving.response
    return serving.signatures[signature].response if signature in serving.signatures else None


def tasks_with(response: ResponseSpec[Any]) -> list[str]:
    """The tasks whose served models answer so.

    >>> tasks_with(SIMILAR)
    ["matching", "similarity"]
    """
    return [name for name in task_names() if get_task(name).serving.response is response]
