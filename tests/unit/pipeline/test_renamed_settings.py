"""Settings that were renamed: configs, commands, records and models of earlier versions are read by the old names."""

import pytest
from test_config import MINIMAL, refusal
from test_config import write as write

from bertline.pipeline.config import Config, TextConfig
from bertline.pipeline.config import overrides as notices
from bertline.pipeline.config.renamed import RENAMED, current_name, current_params
from bertline.pipeline.runs.diff import differing_settings
from bertline.pipeline.runs.report.report import _bounds
from bertline.pipeline.settings.loader import load
from bertline.pipeline.studies.search_space import searchable

OLD = MINIMAL + "training: {keep: best, best_by: accuracy}\nmodel:\n  layers: 3\n"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch):
    monkeypatch.setattr(notices, "_said", set())


def test_every_new_name_is_a_setting_and_no_old_name_is():
    known = set(Config.model_validate({"name": "x", "data": {"path": "a"}, "evaluation": {"thresholds": {"f1": 1}}}).flat())
    assert {current_name(old) for old in RENAMED} <= known | set(searchable())
    assert not RENAMED.keys() & known


def test_an_old_name_works_and_one_line_says_where_it_stands_and_what_it_is_called_now(write, capsys):
    config = load(write(OLD))
    assert config.training.restore_best and config.training.monitor == "accuracy" and config.model.num_layers == 3
    load(write(OLD))  # a command reads its config more than once
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3 and all("my.yaml, line " in line for line in said)
    first = "my.yaml, line 9: training.keep is called training.restore_best now (true in place of best); the old name still"
    assert any(first in line for line in said) and any(
        "line 11: model.layers is called model.num_layers" in line for line in said
    )


def test_an_old_name_on_the_command_line_wins_over_the_file_like_any_other(write, capsys):
    config = load(write(OLD), ["training.keep=last", "model={layers: 4}", "pretraining.masking=piece"])
    assert not config.training.restore_best and config.model.num_layers == 4 and config.pretraining.masking == "token"
    said = capsys.readouterr().err
    assert "--set training.keep=last: training.keep is called training.restore_best now (false in place of last)" in said
    assert "pretraining.masking: piece is called pretraining.masking: token now" in said


def test_current_names_are_silent(write, capsys):
    load(write(MINIMAL), ["training.restore_best=true", "training.recipe=[restore_best]"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("more", "overrides", "where"),
    [
        ("training: {keep: best, restore_best: true}\n", [], "my.yaml, line 9: "),
        ("", ["training.keep=best", "training.restore_best=true"], "--set training.restore_best=true: "),
        ("", ["training={keep: best, restore_best: true}"], "--set training={keep: best, restore_best: true}: "),
    ],
)
def test_an_old_name_beside_the_new_one_is_refused(write, more, overrides, where):
    message = refusal(write(MINIMAL + more), overrides)
    expected = (
        "training.keep and training.restore_best are the old and the new name of one setting; give training.restore_best"
    )
    assert where in message and expected in message


def test_a_typo_in_an_old_name_is_told_the_new_one(write):
    message = refusal(write(MINIMAL + "training: {early_stoping: 2, best_bye: f1}\n"))
    assert "training.early_stoping is not a setting; did you mean early_stopping_patience?" in message
    assert "training.best_bye is not a setting; did you mean monitor?" in message


def test_a_wrong_value_is_found_on_the_line_of_the_old_name(write):
    message = refusal(write(MINIMAL + "training:\n  epochs: 2\n  warmup: 7\n"))
    assert "my.yaml, line 11: training.warmup_ratio: " in message and "(received 7)" in message


def test_a_search_space_may_use_old_names(write, capsys):
    config = load(
        write(MINIMAL + "search:\n  space:\n    training.keep: [best, last]\n    model.layers: {min: 1, max: 3}\n")
    )
    assert config.search.space["training.restore_best"] == (True, False) and "model.num_layers" in config.search.space
    assert "line 11: search.space.training.keep is called search.space.training.restore_best" in capsys.readouterr().err


def test_the_config_and_the_model_of_an_older_version_are_read(write, capsys):
    config = load(write(MINIMAL), ["training.restore_best=true", "data.split.eval_fraction=0.2"])
    old = config.to_json().replace('"restore_best": true', '"keep": "best"').replace("eval_fraction", "eval_share")
    assert old != config.to_json() and Config.from_json(old) == config
    assert TextConfig.model_validate({"reading": "huggingface", "lower": False}).tokenizer_variant == "huggingface"
    assert capsys.readouterr().err == ""


def test_runs_of_an_older_version_and_a_newer_one_differ_in_no_name():
    old = {"training.keep": "last", "model.layers": "2", "training.recipe": "['epochs', 'best_by']", "training.epochs": "2"}
    new = {"training.restore_best": "False", "model.num_layers": "2", "training.recipe": "['epochs', 'monitor']"}
    assert differing_settings([current_params(old), current_params({**new, "training.epochs": "2"})]) == []
    bounds = _bounds(current_params({"evaluation.min_slice_rows": "20"}))
    assert bounds.min_slice_examples == 20
