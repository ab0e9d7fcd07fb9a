"""Writes the pages of the reference that are made from the code: `make docs-reference`.

They are tracked, so that they can be read without being built; tests/unit/test_docs_reference.py holds them to the code.
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from bertline.pipeline.cli import main
from bertline.pipeline.settings.reference import reference

FOLDER = Path(__file__).parent / "reference"
_WIDTH = 100

_SETTINGS = """\
# Settings

Every setting of a config, with its default and its meaning; `bertline settings` prints the same table. A setting with dots
is nested in YAML (`training.epochs` is `epochs:` below `training:`), and `--set training.epochs=3` changes it for one run.

<!-- Made by `make docs-reference`; the text is that of the docstrings in the config. -->

"""
_COMMANDS = """\
# Command line

What `bertline COMMAND --help` prints, for every command. Presets are configs that come with Bertline; `bertline run` takes
their names in place of a file.

<!-- Made by `make docs-reference`; the text is that of the commands themselves. -->
"""


def pages() -> dict[str, str]:
    """The name of each page, and what it says."""
    return {"settings.md": f"{_SETTINGS}{reference()}\n", "cli.md": "\n".join([_COMMANDS, *_helps()])}


def _helps() -> list[str]:
    top = click.Context(main, info_name="bertline", terminal_width=_WIDTH, **main.context_settings)
    helps = [_section("bertline", main.get_help(top))]
    for name, command in sorted(main.commands.items()):
        helps += _of_command(command, name, top, "bertline")
    return helps


def _of_command(command: click.Command, name: str, parent: click.Context, path: str) -> list[str]:
    context = click.Context(command, info_name=name, parent=parent, terminal_width=_WIDTH)
    helps = [_section(f"{path} {name}", command.get_help(context))]
    if isinstance(command, click.Group):
        for inner, below in sorted(command.commands.items()):
            helps += _of_command(below, inner, context, f"{path} {name}")
    return helps


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n```text\n{re.sub(r'[ ]+$', '', text, flags=re.MULTILINE)}\n```\n"


if __name__ == "__main__":
    for page, content in pages().items():
        (FOLDER / page).write_text(content, encoding="utf-8")
