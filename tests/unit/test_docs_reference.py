"""Pages that are made from the code say what the code says."""

import importlib.util

from click.testing import CliRunner
from documents import SITE

from bertline.pipeline.cli import main

spec = importlib.util.spec_from_file_location("generate", SITE / "generate.py")
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)


def test_the_generated_pages_are_up_to_date():
    for name, content in generate.pages().items():
        assert (SITE / "reference" / name).read_text() == content, f"{name}: run `make docs-reference`"


def test_every_setting_stands_in_the_reference_as_bertline_settings_prints_it():
    printed = CliRunner().invoke(main, ["settings"]).output
    assert printed.strip() in (SITE / "reference" / "settings.md").read_text()


def test_every_command_has_a_part():
    commands = (SITE / "reference" / "cli.md").read_text()
    assert all(f"## bertline {name}\n" in commands for name in main.commands)
