"""A task that writes texts has defaults of its own, each of which gives way to the user's word."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bertline.pipeline.config import Config, TranslationConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.settings.loader import load

TRANSLATION = """
name: captions
task: translation
data: {format: parallel, train: train.en.gz, eval: val.en.gz, text: en, label: de}
evaluation: {thresholds: {bleu: 20}}
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "my.yaml"
        path.write_text(text)
        return str(path)

    return write


def refusal(source: str, *overrides: str) -> str:
    with pytest.raises(BertlineError) as error:
        load(source, overrides)
    return str(error.value)


def test_translation_writes_texts_as_they_are_and_is_trained_as_the_paper_says(write, tmp_path):
    config = load(write(TRANSLATION))
    assert config.data.train == str(tmp_path / "train.en.gz")
    assert (config.data.max_words, config.data.max_word_ratio) == (200, 9)
    text = config.text
    assert (text.lowercase, text.strip_accents) == (False, False)
    assert (text.preserve_whitespace, text.separate_vocabularies) == (True, False)
    training = config.training
    assert (training.learning_rate, training.schedule) == (1e-3, "inverse_sqrt")
    assert (training.label_smoothing, training.weight_decay) == (0.1, 0.0)
    assert Config.from_json(config.to_json()) == config


@pytest.mark.parametrize(
    "setting, value",
    [
        ("data.max_words", None), ("data.max_words", 50), ("data.max_word_ratio", None), ("text.lowercase", True),
        ("text.preserve_whitespace", False), ("text.strip_accents", True), ("training.learning_rate", 5e-4),
        ("training.schedule", "linear"), ("training.label_smoothing", 0.0), ("training.weight_decay", 0.01),
    ],
)  # fmt: skip
def test_the_users_word_stands_above_each_default(write, setting, value):
    shown = "null" if value is None else str(value).lower()
    config = load(write(TRANSLATION), [f"{setting}={shown}"])
    section, name = setting.split(".")
    assert getattr(getattr(config, section), name) == value


@pytest.mark.parametrize("empty", ["text:", "training:", "text: {}\ntraining: {}"])
def test_an_empty_section_has_the_tasks_defaults(write, empty):
    config = load(write(f"{TRANSLATION}{empty}\n"))
    assert config.text.preserve_whitespace and config.training.learning_rate == 1e-3


def test_other_tasks_keep_theirs(write):
    other = TRANSLATION.replace("task: translation", "task: classification").replace("bleu: 20", "accuracy: 0.5")
    config = load(write(other))
    assert (config.data.max_words, config.data.max_word_ratio, config.text.preserve_whitespace) == (None, None, False)
    assert (config.training.learning_rate, config.training.schedule, config.text.lowercase) == (5e-4, "linear", True)
    assert load(write(other), ["data.max_words=50"]).data.max_words == 50
    for override in ("data.max_word_ratio=3", "text.separate_vocabularies=true"):
        message = refusal(write(other), override)
        assert override.partition("=")[0] in message and "classification generates no text" in message


@pytest.mark.parametrize("checkpoint", ["no/such/folder", "runs:/0123456789abcdef"])
def test_a_checkpoint_is_refused_for_translation_starts_from_scratch(write, checkpoint):
    message = refusal(write(TRANSLATION), f"model.checkpoint={checkpoint}")
    assert "model.checkpoint: the task translation starts from scratch" in message and "leave it out" in message


@pytest.mark.parametrize(
    "override, part",
    [
        ("data.label=null", "the parts of their names that differ"),
        ("data.labels=[a, b]", "data.labels: a translation has no classes"),
        ("data.max_word_ratio=0.5", "data.max_word_ratio"),
        ("data.max_words=0", "data.max_words"),
        ("text.target_vocab=de.txt", "set `separate_vocabularies: true` as well"),
    ],
)
def test_what_a_translation_cannot_have_is_refused(write, override, part):
    assert part in refusal(write(TRANSLATION), override)


def test_a_table_needs_the_column_of_the_translation_too(write):
    table = TRANSLATION.replace("format: parallel, train: train.en.gz, eval: val.en.gz", "path: pairs.tsv")
    assert load(write(table)).data.label == "de"
    assert "data.label: name the column of the target texts" in refusal(write(table), "data.label=null")


def test_both_vocabularies_are_relative_to_the_config(write, tmp_path):
    config = load(write(TRANSLATION + "text: {separate_vocabularies: true, vocab: en.txt, target_vocab: de.txt}\n"))
    assert (config.text.vocab, config.text.target_vocab) == (str(tmp_path / "en.txt"), str(tmp_path / "de.txt"))


@pytest.mark.parametrize(
    ("settings", "found"), [({"num_beams": 2, "n_best": 3}, 2), ({"search": "greedy", "n_best": 2}, 1)]
)
def test_no_more_translations_are_given_than_are_looked_at(settings, found):
    with pytest.raises(ValidationError, match=f"finds only {found}; raise num_beams, or lower n_best"):
        TranslationConfig(**settings)
