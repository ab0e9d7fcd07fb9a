"""Settings that had another name once: one table, and how configs, records and models that use the old names are read.

A config file or `--set` may use them, and so may what an earlier version has written: recorded runs, model metadata of
pushed models, compiled pipelines. An old name and its new one given together are a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

RENAMED: Mapping[str, str] = {
    "data.max_bad_share": "max_bad_fraction",
    "data.split.eval_share": "eval_fraction",
    "data.tags": "tag_scheme",
    "evaluation.min_slice_rows": "min_slice_examples",
    "model.heads": "num_heads",
    "model.hidden": "hidden_dim",
    "model.intermediate": "intermediate_dim",
    "model.layers": "num_layers",
    "pretraining.duplicates": "dupe_factor",
    "pretraining.mask_share": "mask_probability",
    "pretraining.max_masked": "max_predictions_per_seq",
    "pretraining.short_share": "short_seq_probability",
    "pretraining.static": "static_masking",
    "serve_check.max_ms": "max_latency_ms",
    "text.joined": "preserve_whitespace",
    "text.lower": "lowercase",
    "text.reading": "tokenizer_variant",
    "text.reserved": "reserved_tokens",
    "text.separate": "separate_vocabularies",
    "training.accumulate": "gradient_accumulation_steps",
    "training.average": "average_epochs",
    "training.best_by": "monitor",
    "training.early_stopping": "early_stopping_patience",
    "training.keep": "restore_best",
    "training.lora": "lora_rank",
    "training.warmup": "warmup_ratio",
    "translation.beam": "num_beams",
    "translation.decoder_layers": "num_decoder_layers",
    "translation.max_more": "max_extra_tokens",
    "translation.max_ratio": "max_length_ratio",
}
"""Old name, with its section -> new name in the same section."""
_VALUES: Mapping[str, Mapping[str, Any]] = {
    "training.keep": {"best": True, "last": False},
    "pretraining.masking": {"piece": "token"},
}
"""Setting, by its old name if it has one -> its old values, and what they are now."""
_LISTS_OF_SETTINGS = {"training.recipe": "training"}
"""Settings that list names of settings -> the section of these."""
_SPACE = "search.space."


class Use(NamedTuple):
    """An old name that is used."""

    old: str
    new: str
    value: str = ""
    """What else changes, as ` (true in place of best)`."""

    def __str__(self) -> str:
        return f"{self.old} is called {self.new} now{self.value}; the old name still works"


class GivenTwice(ValueError):
    """An old name and its new one are given together."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(f"{old} and {new} are the old and the new name of one setting; give {new} alone")
        self.old, self.new = old, new


def current_name(name: str) -> str:
    """The name of a setting today.

    >>> current_name("training.best_by"), current_name("training.epochs")
    ('training.monitor', 'training.epochs')
    """
    section, _, _ = name.rpartition(".")
    return f"{section}.{RENAMED[name]}" if name in RENAMED else name


def old_names(section: str) -> list[str]:
    """The old names of a section's settings."""
    return [name.rpartition(".")[2] for name in RENAMED if name.rpartition(".")[0] == section]


def current_section(section: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of one section by today's names.

    >>> current_section("training", {"keep": "best", "epochs": 3})
    {'restore_best': True, 'epochs': 3}
    """
    settings = dict(given)
    list(_rename_section(settings, section))
    return settings


def rename_settings(raw: dict[str, Any]) -> list[Use]:
    """Gives the settings of a whole config, sections in sections, today's names; what was renamed is returned.

    >>> raw = {"training": {"keep": "best"}}
    >>> [str(use) for use in rename_settings(raw)], raw
    (['training.keep is called training.restore_best now (true in place of best); the old name still works'], \
{'training': {'restore_best': True}})
    """
    uses = list(_rename_nested(raw, ""))
    search = raw.get("search")
    space = search.get("space") if isinstance(search, dict) else None
    if isinstance(space, dict):
        uses += _rename_space(space)
    return uses


def current_params(params: Mapping[str, str]) -> dict[str, str]:
    """The params of a recorded run by today's names and values, so that runs of any version can be compared.

    >>> current_params({"training.keep": "last", "search.space.training.warmup.min": "0.1"})
    {'training.restore_best': 'False', 'search.space.training.warmup_ratio.min': '0.1'}
    """
    return {_current_param(name): _current_text(name, value) for name, value in params.items()}


def _current_param(name: str) -> str:
    if not name.startswith(_SPACE):
        return current_name(name)
    parts = name.removeprefix(_SPACE).split(".")
    for end in range(len(parts), 1, -1):
        setting = ".".join(parts[:end])
        if setting in RENAMED:
            return ".".join([f"{_SPACE}{current_name(setting)}", *parts[end:]])
    return name


def _current_text(name: str, value: str) -> str:
    if name in _VALUES:
        return str(_VALUES[name].get(value, value))
    if section := _LISTS_OF_SETTINGS.get(name):
        for old in old_names(section):
            value = value.replace(f"'{old}'", f"'{RENAMED[f'{section}.{old}']}'")
    return value


def _rename_nested(settings: dict[str, Any], section: str) -> Iterator[Use]:
    yield from _rename_section(settings, section)
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _rename_nested(value, f"{section}.{name}" if section else str(name))


def _rename_section(settings: dict[str, Any], section: str) -> Iterator[Use]:
    for name in list(settings):
        full = f"{section}.{name}"
        before = settings[name]
        value = _current_value(full, before)
        if full in RENAMED:
            new = RENAMED[full]
            if new in settings:
                raise GivenTwice(full, current_name(full))
            # In the place of the old one: what is shown of a config keeps its order.
            items = [(new, value) if key == name else (key, item) for key, item in settings.items()]
            settings.clear()
            settings.update(items)
            changed = "" if value == before else f" ({_shown(value)} in place of {_shown(before)})"
            yield Use(full, current_name(full), changed)
        elif value != before:
            settings[name] = value
            yield Use(f"{full}: {_shown(before)}", f"{full}: {_shown(value)}")


def _rename_space(space: dict[str, Any]) -> Iterator[Use]:
    for name, values in list(space.items()):
        new = current_name(str(name))
        if isinstance(values, list | tuple):
            values = [_current_value(str(name), value) for value in values]
        if new != name and new in space:
            raise GivenTwice(f"{_SPACE}{name}", f"{_SPACE}{new}")
        del space[name]
        space[new] = values
        if new != name:
            yield Use(f"{_SPACE}{name}", f"{_SPACE}{new}")


def _current_value(name: str, value: Any) -> Any:
    if name in _VALUES and isinstance(value, str):
        return _VALUES[name].get(value, value)
    if name in _LISTS_OF_SETTINGS and isinstance(value, list | tuple):
        section = _LISTS_OF_SETTINGS[name]
        return type(value)(RENAMED.get(f"{section}.{item}", item) for item in value)
    return value


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
