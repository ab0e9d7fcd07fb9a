"""A run, a time and a size in words."""

from __future__ import annotations

from bertline.pipeline.runs.report.values import Head


def verdict(head: Head) -> str:
    """What became of a run, in a few words."""
    if head.status != "succeeded":
        at = f" at {head.failed_step}" if head.failed_step else ""
        return {"running": "still running", "failed": f"failed{at}", "interrupted": "interrupted"}.get(
            head.status, head.status
        )
    if head.blessed is None:
        return "ended without a model that was judged"
    if not head.blessed:
        return "refused"
    return f"blessed, pushed as version {head.pushed_version}" if head.pushed_version else "blessed, not pushed"


def duration(seconds: float | None) -> str:
    """
    >>> duration(42.31), duration(3725.0), duration(None)
    ('42.3 s', '62 min', 'not known')
    """
    if seconds is None:
        return "not known"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"


def size(count: int | None) -> str:
    """
    >>> size(4_500_000), size(900), size(None)
    ('4.5 MB', '0.9 kB', 'not known')
    """
    if count is None:
        return "not known"
    return f"{count / 1e6:,.1f} MB" if count >= 1e5 else f"{count / 1e3:,.1f} kB"
