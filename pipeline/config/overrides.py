"""`--set section.key=value`, and what is said of old names of settings."""

from __future__ import annotations

import re
from typing import Any

import click
import yaml

from bertline.pipeline.config.renamed import GivenTwice, Use, current_name, rename_settings
from bertline.pipeline.core.errors import BertlineError

_said: set[str] = set()


def apply_override(raw: dict[str, Any], override: str, named: dict[str, str]) -> None:
    """Changes a config that was read.

    Args:
      override: `section.key=value`, the value written as YAML.
      named: settings that overrides before this one have set -> by which name; completed.
    """
    key, sign, text = override.partition("=")
    if not sign or not re.fullmatch(r"[a-z_]+(\.[A-Za-z0-9_-]+)*", key):
        raise BertlineError(f"--set {override}: write it as section.key=value, for example training.epochs=2.")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise BertlineError(f"--set {override}: the value is not valid YAML.") from None
    if (before := named.setdefault(current_name(key), key)) != key:
        old = key if current_name(key) != key else before
        raise BertlineError(f"--set {override}: {GivenTwice(old, current_name(old))}.")
    try:
        key, value, uses = _by_current_names(key, value)
    except GivenTwice as error:
        raise BertlineError(f"--set {override}: {error}.") from None
    for use in uses:
        say_once(f"--set {override}: {use}.")
    *sections, last = key.split(".")
    target = raw
    for section in sections:
        target = target.setdefault(section, {})
        if not isinstance(target, dict):
            raise BertlineError(f"--set {override}: {section} is a value, not a section.")
    target[last] = value


def say_once(line: str) -> None:
    """Prints a line to stderr, once: a command reads its config several times."""
    if line not in _said:
        _said.add(line)
        click.echo(line, err=True)


def _by_current_names(key: str, value: Any) -> tuple[str, Any, list[Use]]:
    """A setting, or a whole section, by the names of today."""
    *sections, last = key.split(".")
    nested: Any = {last: value}
    for section in reversed(sections):
        nested = {section: nested}
    uses = rename_settings(nested)
    key = current_name(key)
    for part in key.split("."):
        nested = nested[part]
    return key, nested, uses
