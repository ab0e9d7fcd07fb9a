"""What differs between the settings of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

# They tell where a run was at work and by which libraries, and not what it was told to learn.
_PLACES = ("workspace", "tracking.", "push.", "version.", "machine.")


class Difference(NamedTuple):
    """A setting that is not the same in all runs."""

    name: str
    values: tuple[str | None, ...]
    """Of each run; None where the setting was not recorded."""


def differing_settings(params: Sequence[Mapping[str, str]], *, everything: bool = True) -> list[Difference]:
    """The settings that are not equal in all runs, by name; those last that a run has not recorded at all.

    Args:
      params: of each run.
      everything: also where a run was at work, and by which versions of libraries.

    >>> differing_settings([{"seed": "1", "epochs": "2"}, {"seed": "3", "epochs": "2"}])
    [Difference(name='seed', values=('1', '3'))]
    """
    names = sorted({name for values in params for name in values})
    found = [Difference(name, tuple(values.get(name) for values in params)) for name in names]
    differing = [difference for difference in found if len(set(difference.values)) > 1]
    differing.sort(key=lambda difference: None in difference.values)
    return differing if everything else [kept for kept in differing if not kept.name.startswith(_PLACES)]


def in_short(before: Mapping[str, str], after: Mapping[str, str], limit: int = 3) -> str:
    """What of the settings changed, in a few words.

    >>> in_short({"training.epochs": "2", "x": "1"}, {"training.epochs": "3", "x": "1"})
    'training.epochs 2 → 3'
    """
    changes = differing_settings([before, after], everything=False)
    shown = [f"{name} {_brief(values[0])} → {_brief(values[1])}" for name, values in changes[:limit]]
    more = len(changes) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "") if shown else "nothing"


def _brief(value: str | None, limit: int = 24) -> str:
    if value is None or value == "None":
        return "none"
    line = " ".join(value.split())
    # Of a path its end tells more than its begin.
    return line if len(line) <= limit else f"…{line[-limit:]}" if "/" in line else f"{line[:limit]}…"
