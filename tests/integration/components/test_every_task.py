"""Every task without a whole pipeline in `make test`: rows are learned from, exported, asked and measured."""

from __future__ import annotations

import json

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401  the ops inside the exported models
from learned import DEEDS, LESSONS, THINGS, VERSION, evaluation
from tiny_models import CLASSES

from bertline.components.evaluator.executor import evaluate
from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.evaluator.predictions.scores import scores
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import CHOICES, EvaluationConfig, task_names

WITH_A_LINE = {"tagging", "translation"}
"""Their whole pipelines are in tests/e2e, and not marked `full`."""


def history(folder):
    return json.loads((folder / "history.json").read_text())


def test_no_task_is_left_out():
    assert {*LESSONS, *WITH_A_LINE} == set(task_names())


@pytest.mark.parametrize("name", LESSONS)
def test_the_loss_falls(name, learned_model):
    losses = [record["loss"] for record in history(learned_model(name)) if "loss" in record]
    part = len(losses) // 5
    assert np.isfinite(losses).all() and np.mean(losses[-part:]) < 0.6 * np.mean(losses[:part])


def texts(values):
    return [value.decode() for value in values.numpy()]


def of_pairs(serve, rows, output):
    """The output for each row of two texts."""
    return serve(**columns(rows, text="text", text_2="text_2"))[output].numpy()


def columns(rows, **keys):
    return {name: tf.constant([row[key][0] for row in rows]) for name, key in keys.items()}


def right_classes(serve, rows):
    return [[label.decode()] == row["label"] for label, row in zip(of_pairs(serve, rows, "label"), rows, strict=True)]


def right_sets(serve, rows):
    found = of_pairs(serve, rows, "labels")
    return [{name.decode() for name in names if name} == {*row["label"]} for names, row in zip(found, rows, strict=True)]


def right_numbers(serve, rows):
    return abs(of_pairs(serve, rows, "value") - [row["label"][0] for row in rows]) < 0.5


def right_similarities(serve, rows):
    """Those that belong together are more alike than all that do not."""
    found, together = of_pairs(serve, rows, "similarity"), np.asarray([row["label"][0] == 1 for row in rows])
    return (found > found[~together].max()) == together


def right_matches(serve, rows):
    """A thing finds its own deed among all."""
    found = [of_pairs(serve, [{"text": [thing], "text_2": [deed]} for deed in DEEDS], "similarity") for thing in THINGS]
    return [values.argmax() == at for at, values in enumerate(found)]


def right_choices(serve, rows):
    choices = tf.constant([row[CHOICES] for row in rows])
    found = serve(**columns(rows, text="text", text_2="text_2"), choices=choices)
    return found["index"].numpy() == [row["label"][0] for row in rows]


def right_answers(serve, rows):
    found = serve(**columns(rows, question="text", context="text_2"))
    given = zip(found["answer"].numpy(), found["start"].numpy(), rows, strict=True)
    return [
        [text.decode()] == (row["answers"] or [""]) and [start] == (row["answer_starts"] or [0])
        for text, start, row in given
    ]


def right_predictions(serve, rows):
    """`cat cat [MASK] cat` is filled with the word beside it."""
    found = serve(text=tf.constant([f"{thing} {thing} [MASK] {thing}" for thing in THINGS]))["fillings"].numpy()
    return [fillings[0][0].decode() == thing for fillings, thing in zip(found, THINGS, strict=True)]


RIGHT = {
    "classification": right_classes,
    "multilabel": right_sets,
    "regression": right_numbers,
    "similarity": right_similarities,
    "matching": right_matches,
    "choice": right_choices,
    "answering": right_answers,
    "pretraining": right_predictions,
}
"""(signature, evaluation examples) -> whether each answer is right."""


@pytest.mark.parametrize("name", LESSONS)
def test_the_exported_signature_answers_what_was_learned(name, learned_model):
    model = tf.saved_model.load(str(learned_model(name) / name / str(VERSION)))
    assert np.mean(RIGHT[name](model.signatures["serving_default"], evaluation(name))) >= 0.8


@pytest.mark.parametrize("name", LESSONS)
def test_the_evaluator_measures_what_the_training_and_the_kept_rows_say(name, learned_model, tmp_path):
    lesson, folder, task = LESSONS[name], learned_model(name), get_task(name)
    verdict = evaluate(
        beam.Pipeline, task,
        EvaluationConfig(thresholds=dict(lesson.bounds), length_slices=(), must_beat_baselines=False),
        model=str(folder / name / str(VERSION)), baseline=None, examples=[str(folder / "eval.gz")],
        output=str(tmp_path), labels=lesson.labels, text_keys=lesson.tiny.texts, train=[str(folder / "train.gz")],
    )  # fmt: skip
    assert verdict.blessed, verdict.reasons
    if name == "pretraining":
        assert verdict.baselines == {} and "has no simple baseline" in verdict.baseline_notes[0]
    else:  # on all evaluation examples: each has met the row that TFMA made of it
        assert verdict.baselines and verdict.baseline_notes == [] and verdict.baseline_seconds < 60
        assert {metric for found in verdict.baselines.values() for metric in found} <= {*verdict.metrics}
    measured = dict(verdict.metrics)
    assert measured.pop("rows") == len(evaluation(name))
    assert scores(EvaluationPredictions.read(tmp_path)) == pytest.approx(measured, rel=1e-5, abs=1e-5)
    last = [record for record in history(folder) if "eval_loss" in record][-1]
    while_training = {metric: last[f"eval_{metric}"] for metric in measured if f"eval_{metric}" in last}
    assert while_training or name in ("choice", "pretraining")
    if name != "answering":  # whose threshold is tuned when the training is over
        assert while_training == pytest.approx({metric: measured[metric] for metric in while_training}, abs=1e-5)
    if name == "multilabel":
        assert set(verdict.per_class) == set(CLASSES)
