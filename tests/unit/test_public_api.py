"""`import bertline`: quick, whole, and with nothing in it that is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import bertline
import bertline.plugins
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.settings.loader import load

CONFIG = {
    "name": "tickets",
    "data": {"path": Path("tickets.csv"), "text": ("body",), "label": "queue"},
    "evaluation": {"thresholds": {"accuracy": 0.5}},
}


def test_importing_it_loads_nothing_but_itself():
    code = "import sys; before = set(sys.modules); import bertline; print(*(set(sys.modules) - before - {'bertline'}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {name.partition(".")[0] for name in done.stdout.split()} <= sys.stdlib_module_names


@pytest.mark.parametrize("module", [bertline, bertline.plugins])
def test_every_public_name_is_there_and_no_other(module):
    assert sorted(set(module._MODULES) | {"__version__"} & set(module.__all__)) == sorted(module.__all__)
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="no attribute 'predicct'"):
        module.predicct  # noqa: B018


def test_a_mapping_is_a_config_as_its_file_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tickets.csv").write_text("body,queue\nfine,a\n")
    config = load(CONFIG, ["training.epochs=7"], workspace="w")
    assert config.data.path == str(tmp_path / "tickets.csv") and config.data.text_columns == {"text": "body"}
    assert (config.training.epochs, config.workspace) == (7, str(tmp_path / "w"))
    assert CONFIG["data"]["path"] == Path("tickets.csv")  # which is the caller's, and left alone


def test_a_mistake_in_a_mapping_is_told_as_one_of_a_file():
    with pytest.raises(BertlineError, match=r"^the given config: training.epoch is not a setting; did you mean epochs\?"):
        bertline.run({**CONFIG, "training": {"epoch": 3}})


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: bertline.run("nothing.yaml"), "no such config file"),
        (lambda: bertline.run("reviews", start_at="Training"), "the steps are Ingest, "),
        (lambda: bertline.load(workspace="nowhere"), "no run in nowhere has pushed a model yet"),
        (lambda: bertline.load("nothing"), "nothing: no SavedModel here"),
        (lambda: bertline.explain("a text", workspace="nowhere"), "no run in nowhere has pushed a model yet"),
        (lambda: bertline.compare("v1"), "two runs or more"),
        (lambda: bertline.compare("v1", "v2", last=2), "two runs or more"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(tmp_path, monkeypatch, call, what):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BertlineError, match=what):
        call()
    assert list(tmp_path.iterdir()) == []
