"""A space that cannot be searched is refused before anything runs, by file, line and setting."""

import math

import pytest
import yaml

from bertline.pipeline.config import RangeConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.settings.loader import load
from bertline.pipeline.studies.proposals import Proposals
from bertline.pipeline.studies.search import Request, SearchReport, Trial, best_config, ranked
from bertline.pipeline.studies.search_space import combinations, searchable, settings_of

CONFIG = """
name: tickets
data: {path: tickets.csv}
evaluation:
  thresholds: {accuracy: 0.8}
search:
  trials: 4
  space:
    training.learning_rate: {min: 1.0e-5, max: 2.0e-4, scale: log}
    training.epochs: [2, 3, 4]
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(text=CONFIG):
        path = tmp_path / "my.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_a_space_is_read_as_it_is_written(write):
    search = load(write()).search
    assert search.space["training.learning_rate"] == RangeConfig(min=1e-5, max=2e-4, scale="log")
    assert search.space["training.epochs"] == (2, 3, 4) and (search.trials, search.method) == (4, "bayesian")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("training.epoch: [2, 3]", "did you mean training.epochs?"),
        ("training.epochs: [2, 0]", "greater than or equal to 1 (received 0)"),
        ("training.epochs: [2, 2]", "name each value once"),
        ("training.epochs: {min: 1.5, max: 4}", "(received 1.5)"),
        ("training.learning_rate: {min: 1.0e-5, max: 2}", "less than 1 (received 2.0)"),
        ("training.optimizer: [adamw, sgd]", "'adam_reference' or 'lamb' (received 'sgd')"),
        ("training.optimizer: {min: 1, max: 2}", "is not a number; list its values"),
        ("training.seed: [1, 2]", "`seeds` measures how much seeds matter"),
        ("evaluation.max_drop: [0.1]", "only settings of text, model, training, pretraining, translation can"),
        ("training.learning_rate: {min: 2, max: 1}", "min=2 must be below max=1"),
        ("training.learning_rate: {min: 0, max: 0.1, scale: log}", "min=0 must be above 0"),
    ],
)
def test_a_wrong_setting_or_value_is_refused_by_its_line(write, written, expected):
    with pytest.raises(BertlineError) as error:
        load(write(CONFIG.partition("    training.")[0] + f"\n    {written}\n"))
    message = str(error.value)
    assert expected in message and f"my.yaml, line 10: search.space.{written.partition(':')[0]}" in message


@pytest.mark.parametrize("written", ["3", "[]", "{min: 1}", "{low: 1, high: 2}"])
def test_what_is_neither_a_list_nor_a_range_is_refused(write, written):
    with pytest.raises(BertlineError, match=r"training.epochs: give a list of values, or a range as"):
        load(write(CONFIG.replace("[2, 3, 4]", written)))


def test_every_setting_of_the_model_and_its_training_may_be_searched():
    assert {"training.learning_rate", "model.size", "text.seq_len", "pretraining.mask_probability"} <= set(searchable())
    assert not {"training.seed", "data.path", "name"} & set(searchable())


def test_a_place_in_a_list_or_a_number_in_a_range_becomes_a_setting():
    space = {
        "training.lora_rank": (None, 8),
        "training.epochs": RangeConfig(min=1, max=4),
        "training.learning_rate": RangeConfig(min=1e-5, max=2e-4),
    }
    proposed = {"training.lora_rank": 0, "training.epochs": 3, "training.learning_rate": 0.000123456}
    assert settings_of(space, proposed) == {
        "training.lora_rank": None,
        "training.epochs": 3,
        "training.learning_rate": 0.000123,
    }


def test_a_rounded_number_stays_within_its_range():
    space = {"training.learning_rate": RangeConfig(min=1.2345e-5, max=1.2355e-5)}
    assert settings_of(space, {"training.learning_rate": 1.2349e-5}) == {"training.learning_rate": 1.2345e-5}


def test_there_are_as_many_trials_as_settings_differ():
    assert combinations({"training.epochs": (1, 2, 3), "training.batch_size": RangeConfig(min=8, max=9)}) == 6
    assert combinations({"training.warmup_ratio": RangeConfig(min=0, max=0.5)}) == math.inf


SPACE = {"training.learning_rate": RangeConfig(min=1e-5, max=1e-2, scale="log"), "training.epochs": (2, 3, 4)}


def search(method, trials=9, failing=(), better="higher"):
    proposals = Proposals(SPACE, method=method, trials=trials, better=better, seed=0)
    found = []
    while (settings := proposals.next()) is not None:
        found.append(settings)
        distance = abs(math.log10(settings["training.learning_rate"]) + 3.5) + abs(settings["training.epochs"] - 3)
        score = -distance if better == "higher" else distance
        proposals.learn(None if len(found) in failing else score)
    return found


@pytest.mark.parametrize("method", ["bayesian", "random"])
def test_a_search_that_is_begun_again_proposes_the_same(method):
    whole = search(method)
    assert search(method) == whole and len(whole) == 9
    assert search(method, trials=4) == whole[:4]  # and one that was shorter, the beginning of it


def test_failed_trials_do_not_end_a_search():
    assert len(search("bayesian", failing=(1, 2, 3, 4))) == 9
    assert len(search("random", trials=5, failing=(1, 2, 3, 4, 5))) == 5


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_bayesian_search_comes_nearer_to_the_best_settings(better):
    learned = search("bayesian", trials=12, better=better)[6:]  # after three random ones for each setting
    assert min(abs(math.log10(s["training.learning_rate"]) + 3.5) for s in learned if s["training.epochs"] == 3) < 0.2


def test_a_space_that_is_used_up_ends_the_search():
    proposals = Proposals({"training.epochs": (1, 2)}, method="random", trials=9, better="lower", seed=1)
    found = []
    while (settings := proposals.next()) is not None:
        found.append(settings["training.epochs"])
        proposals.learn(1.0)
    assert sorted(found) == [1, 2]


def trial(number, value, **settings):
    return Trial(number=number, value=value, settings=settings)


def test_trials_are_ranked_best_first_and_failed_ones_last():
    trials = [trial(1, 0.5), trial(2, None), trial(3, 0.7)]
    assert [t.number for t in ranked(trials, "higher")] == [3, 1, 2]
    assert [t.number for t in ranked(trials, "lower")] == [1, 3, 2]


def test_the_best_settings_are_a_config_that_can_be_read_from_anywhere(write, tmp_path, monkeypatch):
    request = Request(write(), ["training.batch_size=8", "seeds=[1, 2]"])
    best = {"training.epochs": 3, "training.learning_rate": 5e-5}
    report = SearchReport(
        name="tickets", metric="accuracy", better="higher", method="random", trials=[trial(1, 0.9, **best)]
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "best.yaml").write_text(best_config(report, request.as_written(best)))
    wanted = request.config(best)
    monkeypatch.chdir(elsewhere)
    config = load("best.yaml")
    assert config.model_copy(update={"search": wanted.search}) == wanted
    assert (config.training.epochs, config.training.learning_rate, config.training.batch_size) == (3, 5e-5, 8)
    assert config.data.path == str(tmp_path / "tickets.csv") and config.seeds == (1, 2) and not config.search.space
    assert "biased upwards" in (elsewhere / "best.yaml").read_text()
    assert yaml.safe_load((elsewhere / "best.yaml").read_text())["workspace"] == str(tmp_path / "workspace")


def test_settings_that_others_follow_from_are_read_anew(write):
    request = Request(write())
    assert request.config({"model.size": "mini"}).model.hidden_dim == 256 != request.config().model.hidden_dim
