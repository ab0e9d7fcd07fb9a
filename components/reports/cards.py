"""What is read first: the verdict with its reasons, and the metrics that it hangs on with their intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bertline.components.reports.charts import score_chart
from bertline.components.reports.results import Results, Score
from bertline.components.reports.words import interval, measured, shown

_MAX_METRICS = 3
_INTERVAL = re.compile(r"\[([^\[\], ]+), ([^\[\], ]+)\]")


def card(
    label: str,
    value: str,
    details: Sequence[str] = (),
    *,
    state: str = "",
    reasons: Sequence[str] = (),
    kind: str = "fact",
) -> dict[str, Any]:
    """Args:
    state: `good`, `bad` or `open`; nothing of what is neither.
    reasons: a list below, which is folded from the fourth on.
    kind: of its look: `verdict`, `metric` or `fact`.
    """
    return {
        "label": label,
        "value": value,
        "details": [unbroken(detail) for detail in details],
        "state": state,
        "reasons": reasons,
        "kind": kind,
        "chart": None,
    }


def unbroken(text: str) -> str:
    """With both ends of an interval in one line."""
    return _INTERVAL.sub("[\\1,\u00a0\\2]", text)


def judged(value: str, state: str, details: Sequence[str] = (), reasons: Sequence[str] = ()) -> dict[str, Any]:
    """The card of a verdict."""
    return card("Verdict", value, details, state=state, reasons=reasons, kind="verdict")


def verdict_card(results: Results) -> dict[str, Any]:
    """Of an evaluation, which does not know yet whether the model is going to be pushed."""
    if not results.blessed:
        return judged("Refused", "bad", ["Reasons:"], results.reasons)
    return judged("Blessed", "good", [met(results)])


def met(results: Results) -> str:
    """Which thresholds a model meets that was blessed, in a sentence."""
    asked = [score for score in results.scores if score.bound is not None]
    if not asked:
        return "No threshold was set."
    count = sum(bool(score.keeps) for score in asked)
    if count < len(asked):  # the settings that are recorded are not those that it was judged by
        return f"The model meets {count} of {len(asked)} thresholds."
    return "The model meets its threshold." if count == 1 else f"The model meets all {count} thresholds."


def metric_cards(results: Results, changes: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """Those with a threshold, or else the first metric of the task.

    Args:
      changes: of metrics against the model that was pushed before, as `results_view` has them.
    """
    asked = [score for score in results.scores if score.bound is not None] or list(results.scores[:1])
    return [_metric_card(score, results, (changes or {}).get(score.metric)) for score in asked[:_MAX_METRICS]]


def _metric_card(score: Score, results: Results, change: Mapping[str, str] | None) -> dict[str, Any]:
    details = []
    if score.low is not None:
        details.append(f"{results.level:.0%} interval {interval(score.low, score.high)}")
    if score.bound is not None:
        side = "at most" if score.metric in results.less_is_better else "at least"
        details.append(f"threshold: {side} {score.bound:g}, {'met' if score.keeps else 'not met'}")
    if score.before is not None:
        told = (change or {}).get("told", "")
        word = {"better": ", better", "worse": ", worse"}.get((change or {}).get("verdict", ""), "")
        details.append(f"pushed before: {shown(score.before)}" + (f" ({told}{word})" if told else ""))
    if test := results.test.get(score.metric):
        details.append(f"on test examples: {measured(test.value)} {interval(test.low, test.high)}".rstrip())
    state = {True: "good", False: "bad", None: ""}[score.keeps]
    return {
        **card(score.metric, measured(score.value), details, state=state, kind="metric"),
        "chart": score_chart(score),
    }
