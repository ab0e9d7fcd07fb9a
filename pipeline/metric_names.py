"""The metrics that a config may name, known without TensorFlow: they are read from the source of its task."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from pipeline.config import Config, nearest

_TASKS = Path(__file__).parents[1] / "models" / "tasks"
_LOSS = "loss"
"""What a training may be chosen by beside the metrics."""


@lru_cache
def metric_names(task: str) -> tuple[str, ...]:
    """The names in the task's `metrics={…}`; none where they are not written out there, and nothing can be said of them.

    >>> metric_names("regression")
    ('pearson', 'spearman', 'mean_squared_error')
    """
    # To import the task would load TensorFlow, which takes seconds: too long to wait for a misspelt word.
    tree = ast.parse((_TASKS / f"{task}.py").read_text(encoding="utf-8"))
    found = [node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "metrics"]
    if len(found) != 1 or not isinstance(found[0], ast.Dict):
        return ()
    names = [key.value for key in found[0].keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return tuple(names) if len(names) == len(found[0].keys) else ()


def mistakes(config: Config) -> Iterator[tuple[str, str]]:
    """Each setting that names a metric which the task does not have, and what is wrong with it."""
    known = metric_names(config.task)
    if not known:
        return
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
