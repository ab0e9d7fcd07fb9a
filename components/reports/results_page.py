"""What an evaluator found as a page, and as the parts of another page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertline.components.reports.cards import metric_cards, verdict_card
from bertline.components.reports.certainty import charts
from bertline.components.reports.charts import baseline_chart, class_chart, slice_charts, slices_left_out
from bertline.components.reports.confusion import matrix, most_mixed
from bertline.components.reports.page import SCRIPT, Page, render
from bertline.components.reports.results import Results, Score
from bertline.components.reports.words import interval, measured, shown

_MAX_MIXED = 10
_MAX_BASELINE_METRICS = 6  # columns of their table; those with a threshold are the first


def results_page(results: Results, name: str) -> Page:
    """Args: name: of the pipeline."""
    view = results_view(results)
    parts = [
        ("overview", "Overview"),
        ("metrics", "Metrics"),
        *([("slices", "Slices")] if view["slices"] else []),
        *([("classes", "Classes")] if view["classes"] else []),
        *([("errors", "Errors")] if view["errors"] or view["matrix"] else []),
    ]
    title = f"{name} on {results.rows:,} evaluation examples"
    template = Path(__file__).parent / "templates" / "results.html"
    cards = [verdict_card(results), *metric_cards(results)]
    return render(template, {"title": title, "parts": parts, "results_view": view, "cards": cards}, scripts=[SCRIPT])


def results_view(results: Results) -> dict[str, Any]:
    """All that the parts of `results_parts.html` show, ready to be shown."""
    confusion = results.confusion
    has_intervals = any(score.low is not None for score in results.scores)
    return {
        "notes": results.notes,
        "metrics": [_metric(score, results) for score in results.scores],
        "has_bounds": any(score.bound is not None for score in results.scores),
        "has_before": any(score.before is not None for score in results.scores),
        "test_rows": f"{results.test_rows:,}" if results.test else "",
        "explanation": _explanation(results) if has_intervals else "",
        "chance": _chance(results),
        "instead": f"{results.instead[:1].upper()}{results.instead[1:]}." if results.instead else "",
        "positive": _positive(results) if results.positive else "",
        "decided": list(results.decided_how.items()),
        "charts": charts(results.certainty) if results.certainty else [],
        "baselines": _baselines(results),
        "baseline_notes": results.baseline_notes,
        "baseline_chart": baseline_chart(results),
        "slices": list(slice_charts(results)),
        "slices_left_out": slices_left_out(results),
        "has_small": any(not part.judged for part in results.slices),
        "classes": class_chart(results),
        "matrix": matrix(confusion) if confusion else None,
        "mixed": [
            {"true": pair.true, "answered": pair.answered, "count": f"{pair.rows:,}", "share": f"{pair.share:.1%}"}
            for pair in (most_mixed(confusion, _MAX_MIXED) if confusion and len(confusion.labels) > 2 else ())
        ],
        "errors": [_error(record, results.text_keys) for record in results.errors],
        "text_keys": results.text_keys,
    }


def _metric(score: Score, results: Results) -> dict[str, Any]:
    return {
        "name": score.metric,
        "is_lower": score.metric in results.less_is_better,
        "value": measured(score.value),
        "interval": interval(score.low, score.high),
        "test": _tested(results.test.get(score.metric)),
        "bound": "" if score.bound is None else f"{score.bound:g}",
        "keeps": score.keeps,
        "before": "" if score.before is None else shown(score.before),
        "change": {"told": _change(score), "interval": "", "verdict": ""},
    }


def _tested(score: Score | None) -> dict[str, str]:
    """A metric on the test examples."""
    if score is None:
        return {"value": "", "interval": ""}
    return {"value": measured(score.value), "interval": interval(score.low, score.high)}


def _baselines(results: Results) -> dict[str, Any] | None:
    """The metrics that any baseline has, below the model's own, which stand in the first row; None without any."""
    measured = {name for found in results.baselines.values() for name in found}
    names = [score.metric for score in results.scores if score.metric in measured][:_MAX_BASELINE_METRICS]
    if not names:
        return None
    of_model = {score.metric: score.value for score in results.scores}
    rows = {"this model": of_model, **results.baselines}
    known = {name: [value for found in rows.values() if (value := found.get(name)) is not None] for name in names}
    best = {name: (min if name in results.less_is_better else max)(values) for name, values in known.items()}
    return {
        "metrics": [{"name": name, "is_lower": name in results.less_is_better} for name in names],
        "rows": [
            {
                "name": row,
                "cells": [
                    {"value": shown(found.get(name)), "is_best": found.get(name) is not None and found[name] == best[name]}
                    for name in names
                ],
            }
            for row, found in rows.items()
        ],
    }


def _change(score: Score) -> str:
    return "" if score.value is None or score.before is None else shown(score.value - score.before, signed=True)


def _explanation(results: Results) -> str:
    return (
        f"In brackets the {results.level:.0%} interval, by bootstrap over the evaluation examples: how far it would vary"
        " with other examples of the same kind. Another seed of the same training may differ by more."
    )


def _chance(results: Results) -> str:
    if not results.majority or not any(score.metric == "accuracy" for score in results.scores):
        return ""
    label, reached = results.majority
    return f"Always predicting {label!r}, the most frequent class, has an accuracy of {reached:.4f}."


def _positive(results: Results) -> str:
    return f"f1, precision and recall are of {results.positive!r}, the positive class ({results.positive_why})."


def _error(record: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    texts = [" / ".join(text) if isinstance(text, list) else text for text in (record[key] for key in keys)]
    return {
        "expected": record["expected"],
        "answered": record["answered"],
        "badness": f"{record['badness']:.3f}",
        "texts": texts,
    }
