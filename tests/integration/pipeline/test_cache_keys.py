"""What each step is told, and so known by in the cache: all that its result follows from, and nothing else."""

import json
import shutil
from pathlib import Path
from typing import Any

import checkpoint_files
import pytest
from lines import make_rows, write_csv
from tfx.utils import json_utils
from wordpiece import VOCAB, write_vocab

from bertline.pipeline.orchestration import fingerprints
from bertline.pipeline.orchestration.builder import create_pipeline
from bertline.pipeline.settings.loader import load

CONFIG = """
name: tiny
data: {path: reviews.csv, text: text, label: label}
model: {checkpoint: encoder}
training: {epochs: 2}
evaluation: {thresholds: {accuracy: 0.8}}
"""
MADE_BY = {
    "Ingest": "components/ingest/shards.py",
    "StatisticsGen": "components/statistics/executor.py",
    "Schema": "components/validation/executor.py",
    "ExampleValidator": "components/validation/anomalies.py",
    "Vocabulary": "components/vocabulary/learner.py",
    "Transform": "models/tasks/classification.py",
    "Trainer": "models/tasks/classification.py",
    "Evaluator": "models/tasks/classification.py",
    "ServeCheck": "serving/embedded/server.py",
    "Pusher": "components/pusher/destinations.py",
}
"""A source of each step that it reaches in the most roundabout way, as a task by its name."""


Told = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of a pipeline that starts from a checkpoint."""
    folder = tmp_path_factory.mktemp("line")
    encoder = checkpoint_files.write_config(folder / "encoder")
    write_vocab(encoder, VOCAB)
    (encoder / "model.safetensors").write_bytes(b"weights")
    write_csv(folder / "reviews.csv", make_rows(20))
    (folder / "tiny.yaml").write_text(CONFIG)
    return folder


def told(folder: Path, *settings: str) -> Told:
    """What each step is told."""
    config = load(str(folder / "tiny.yaml"), settings, workspace=str(folder / "workspace"))
    return {step.id: step.exec_properties for step in create_pipeline(config).components}


@pytest.fixture(scope="module")
def before(folder) -> Told:
    return told(folder)


def changed(before: Told, after: Told) -> set[str]:
    assert before.keys() == after.keys()
    return {step for step in before if before[step] != after[step]}


@pytest.mark.parametrize(
    ("setting", "by"),
    [
        ("data.max_bad_fraction=0.5", {"Ingest", "Schema"}),
        ("data.duplicates=keep", {"Ingest", "Schema", "Pusher"}),
        ("validation.label_drift=0.3", {"Schema", "ExampleValidator"}),
        ("validation.allow_anomalies=true", {"ExampleValidator"}),
        ("text.lowercase=false", {"Vocabulary", "Transform", "Trainer"}),
        ("text.seq_len=64", {"Transform", "Trainer"}),
        ("model.dropout=0.3", {"Trainer"}),
        ("training.seed=7", {"Trainer"}),
        ("evaluation.calibration=false", {"Trainer", "Evaluator"}),
        ("evaluation.thresholds.accuracy=0.9", {"Evaluator"}),
        ("evaluation.must_beat_baselines=false", {"Evaluator"}),
        ("serve_check.samples=1", {"Trainer"}),
        ("serve_check.max_latency_ms=7", {"ServeCheck"}),
    ],
)
def test_a_setting_is_known_to_the_steps_that_go_by_it_and_to_no_other(folder, before, setting, by):
    assert changed(before, told(folder, setting)) == by


@pytest.mark.parametrize(
    ("file", "by"),
    [
        ("reviews.csv", {"Ingest", "Pusher"}),
        ("encoder/model.safetensors", {"Trainer"}),
        ("encoder/vocab.txt", {"Vocabulary", "Trainer"}),
    ],
)
def test_a_file_of_the_same_name_with_other_bytes_is_known_to_the_steps_that_read_it(folder, before, file, by):
    path = folder / file
    given = path.read_bytes()
    try:
        path.write_bytes(given + b"more\n")
        assert changed(before, told(folder)) == by
    finally:
        path.write_bytes(given)


def test_each_step_is_known_by_the_code_behind_it(before):
    assert before.keys() == MADE_BY.keys()
    for step, source in MADE_BY.items():
        settings = json_utils.loads(before[step].get("custom_config", "{}"))  # the Trainer is told everything there
        assert source in json.loads({**before[step], **settings}["code"]), step


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy of our code, to be changed."""
    copy = tmp_path_factory.mktemp("sources")
    for package in fingerprints.PACKAGES:
        shutil.copytree(fingerprints.ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.mark.parametrize(
    ("file", "old", "new", "by"),
    [
        (
            "config/data.py",
            "zip(TEXT_KEYS, columns",
            "zip(TEXT_KEYS, set(columns)",
            {"Ingest", "Schema", "ExampleValidator"},
        ),
        ("config/text.py", "class TextConfig(", "class TextConfig(object, ", {"Vocabulary", "Transform", "Trainer"}),
        ("config/training.py", "class TrainingConfig(", "class TrainingConfig(object, ", {"Trainer"}),
        ("config/results.py", "class EvaluationConfig(", "class EvaluationConfig(object, ", {"Evaluator"}),
        ("config/results.py", "class TrackingConfig(", "class TrackingConfig(object, ", set()),
        (
            "core/storage.py",
            "def send(source: Path,",
            "def send(source: str,",
            {"Ingest", "Trainer", "Evaluator", "Pusher"},
        ),
        ("cli.py", "__future__ import annotations", "__future__ import annotations, division", set()),
        ("console/display.py", "__future__ import annotations", "__future__ import annotations, division", set()),
        ("settings/presets/reviews.yaml", "name: reviews", "name: films", set()),
    ],
)
def test_code_of_pipeline_is_known_to_the_steps_that_take_it_and_to_no_other(
    folder, before, sources, monkeypatch, file, old, new, by
):
    path = sources / "pipeline" / file
    given = path.read_text()
    assert old in given
    monkeypatch.setattr(fingerprints, "ROOT", sources)
    try:
        path.write_text(given.replace(old, new, 1))
        assert changed(before, told(folder)) == by
    finally:
        path.write_text(given)
