"""The metrics that a config may name: those of its task."""

from __future__ import annotations

from collections.abc import Iterator

from bertline.pipeline.config import Config, nearest

_LOSS = "loss"
"""What a training may be chosen by beside the metrics."""


def metric_names(task: str) -> tuple[str, ...]:
    """
    >>> metric_names("regression")
    ('pearson', 'spearman', 'mean_squared_error')
    """
    from bertline.models.tasks.base.task import get_task  # brings numpy, which a command's help does without

    return tuple(get_task(task).evaluation.metrics)


def mistakes(config: Config) -> Iterator[tuple[str, str]]:
    """Each setting that names a metric which the task does not have, and what is wrong with it."""
    known = metric_names(config.task)
    evaluation = config.evaluation
    for section, named in (("thresholds", evaluation.thresholds), ("slice_thresholds", evaluation.slice_thresholds)):
        for name in named:
            if name not in known:
                yield f"evaluation.{section}.{name}", _unknown(name, known, config.task)
    training = config.training
    if "monitor" not in training.recipe and training.monitor not in (*known, _LOSS):
        yield "training.monitor", _unknown(training.monitor, (*known, _LOSS), config.task)


def _unknown(name: str, known: tuple[str, ...], task: str) -> str:
    return f"the task {task} has no metric {name!r}{nearest(name, known)}; it has {', '.join(known)}"
