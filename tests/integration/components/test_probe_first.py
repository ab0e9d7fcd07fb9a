"""A training that begins from a linear probe: what the data chooses, and that nothing worse than the probe is left."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tiny_training import CONTEXT, SIZE, TASK, build, rows, settings

from bertline.components.trainer.recipe import prepare
from bertline.models.encoders.bert.backbone import Encoder
from bertline.models.training.loop import train
from bertline.models.training.probing import probe
from bertline.pipeline.config import ModelConfig, TrainingConfig
from bertline.pipeline.config.training import RECIPE
from bertline.pipeline.core import events


def encoder():
    made = Encoder(SIZE, seed=3)
    made.embeddings.token.embeddings.assign(np.random.default_rng(0).normal(0, 1, (SIZE.vocab_size, SIZE.hidden)))
    return made


def prepared(folder, *, pooling=None, context=CONTEXT, heard=None, **training):
    model = ModelConfig(checkpoint=str(folder), pooling=pooling)
    given = TrainingConfig(**{"recipe": RECIPE, **training})
    with events.listening(lambda event: heard.append(event.text) if heard is not None else None):
        return prepare(TASK, context, model, given, encoder, rows(300), 96)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True, "other": 1}))
    return tmp_path


def test_the_pooling_is_the_configs_else_the_checkpoints_else_the_probes(folder, tmp_path):
    assert prepared(folder, pooling="mean").context.pooling == "mean"
    assert prepared(folder).context.pooling == "cls"
    bare = prepared(tmp_path / "elsewhere")
    assert bare.context.pooling == max(bare.probe.scores, key=bare.probe.scores.get) and len(bare.probe.scores) == 3


def test_every_choice_is_told_with_its_reason_and_kept_for_the_record(folder):
    heard = []
    found = prepared(folder, heard=heard)
    told = json.loads(found.to_json())
    assert set(told["settings"]) == set(RECIPE) and told["pooling"] == "cls" and told["probe"]["cls"] > 0.5
    for name in (*RECIPE, "pooling", "probe"):
        assert any(line.startswith(f"{name} ") for line in heard), heard
    assert any("1_Pooling/config.json" in line for line in heard)


def test_who_gives_the_epochs_gets_what_was_before(folder):
    found = prepared(folder, recipe=())
    assert found.probe is None and found.context.pooling == "pooler" and found.settings == TrainingConfig()


def test_processes_that_train_together_begin_alike_without_a_probe(folder, monkeypatch):
    cluster = {"cluster": {"chief": ["localhost:1"], "worker": ["localhost:2"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    assert prepared(folder).probe is None


def begun(context):
    """A model with the head of a probe on its own encoder."""
    model = build(0.0)
    found = probe(model.encoder, rows(300), TASK.model.linear_probe, 2, poolings=("pooler",))
    model.head.kernel.assign(found.layer.kernel)
    model.head.bias.assign(found.layer.bias)
    return model


def test_where_no_epoch_is_better_the_probe_is_what_is_left(tmp_path):
    harmful = settings(epochs=2, learning_rate=0.9, restore_best=True, warmup_ratio=0.0)
    result = train(
        lambda: begun(CONTEXT), TASK, harmful, rows(64), rows(64, 1), checkpoint_folder=tmp_path, start_counts=True
    )
    assert result.kept_step == 0 and result.steps > 0
    first = next(record for record in result.history if "eval_loss" in record)
    assert (first["step"], first["epoch"]) == (0, 0)
    np.testing.assert_array_equal(result.model.head.kernel, begun(CONTEXT).head.kernel)


@pytest.mark.parametrize(("scores", "steps"), [([1.0], 0), ([0.5, 1.0], 4)])
def test_nothing_is_trained_that_could_not_be_measured_as_better(tmp_path, scores, steps):
    """The end is where every score is the best there is: at the start, or after an epoch."""
    left = iter(scores)

    def score(model):
        return {"accuracy": 1.0, "matthews": next(left)}

    chosen = settings(keep="best", best_by="matthews", buckets=(20,), learning_rate=1e-3)
    result = train(
        lambda: begun(CONTEXT), TASK, chosen, rows(64), rows(64, 1), checkpoint_folder=tmp_path, score=score,
        start_counts=True, ends_at_best=True,
    )  # fmt: skip
    assert (result.steps, result.unbeatable) == (steps, True)
    if not steps:
        np.testing.assert_array_equal(result.model.head.kernel, begun(CONTEXT).head.kernel)


def test_where_an_epoch_is_better_it_is_left(tmp_path):
    good = settings(epochs=6, restore_best=True, buckets=(20,), learning_rate=1e-2)
    result = train(build, TASK, good, rows(96), rows(96), checkpoint_folder=tmp_path, start_counts=True)
    assert result.kept_step > 0
