"""What `bertline search` looks through: settings by their dotted names, and the values that each may take."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import ValidationError

from bertline.pipeline.config import Config, RangeConfig, nearest

SECTIONS = ("text", "model", "training", "pretraining", "translation")
"""What changes the model. Settings of the data, the bounds or the record would compare what cannot be compared."""
_SEED = "training.seed"
_DIGITS = 3
"""Of a value from a range. Equal trials of two searches are then equal to the last digit, and their training is cached."""

Space = Mapping[str, RangeConfig | tuple[Any, ...]]


def searchable() -> list[str]:
    """The names of all settings that may stand in a space."""
    names = [f"{section}.{name}" for section in SECTIONS for name in _fields(section)]
    return [name for name in names if name != _SEED]


def mistakes(space: Space, raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(setting, what is wrong with it) for every setting of a space that a config cannot take.

    Args:
      space: that of the config.
      raw: the config's settings, before they are checked.
    """
    known = searchable()
    for name, values in space.items():
        if name == _SEED:
            yield name, "cannot be searched: a lucky seed does not generalize; `seeds` measures how much seeds matter"
        elif name not in known:
            section = name.partition(".")[0]
            others = f"; only settings of {', '.join(SECTIONS)} can be searched" if section not in SECTIONS else ""
            # Whoever names another section means that one, however near a name of these may be.
            meant = "" if others and section in Config.model_fields else nearest(name, known)
            yield name, f"is not a setting of the model or its training{meant or others}"
        elif isinstance(values, RangeConfig) and number_kind(name) is None:
            yield name, "is not a number; list its values"
        elif not isinstance(values, RangeConfig) and any(value in values[:at] for at, value in enumerate(values)):
            yield name, "name each value once"
        else:
            candidates = (values.min, values.max) if isinstance(values, RangeConfig) else values
            refused = ((value, _refusal(name, value, raw)) for value in candidates)
            yield from ((name, f"{reason} (received {value!r})") for value, reason in refused if reason)


def number_kind(name: str) -> Literal["int", "float"] | None:
    """Whether a setting is a whole number, a number, or neither."""
    section, _, key = name.partition(".")
    annotation = _fields(section)[key].annotation
    kinds = get_args(annotation) if get_origin(annotation) is not tuple else ()
    for kind in kinds or (annotation,):
        if kind in (int, float):
            return "int" if kind is int else "float"
    return None


def settings_of(space: Space, proposed: Mapping[str, float]) -> dict[str, Any]:
    """The settings of a trial: of a list the value at the place that is proposed, of a range the number, rounded."""
    return {name: _value(name, values, proposed[name]) for name, values in space.items()}


def combinations(space: Space) -> float:
    """How many different trials there are; infinity where a range is not of whole numbers."""
    total = 1.0
    for name, values in space.items():
        if not isinstance(values, RangeConfig):
            total *= len(values)
        else:
            total *= values.max - values.min + 1 if number_kind(name) == "int" else math.inf
    return total


def overrides_of(settings: Mapping[str, Any]) -> list[str]:
    """The settings as `--set` takes them.

    >>> overrides_of({"training.epochs": 2, "training.optimizer": "lamb"})
    ['training.epochs=2', 'training.optimizer="lamb"']
    """
    return [f"{name}={json.dumps(value)}" for name, value in settings.items()]


def _value(name: str, values: RangeConfig | tuple[Any, ...], proposed: float) -> Any:
    if not isinstance(values, RangeConfig):
        return values[int(proposed)]
    if number_kind(name) == "int":
        return int(proposed)
    return min(max(float(f"{proposed:.{_DIGITS}g}"), values.min), values.max)


def _fields(section: str) -> dict[str, Any]:
    model: Any = Config.model_fields[section].annotation
    return model.model_fields


def _refusal(name: str, value: Any, raw: Mapping[str, Any]) -> str | None:
    """Why the config does not take a value for a setting.

    Only what is wrong with this very setting counts. What it must agree on with another one depends on the trial, which
    then fails by itself.
    """
    section, _, key = name.partition(".")
    changed = {**raw, section: {**(raw.get(section) or {}), key: value}, "search": {}}
    try:
        Config.model_validate(changed)
    except ValidationError as error:
        for problem in error.errors():
            if problem["loc"][:2] == (section, key):
                return problem["msg"].removeprefix("Value error, ")
    return None
