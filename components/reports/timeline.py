"""The steps of a run along the time, as an SVG: every run has another one, and matplotlib takes a second to draw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_NAMES, _BARS, _SECONDS = 130, 560, 110
"""Widths: of the names, of the longest bar, and of what stands behind it."""
_STEP, _TOP = 24, 34


def timeline(steps: Sequence[Mapping[str, Any]]) -> str:
    """How long each step of a pipeline took, from the first at the top; those from the cache are hatched.

    Args:
      steps: `name`, `seconds` and `cached` of each, and `start`, in seconds since the pipeline began; without it, a step
        began when the one before it had ended.
    """
    bars, end = [], 0.0
    for step in steps:
        start = float(step.get("start", end))
        end = start + step["seconds"]
        bars.append((step, start, end))
    longest = max((end for *_, end in bars), default=0.0) or 1.0
    drawn = [_bar(number, *bar, longest) for number, bar in enumerate(bars)]
    width, height = _NAMES + _BARS + _SECONDS, _TOP + _STEP * len(steps) + 10
    title = (
        f"{sum(step['seconds'] for step in steps):.0f} s in {len(steps)} steps, along the seconds since the pipeline began"
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" \
font-family="sans-serif" font-size="12">
<defs><pattern id="cached" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="6" height="6" fill="#fff"/>\
<line x1="0" y1="0" x2="0" y2="6" stroke="#1f77b4" stroke-width="2"/></pattern></defs>
<rect width="100%" height="100%" fill="#fff"/>
<text x="{_NAMES}" y="20" font-size="13">{title}</text>
{"".join(drawn)}</svg>
"""


def _bar(number: int, step: Mapping[str, Any], start: float, end: float, longest: float) -> str:
    top, middle = _TOP + _STEP * number, _TOP + _STEP * (number + 0.5)
    left, right = (_NAMES + _BARS * seconds / longest for seconds in (start, end))
    fill = "url(#cached)" if step["cached"] else "#1f77b4"
    note = f"{step['seconds']:.1f} s{', cached' * step['cached']}"
    return (
        f'<text x="{_NAMES - 8}" y="{middle + 4}" text-anchor="end">{escape(step["name"])}</text>'
        f'<rect x="{left:.1f}" y="{top + 4}" width="{max(1.0, right - left):.1f}" height="{_STEP - 8}"'
        f' fill="{fill}" stroke="#1f77b4"/>'
        f'<text x="{right + 6:.1f}" y="{middle + 4}">{note}</text>\n'
    )
