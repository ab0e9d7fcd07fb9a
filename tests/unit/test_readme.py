"""The README stays true."""

import re

from click.testing import CliRunner

from pipeline.cli import main
from pipeline.fingerprints import ROOT
from pipeline.reference import reference

README = (ROOT / "README.md").read_text()


def test_the_readme_lists_every_setting():
    """To mend: put the output of `bertline settings` at the end of README.md."""
    assert README.rstrip().endswith(reference())


def test_the_commands_that_the_readme_names_exist():
    named = set(re.findall(r"(?:\.venv/bin/|`)bertline ([a-z]+)", README))
    assert named and named <= set(main.commands)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^    |`)make ([a-z]+)", README, re.MULTILINE)) <= targets


def test_every_command_teaches():
    for name in main.commands:
        result = CliRunner().invoke(main, [name, "--help"])
        assert result.exit_code == 0 and len(result.output.splitlines()) > 4
