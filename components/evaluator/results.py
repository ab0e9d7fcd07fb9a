"""What TFMA has measured, as plain numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import tensorflow_model_analysis as tfma

from bertline.components.evaluator.metrics import PER_CLASS
from bertline.components.evaluator.verdict import OVERALL, ROWS, Slices, slice_name
from bertline.models.tasks.base.task import Task

_DIFFERENCE = "_diff"
"""Ends the names under which TFMA gives how far a candidate is from its baseline."""


def results_of(output: str, model_name: str | None, task: Task) -> tuple[Slices, Slices]:
    """TFMA's metrics of one model as plain numbers, and the scores of classes beside them."""
    slices: Slices = {}
    per_class: Slices = {}
    for key, outputs in tfma.load_eval_result(output, model_name=model_name).slicing_metrics:
        found = {
            name: value for output in outputs.values() for of_class in output.values() for name, value in of_class.items()
        }
        name = ", ".join(slice_name(column, value) for column, value in key) or OVERALL
        slices[name] = _numbers(
            {metric: found[metric] for metric in (*task.evaluation.metrics, ROWS) if metric in found}, task
        )
        if name == OVERALL:
            per_class = _per_class(found)
    return dict(sorted(slices.items(), key=lambda item: _natural(item[0]))), per_class


def _per_class(found: Mapping[str, Any]) -> Slices:
    """The scores whose names say of which class they are."""
    classes: Slices = {}
    for metric, value in found.items():
        if metric.startswith(PER_CLASS):
            name, _, score = metric.removeprefix(PER_CLASS).rpartition("/")
            if score.endswith(_DIFFERENCE):
                continue
            classes.setdefault(name, {})[score] = float(value["doubleValue"])
    return classes


def _numbers(found: Mapping[str, Any], task: Task) -> dict[str, float]:
    """What TFMA measured, and what follows from it, in the task's order."""
    numbers = {name: float(value["doubleValue"]) for name, value in found.items()}
    for name, metric in task.evaluation.metrics.items():
        if metric.function:
            numbers[name] = metric.function(numbers[metric.of])
    return {name: numbers[name] for name in (*task.evaluation.metrics, ROWS) if name in numbers}


def _natural(name: str) -> list[str]:
    """Sorts numbers in names by their value: 5-9 words before 10-19 words."""
    return [f"{int(part):09d}" if part.isdigit() else part for part in re.split(r"(\d+)", name)]
