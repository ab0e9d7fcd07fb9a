"""The line of a task that writes texts: what its steps are told, and what of it makes them run again."""

import json
from pathlib import Path

import pytest
from tfx.utils import json_utils

from bertline.pipeline.config import Config, DataConfig, EvaluationConfig, TextConfig, TranslationConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.orchestration.builder import create_pipeline


@pytest.fixture
def steps(tmp_path):
    """(settings) -> what each step of a pipeline over two small files is told."""
    for language in ("en", "de"):
        (tmp_path / f"train.{language}").write_text("a dog\n" * 5)
        (tmp_path / f"val.{language}").write_text("a cat\n" * 5)
    files = {"train": str(tmp_path / "train.en"), "eval": str(tmp_path / "val.en"), "format": "parallel"}

    def steps(task: str = "translation", **settings) -> dict[str, dict]:
        config = Config(
            name="captions",
            task=task,
            workspace=str(tmp_path / "workspace"),
            data=DataConfig(**files, text="en", label="de"),
            evaluation=EvaluationConfig(thresholds={"bleu" if task == "translation" else "accuracy": 0.5}),
            **settings,
        )
        return {step.id: step.exec_properties for step in create_pipeline(config).components}

    return steps


def test_the_vocabulary_is_learned_from_what_is_written_too(steps):
    told = steps()
    assert json.loads(told["Vocabulary"]["target_keys"]) == ["label"]
    assert told["Ingest"]["label"] == told["Schema"]["label"] == "text"
    assert json.loads(steps("classification")["Vocabulary"]["target_keys"]) == []


def test_the_trainer_is_told_how_translations_are_made_and_other_tasks_are_not(steps):
    translation = TranslationConfig(num_beams=7)

    def trainer(task: str) -> str:
        told = steps(task, translation=translation)["Trainer"]["custom_config"]
        return json_utils.loads(told)["translation"]

    assert TranslationConfig.model_validate_json(trainer("translation")) == translation
    assert trainer("classification") == "{}"  # so that its models are not trained again for it


def test_a_change_of_the_partner_or_of_either_vocabulary_is_seen(steps, tmp_path):
    inputs = steps()["Ingest"]["inputs"]
    (tmp_path / "train.de").write_text("ein Hund\n" * 5)
    assert steps()["Ingest"]["inputs"] != inputs
    vocabularies = {name: str(tmp_path / f"{name}.txt") for name in ("vocab", "target_vocab")}
    text = TextConfig(separate_vocabularies=True, **vocabularies)
    digests = set()
    for contents in (("a", "b"), ("c", "b"), ("a", "c")):
        for path, content in zip(vocabularies.values(), contents, strict=True):
            Path(path).write_text(content)
        digests.add(steps(text=text)["Vocabulary"]["vocab_digest"])
    assert len(digests) == 3
    Path(vocabularies["target_vocab"]).unlink()
    with pytest.raises(BertlineError, match="target_vocab.txt: there is no such file"):
        steps(text=text)
