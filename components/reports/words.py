"""Numbers in words."""

from __future__ import annotations


def shown(value: float | None, signed: bool = False) -> str:
    if value is None:
        return "–"
    return f"{value:+.4f}" if signed else f"{value:.4f}"


def measured(value: float | None) -> str:
    """A metric that was to be measured: without a value it is undefined on these examples."""
    return "undefined" if value is None else shown(value)


def interval(low: float | None, high: float | None, signed: bool = False) -> str:
    return "" if low is None or high is None else f"[{shown(low, signed)}, {shown(high, signed)}]"
