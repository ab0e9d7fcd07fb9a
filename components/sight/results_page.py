"""What an evaluator found as a page, and as the parts of another page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from components.sight.certainty import charts
from components.sight.confusion import matrix, most_mixed
from components.sight.drawing import scale_of, whisker
from components.sight.page import SCRIPT, Page, render
from components.sight.results import Results, Score, Slice

_MOST_MIXED = 10
_MOST_BASELINE_METRICS = 6  # columns of their table; those with a threshold are the first
_MOST_SLICES, _MOST_CLASSES = 100, 200  # that a page shows, the largest ones
Found = TypeVar("Found")
_BAR = 200  # the width of a picture in a table, in its own units


def results_page(results: Results, name: str) -> Page:
    """Args: name: of the pipeline."""
    view = results_view(results)
    parts = [
        ("metrics", "Metrics"),
        *([("slices", "Slices")] if view["slices"] else []),
        *([("classes", "Classes")] if view["classes"] else []),
        *([("errors", "Mistakes")] if view["errors"] or view["matrix"] else []),
    ]
    title = f"{name} on {results.rows:,} held-out rows"
    template = Path(__file__).with_name("results.html")
    return render(template, {"title": title, "parts": parts, "results_view": view}, scripts=[SCRIPT])


def results_view(results: Results) -> dict[str, Any]:
    """All that the parts of `results_parts.html` show, ready to be shown."""
    confusion = results.confusion
    has_intervals = any(score.low is not None for score in results.scores)
    slices = _largest(results.slices, [part.rows for part in results.slices], _MOST_SLICES)
    counts = [list(found.values())[-1] or 0 for found in results.classes.values()]
    classes = dict(_largest(tuple(results.classes.items()), counts, _MOST_CLASSES))
    return {
        "blessed": results.blessed,
        "reasons": results.reasons,
        "notes": results.notes,
        "metrics": [_metric(score, results) for score in results.scores],
        "has_bounds": any(score.bound is not None for score in results.scores),
        "has_before": any(score.before is not None for score in results.scores),
        "test_rows": f"{results.test_rows:,}" if results.test else "",
        "explanation": _explanation(results) if has_intervals else "",
        "instead": f"{results.instead[:1].upper()}{results.instead[1:]}." if results.instead else "",
        "positive": _positive(results) if results.positive else "",
        "decided": list(results.decided_how.items()),
        "charts": charts(results.certainty) if results.certainty else [],
        "baselines": _baselines(results),
        "baseline_notes": results.baseline_notes,
        "slices": list(_slice_tables(results, slices)),
        "slices_left_out": len(results.slices) - len(slices),
        "classes": _classes(classes),
        "classes_left_out": len(results.classes) - len(classes),
        "class_scores": list(next(iter(results.classes.values()), {})),
        "matrix": matrix(confusion) if confusion else None,
        "mixed": [
            {"true": pair.true, "answered": pair.answered, "count": f"{pair.rows:,}", "share": f"{pair.share:.1%}"}
            for pair in (most_mixed(confusion, _MOST_MIXED) if confusion and len(confusion.labels) > 2 else ())
        ],
        "errors": [_error(record, results.text_keys) for record in results.errors],
        "text_keys": results.text_keys,
    }


def shown(value: float | None, signed: bool = False) -> str:
    if value is None:
        return "–"
    return f"{value:+.4f}" if signed else f"{value:.4f}"


def measured(value: float | None) -> str:
    """A metric that was to be measured: without a value it is undefined on these rows."""
    return "undefined" if value is None else shown(value)


def interval(low: float | None, high: float | None, signed: bool = False) -> str:
    return "" if low is None or high is None else f"[{shown(low, signed)}, {shown(high, signed)}]"


def _metric(score: Score, results: Results) -> dict[str, Any]:
    chance = f"always {results.majority[0]!r}: {results.majority[1]:.4f}" if results.majority else ""
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
        "note": chance if score.metric == "accuracy" else "",
    }


def _tested(score: Score | None) -> dict[str, str]:
    """A metric on the test examples."""
    if score is None:
        return {"value": "", "interval": ""}
    return {"value": measured(score.value), "interval": interval(score.low, score.high)}


def _baselines(results: Results) -> dict[str, Any] | None:
    """The metrics that any baseline has, below the model's own, which stand in the first row; None without any."""
    measured = {name for found in results.baselines.values() for name in found}
    names = [score.metric for score in results.scores if score.metric in measured][:_MOST_BASELINE_METRICS]
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
        f"In brackets the {results.level:.0%} interval, by bootstrap over the held-out rows: how far it would move"
        " with other rows of the same kind. Another seed of the same training may differ by more."
    )


def _positive(results: Results) -> str:
    return f"f1, precision and recall are of {results.positive!r}, the positive class ({results.positive_why})."


def _largest(found: Sequence[Found], counts: Sequence[float], most: int) -> list[Found]:
    """Those that count most, in their own order."""
    kept = set(sorted(range(len(found)), key=lambda at: -counts[at])[:most])
    return [each for at, each in enumerate(found) if at in kept]


def _slice_tables(results: Results, slices: Sequence[Slice]) -> Iterator[dict[str, Any]]:
    """One a metric, those with a bound first, each on a scale of its own."""
    for overall in results.scores:
        found = [(part, score) for part in slices for score in part.scores if score.metric == overall.metric]
        if not found:
            continue
        ends = [end for _, score in found for end in (score.value, score.low, score.high)]
        bounds = [score.bound for _, score in found if score.bound is not None]
        scale = scale_of([*ends, overall.value, *bounds])
        yield {
            "metric": overall.metric,
            "begin": f"{scale.begin:.3g}",
            "end": f"{scale.end:.3g}",
            "overall": None if overall.value is None else scale.place(overall.value, _BAR),
            "told": measured(overall.value),
            "bound": scale.place(bounds[0], _BAR) if bounds else None,
            "bound_told": f"{bounds[0]:g}" if bounds else "",
            "rows": [_slice_row(part, score, scale) for part, score in found],
        }


def _slice_row(part: Slice, score: Score, scale: Any) -> dict[str, Any]:
    return {
        "name": part.name,
        "count": f"{part.rows:,}",
        "is_small": not part.judged,
        "value": measured(score.value),
        "interval": interval(score.low, score.high),
        "keeps": score.keeps,
        "bar": whisker(scale, score.value, score.low, score.high, _BAR),
    }


def _classes(classes: Mapping[str, Mapping[str, float | None]]) -> list[dict[str, Any]]:
    found = []
    for name, scores in classes.items():
        *values, counted = scores.values()
        found.append({"name": name, "cells": [*map(measured, values), "–" if counted is None else f"{counted:,.0f}"]})
    return found


def _error(record: dict[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    texts = [" / ".join(text) if isinstance(text, list) else text for text in (record[key] for key in keys)]
    return {
        "expected": record["expected"],
        "answered": record["answered"],
        "badness": f"{record['badness']:.3f}",
        "texts": texts,
    }
