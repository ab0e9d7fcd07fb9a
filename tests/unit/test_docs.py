"""The documentation stays true: its links lead somewhere, its commands, settings and imports exist."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import subprocess
import tomllib
from urllib.parse import unquote

import click
import pytest
import yaml
from click.testing import CliRunner
from documents import ROOT, SITE, anchors, blocks, commands, links, name_of, pages, pages_that_run, prose
from pydantic import BaseModel

from bertline.pipeline.cli import main
from bertline.pipeline.config import Config
from bertline.pipeline.settings.metric_names import metric_names

PAGES = pages()
HANDBOOK = [page for page in PAGES if page.name not in ("CHANGELOG.md", "CONTRIBUTING.md")]
OURS = ("bertline", "pipeline", "components", "models", "serving")
GENERATED = ("cli.md", "settings.md")
_OLD_WORDS = re.compile(r"\b(held[- ]out|pieces?|guess(es)?|the line)\b(?!'s)", re.IGNORECASE)
"""What the glossary has other words for."""
by_name = pytest.mark.parametrize("page", PAGES, ids=name_of)


@by_name
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page):
    for link in links(page):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_file(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading"


def test_every_page_of_the_site_stands_in_its_navigation():
    navigation = re.findall(r": ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert {page.relative_to(SITE).as_posix() for page in SITE.rglob("*.md")} == set(navigation) - {
        "contributing.md",
        "changelog.md",
    }
    books = re.findall(r": notebooks/([\w-]+\.ipynb)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(books) == sorted(book.name for book in (ROOT / "notebooks").glob("[0-9]*.ipynb"))


@by_name
def test_the_words_are_those_of_the_glossary(page):
    if page.name not in (*GENERATED, "glossary.md"):
        assert not _OLD_WORDS.findall(prose(page))


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


@pytest.mark.parametrize("page", HANDBOOK, ids=name_of)
def test_every_command_of_a_shell_block_exists_with_its_options(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in blocks(page):
        if block.language != "bash":
            continue
        subprocess.run(["bash", "-n"], input=block.code, text=True, check=True)
        for line in commands(block):
            words = shlex.split(line, comments=True)
            if words[0] == "make":
                assert words[1] in targets, line
            elif words[0].removeprefix(".venv/bin/") == "bertline":
                understood(line, words[1:])


def understood(line: str, words: list[str]) -> None:
    """That click knows the command and its options; files need not be there."""
    words = words[: words.index("<")] if "<" in words else words
    command: click.Command = main
    context = click.Context(main, info_name="bertline", **main.context_settings)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, f"{line}: no command {words[0]}"
        command, words = found, words[1:]
        context = click.Context(command, parent=context, resilient_parsing=True)
    try:
        command.make_parser(context).parse_args(list(words))
    except click.UsageError as error:
        raise AssertionError(f"{line}: {error.format_message()}") from None


@pytest.mark.parametrize("page", [*HANDBOOK, ROOT / "CONTRIBUTING.md"], ids=name_of)
def test_every_command_and_target_that_prose_names_exists(page):
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"`bertline ([a-z]+)", text)) <= set(main.commands)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)`", text)) <= targets
    for file in re.findall(r"`((?:tests|components|models|pipeline|serving|docs)/[\w/.-]+)`", text):
        assert (ROOT / file).exists(), f"{file} is not there"


@pytest.mark.parametrize("page", HANDBOOK, ids=name_of)
def test_every_setting_of_a_yaml_block_exists(page):
    for block in blocks(page):
        if block.language == "yaml":
            known(yaml.safe_load(block.code), Config, "")


def known(given: dict, model: type[BaseModel], path: str) -> None:
    for key, value in given.items():
        assert key in model.model_fields, f"{path}{key} is no setting"
        inner = model.model_fields[key].annotation
        if isinstance(value, dict) and isinstance(inner, type) and issubclass(inner, BaseModel):
            known(value, inner, f"{path}{key}.")


def test_thresholds_of_yaml_blocks_are_metrics_of_their_task():
    for page in HANDBOOK:
        for block in blocks(page):
            given = yaml.safe_load(block.code) if block.language == "yaml" else {}
            named, task = given.get("evaluation", {}).get("thresholds", {}), given.get("task", "classification")
            if "name" in given and not task.startswith("glue/"):
                assert set(named) <= set(metric_names(task)), f"{name_of(page)}: {given['name']}"


def test_the_reference_of_metrics_lists_those_of_every_task():
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", (SITE / "reference" / "metrics.md").read_text(), re.MULTILINE)
    tasks = {path.stem for path in (ROOT / "models" / "tasks").glob("[a-z]*.py")}
    assert {task for task, _ in rows} == tasks
    for task, named in rows:
        assert tuple(re.findall(r"`(\w+)`", named)) == metric_names(task)


@pytest.mark.parametrize("page", HANDBOOK, ids=name_of)
def test_what_a_python_block_imports_of_this_project_exists(page):
    for block in blocks(page):
        if block.language == "python":
            for node in ast.walk(ast.parse(block.code)):
                if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in OURS:
                    module = importlib.import_module(str(node.module))
                    assert all(hasattr(module, name.name) for name in node.names)


def test_every_block_is_run_or_says_why_not():
    for page in pages_that_run():
        marked = page.read_text().count("<!-- not run") + page.read_text().count("<!-- run with")
        assert marked == sum(block.mark is not None for block in blocks(page)), "a mark stands right above its block"
        assert all(block.reason for block in blocks(page) if block.mark)


def test_every_figure_names_the_command_that_prints_it():
    benchmarks = (SITE / "benchmarks.md").read_text()
    for page in (benchmarks, (ROOT / "README.md").read_text().partition("## Headline figures")[2]):
        rows = [
            row for row in re.findall(r"^\| (.+) \|$", page, re.MULTILINE) if "---" not in row and "| command" not in row
        ]
        assert rows
        for row in rows:
            command = re.search(r"`(make|bertline|python) ([^`\s]+)[^`]*`(?: after `make run`)?$", row)
            assert command, row
            if command[1] == "python":
                assert (ROOT / command[2]).is_file(), row


def test_the_headline_figures_stand_among_the_benchmarks():
    benchmarks = (SITE / "benchmarks.md").read_text()
    headline = (ROOT / "README.md").read_text().partition("## Headline figures")[2].partition("\n## ")[0]
    figures = re.findall(
        r"(?<![\w.])\d+\.\d+(?:e-\d+)?", "".join(row.split(" | ")[1] for row in headline.splitlines()[4:] if " | " in row)
    )
    assert figures and set(figures) <= set(re.findall(r"(?<![\w.])\d+\.\d+(?:e-\d+)?", benchmarks))


def test_the_version_is_one_and_has_its_part_in_the_changelog():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    changes = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert changes[0] == "Unreleased" and changes[1].startswith(f"{version} - ")


def test_every_command_teaches():
    for name in main.commands:
        result = CliRunner().invoke(main, [name, "--help"])
        assert result.exit_code == 0 and len(result.output.splitlines()) > 4
