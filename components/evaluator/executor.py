"""The Evaluator's work: TFMA computes every metric on every slice, for the candidate and for the model pushed now.

What follows from the numbers is decided in `verdict.py`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow_model_analysis as tfma
import tensorflow_text  # noqa: F401  the ops inside the exported models
from tfx_bsl.tfxio import tf_example_record

from bertline.components.baselines.judgement import lost_to
from bertline.components.baselines.measurement import Measured, measure_baselines
from bertline.components.evaluator.predictions.decisions import decided
from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.evaluator.predictions.scores import Estimate, bootstrap, enough_draws
from bertline.components.evaluator.predictions.scores import confusion as confusion_of
from bertline.components.evaluator.predictions.writer import row_evaluator
from bertline.components.evaluator.results import results_of
from bertline.components.evaluator.tfma_config import eval_config_of, length_extractor, slice_columns
from bertline.components.evaluator.undefined import undefined_metrics
from bertline.components.evaluator.verdict import (
    OVERALL,
    ROWS,
    Slices,
    Verdict,
    check_metrics,
    judge,
)
from bertline.models.decisions.decision import Decision
from bertline.models.kinds import ENCODER
from bertline.models.tasks.base.task import Task
from bertline.pipeline.config import EvaluationConfig
from bertline.serving.contract import read_metadata

_ROWS_AT_ONCE = 64
"""Beam would go up to a thousand, and texts of a thousand rows, padded and attended to at once, fill the memory."""


def evaluate(
    make_pipeline: Callable[[], Any],
    task: Task,
    settings: EvaluationConfig,
    *,
    model: str,
    baseline: str | None,
    examples: Sequence[str],
    output: str,
    labels: Sequence[str],
    text_keys: Sequence[str],
    train: Sequence[str] = (),
    test: Sequence[str] = (),
    probed: str = "",
    long_enough: bool = False,
) -> Verdict:
    """Measures the model at `model` (and `baseline`) on the files `examples`, and the model alone on the files `test`.

    Writes TFMA's results to `output`, and every row with the model's answer (`components/evaluator/predictions`).

    Args:
      text_keys: the raw features with the texts of a row.
      train: files of the training Examples, which simple baselines learn from; without them none is measured.
      probed: the file with the predictions of the Trainer's probe, a baseline too; none where there was no probe.
      long_enough: whether the recipe has chosen the epochs.
    """
    check_metrics(task, settings, len(labels))
    metadata_of = {name: read_metadata(path) for name, path in (("candidate", model), ("baseline", baseline)) if path}
    decisions = {name: Decision.of_metadata({**metadata, "labels": labels}) for name, metadata in metadata_of.items()}
    kind = metadata_of["candidate"].get("kind", ENCODER)
    # One class is looked for, in what both have answered.
    positive = decisions["candidate"].positive
    decisions = {name: decision.looking_for(positive) for name, decision in decisions.items()}
    name = _named(baseline)
    with make_pipeline() as pipeline:
        _measure(pipeline, "", task, settings, (model, baseline), examples, output, labels, text_keys, decisions)
        if test:
            alone = {"candidate": decisions["candidate"]}
            _measure(pipeline, "Test", task, settings, (model, None), test, _test_output(output), labels, text_keys, alone)
    slices, classes = results_of(output, name, task)
    baseline_slices = results_of(output, "baseline", task)[0] if baseline else {}
    rows = EvaluationPredictions.read(output)
    confusion = [] if task.evaluation.confusion is None else confusion_of(rows, task.evaluation.confusion).tolist()
    undefined = undefined_metrics(slices[OVERALL], task, confusion, labels, classes)
    reasons = judge(slices, baseline_slices, settings, task, undefined)
    simple = Measured()
    if settings.baselines and train:
        simple = measure_baselines(
            task, rows, text_keys, train=train, evaluation=examples, first=list(settings.thresholds), probed=probed
        )
    if settings.must_beat_baselines:
        reasons += lost_to(simple, task, settings, long_enough=long_enough or kind != ENCODER, itself=kind)
    about = decided(rows, settings)
    if about.refusal:
        reasons.append(about.refusal)
    return Verdict(
        blessed=not reasons,
        reasons=reasons,
        metrics=slices[OVERALL],
        slices={name: values for name, values in slices.items() if name != OVERALL},
        baseline_metrics=baseline_slices.get(OVERALL, {}),
        baseline=baseline,
        confusion=confusion,
        labels=list(labels),
        positive=metadata_of["candidate"].get("positive"),
        positive_why=metadata_of["candidate"].get("positive_why", ""),
        kind=kind,
        kind_why=metadata_of["candidate"].get("kind_why", ""),
        decided=about.numbers,
        decided_how=about.sentences,
        per_class=classes,
        undefined=undefined,
        less_is_better=[
            name for name in slices[OVERALL] if name != ROWS and task.evaluation.metrics[name].better == "lower"
        ],
        baselines=simple.metrics,
        baseline_seconds=simple.seconds,
        baseline_notes=list(simple.notes),
        **(_of_test(_test_output(output), task) if test else {}),
    )


def _test_output(output: str) -> str:
    return os.path.join(output, "test")


def _named(baseline: str | None) -> str | None:
    """By which name TFMA keeps the candidate: by none if it is measured alone."""
    return "candidate" if baseline else None


def _measure(
    pipeline: Any,
    step: str,
    task: Task,
    settings: EvaluationConfig,
    paths: tuple[str, str | None],
    examples: Sequence[str],
    output: str,
    labels: Sequence[str],
    text_keys: Sequence[str],
    decisions: Mapping[str, Decision],
) -> None:
    """Adds the steps to a Beam pipeline that measure a model, and perhaps a baseline, on some files.

    Args:
      step: begins the names of the steps.
      paths: of the model, and of the baseline.
      decisions: how each of them decides, by `candidate` and `baseline`.
    """
    model, baseline = paths
    config = eval_config_of(task, settings, labels, decisions)
    models = [
        tfma.default_eval_shared_model(path, model_name=name, eval_config=config)
        for name, path in (("candidate", model), ("baseline", baseline))
        if path is not None
    ]
    extractors = tfma.default_extractors(eval_shared_model=models, eval_config=config)
    # Before the slice keys are read from the features.
    extractors.insert(1, length_extractor(settings.length_slices))
    evaluators = [
        *tfma.default_evaluators(eval_shared_model=models, eval_config=config),
        row_evaluator(task, labels, text_keys, slice_columns(settings), output, _named(baseline), decisions["candidate"]),
    ]
    source = tf_example_record.TFExampleRecord(
        list(examples), raw_record_column_name=tfma.ARROW_INPUT_COLUMN, telemetry_descriptors=["Bertline"]
    )
    _ = (
        pipeline
        | f"{step}Read" >> source.BeamSource(batch_size=_ROWS_AT_ONCE)
        | f"{step}Evaluate"
        >> tfma.ExtractEvaluateAndWriteResults(
            eval_shared_model=models,
            eval_config=config,
            extractors=extractors,
            evaluators=evaluators,
            output_path=output,
        )
    )


def _of_test(output: str, task: Task) -> dict[str, Any]:
    """The test metrics of a verdict, each with its interval."""
    measured = results_of(output, None, task)[0][OVERALL]
    rows = EvaluationPredictions.read(output)
    spread = bootstrap(rows, draws=enough_draws(len(rows))) if len(rows) else {}
    metrics: Slices = {}
    for name, value in measured.items():
        one = spread[name].one if name in spread else Estimate(value, math.nan, math.nan)
        if name != ROWS:
            metrics[name] = {"value": value, "low": one.low, "high": one.high}
    return {"test": metrics, "test_rows": int(measured[ROWS])}
