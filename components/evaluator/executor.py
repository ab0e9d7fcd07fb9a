"""The Evaluator's work: TFMA computes every metric on every slice, for the candidate and for the model pushed now.

What follows from the numbers is decided in `verdict.py`.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
import tensorflow_text  # noqa: F401  the ops inside the exported models
from tfx_bsl.tfxio import tf_example_record

from bertline.components.baselines.judgement import lost_to
from bertline.components.baselines.measurement import Measured, measure_baselines
from bertline.components.evaluator import metrics
from bertline.components.evaluator.metrics import PER_CLASS
from bertline.components.evaluator.predictions.decisions import decided
from bertline.components.evaluator.predictions.rows import HeldOutRows
from bertline.components.evaluator.predictions.scores import Estimate, bootstrap, enough_draws
from bertline.components.evaluator.predictions.scores import confusion as confusion_of
from bertline.components.evaluator.predictions.writer import row_evaluator
from bertline.components.evaluator.undefined import undefined_metrics
from bertline.components.evaluator.verdict import (
    LENGTH,
    OVERALL,
    ROWS,
    Slices,
    Verdict,
    check_metrics,
    judge,
    length_slice,
    slice_name,
)
from bertline.models.decisions.decision import Decision
from bertline.models.kinds import ENCODER
from bertline.models.metrics.accumulators import family_of
from bertline.models.metrics.scores import OF_CLASSES
from bertline.models.tasks.base.task import Task
from bertline.pipeline.config import EvaluationConfig
from bertline.serving.contract import EXAMPLES_SIGNATURE, TARGETS_SIGNATURE, read_card

_DIFFERENCE = "_diff"
"""Ends the names under which TFMA gives how far a candidate is from its baseline."""
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
    cards = {name: read_card(path) for name, path in (("candidate", model), ("baseline", baseline)) if path}
    decisions = {name: Decision.of_card({**card, "labels": labels}) for name, card in cards.items()}
    kind = cards["candidate"].get("kind", ENCODER)
    # One class is looked for, in what both have answered.
    positive = decisions["candidate"].positive
    decisions = {name: decision.looking_for(positive) for name, decision in decisions.items()}
    name = _named(baseline)
    with make_pipeline() as pipeline:
        _measure(pipeline, "", task, settings, (model, baseline), examples, output, labels, text_keys, decisions)
        if test:
            alone = {"candidate": decisions["candidate"]}
            _measure(pipeline, "Test", task, settings, (model, None), test, _test_output(output), labels, text_keys, alone)
    slices, classes = _results(output, name, task)
    baseline_slices = _results(output, "baseline", task)[0] if baseline else {}
    rows = HeldOutRows.read(output)
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
        positive=cards["candidate"].get("positive"),
        positive_why=cards["candidate"].get("positive_why", ""),
        kind=kind,
        kind_why=cards["candidate"].get("kind_why", ""),
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
    config = _eval_config(task, settings, labels, decisions)
    models = [
        tfma.default_eval_shared_model(path, model_name=name, eval_config=config)
        for name, path in (("candidate", model), ("baseline", baseline))
        if path is not None
    ]
    extractors = tfma.default_extractors(eval_shared_model=models, eval_config=config)
    # Before the slice keys are read from the features.
    extractors.insert(1, _length_extractor(settings.length_slices))
    evaluators = [
        *tfma.default_evaluators(eval_shared_model=models, eval_config=config),
        row_evaluator(task, labels, text_keys, _slice_columns(settings), output, _named(baseline), decisions["candidate"]),
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
    measured = _results(output, None, task)[0][OVERALL]
    rows = HeldOutRows.read(output)
    spread = bootstrap(rows, draws=enough_draws(len(rows))) if len(rows) else {}
    metrics: Slices = {}
    for name, value in measured.items():
        one = spread[name].one if name in spread else Estimate(value, math.nan, math.nan)
        if name != ROWS:
            metrics[name] = {"value": value, "low": one.low, "high": one.high}
    return {"test": metrics, "test_rows": int(measured[ROWS])}


def _eval_config(
    task: Task, settings: EvaluationConfig, labels: Sequence[str], decisions: Mapping[str, Decision]
) -> tfma.EvalConfig:
    """Args: decisions: how each of the models decides, by their names."""
    first = next(iter(task.evaluation.outputs))
    measured = {first, *(metric.output for metric in task.evaluation.metrics.values())}
    outputs = {name: output for name, output in task.evaluation.outputs.items() if name in measured}
    # TFMA looks for the prediction of an output under the output's name, so that it has the prediction's there.
    by_output: dict[str, Any] = {
        "label_keys": {output.prediction: output.label for output in outputs.values()},
        "example_weight_keys": {output.prediction: output.weight for output in outputs.values()},
        "prediction_keys": {output.prediction: output.prediction for output in outputs.values()},
    }
    if len(outputs) == 1:  # TFMA has other fields for a model with one output
        by_output = {f"{field.removesuffix('s')}": next(iter(keys.values())) for field, keys in by_output.items()}

    def spec(name: str) -> tfma.ModelSpec:
        return tfma.ModelSpec(
            name=name,
            is_baseline=name == "baseline",
            model_type=tfma.TF_GENERIC,  # or TFMA loads each model once more, to see whether it is one of Keras's
            signature_name=EXAMPLES_SIGNATURE,
            preprocessing_function_names=[TARGETS_SIGNATURE],
            **by_output,
        )

    def metrics_of(output: str) -> tfma.MetricsSpec:
        wanted = {
            name: metric.tfma
            for name, metric in task.evaluation.metrics.items()
            if metric.output == output and metric.tfma and metric.is_measured(len(labels))
        }
        if output == first:
            wanted[ROWS] = "WeightedExampleCount"
        found = [_metric(name, of, labels, decisions) for name, of in wanted.items()]
        weights = tfma.ExampleWeightOptions(weighted=True)
        names = [outputs[output].prediction] if len(outputs) > 1 else []
        return tfma.MetricsSpec(metrics=found, example_weights=weights, output_names=names)

    slices = [[], *([column] for column in _slice_columns(settings))]
    return tfma.EvalConfig(
        model_specs=[spec("candidate"), *([spec("baseline")] if "baseline" in decisions else [])],
        slicing_specs=[tfma.SlicingSpec(feature_keys=keys) for keys in slices],
        metrics_specs=[metrics_of(output) for output in outputs],
    )


def _metric(name: str, of: str, labels: Sequence[str], decisions: Mapping[str, Decision]) -> tfma.MetricConfig:
    """A metric of TFMA's by the name of its class, or one of ours by the name of its score."""
    plain = {model: asdict(decision) for model, decision in decisions.items()}
    if of in OF_CLASSES:
        config = json.dumps({"name": name, "of": of, "decisions": plain})
        return tfma.MetricConfig(class_name=metrics.ClassMean.__name__, module=metrics.__name__, config=config)
    if family_of(of) is None:
        return tfma.MetricConfig(class_name=of, config=json.dumps({"name": name}))
    config = json.dumps({"name": name, "score": of, "labels": list(labels), "decisions": plain})
    return tfma.MetricConfig(class_name=metrics.Score.__name__, module=metrics.__name__, config=config)


def _slice_columns(settings: EvaluationConfig) -> tuple[str, ...]:
    return (*([LENGTH] if settings.length_slices else []), *settings.slices)


def _length_extractor(limits: Sequence[int]) -> Any:
    """Adds the slice feature `length` that is made from the feature `words`."""

    def add_length(extracts: dict[str, Any]) -> dict[str, Any]:
        features = dict(extracts[tfma.FEATURES_KEY])
        words = np.asarray(features["words"]).reshape(-1)
        features[LENGTH] = np.asarray([[length_slice(int(count), limits)] for count in words], dtype=object)
        return {**extracts, tfma.FEATURES_KEY: features}

    return tfma.extractors.Extractor(stage_name="ExtractLength", ptransform=beam.Map(add_length))


def _results(output: str, model_name: str | None, task: Task) -> tuple[Slices, Slices]:
    """TFMA's metrics of one model as plain numbers, and the scores of classes beside them."""
    slices: Slices = {}
    per_class: Slices = {}
    for key, outputs in tfma.load_eval_result(output, model_name=model_name).slicing_metrics:
        found = {
            name: value for output in outputs.values() for of_class in output.values() for name, value in of_class.items()
        }
        name = ", ".join(slice_name(column, value) for column, value in key) or OVERALL
        slices[name] = _numbers(
            {metric: found[metric] for metric in (*task.evaluation.metrics, ROWS) if metric in found}, task
        )
        if name == OVERALL:
            per_class = _per_class(found)
    return dict(sorted(slices.items(), key=lambda item: _natural(item[0]))), per_class


def _per_class(found: Mapping[str, Any]) -> Slices:
    """The scores whose names say of which class they are."""
    classes: Slices = {}
    for metric, value in found.items():
        if metric.startswith(PER_CLASS):
            name, _, score = metric.removeprefix(PER_CLASS).rpartition("/")
            if score.endswith(_DIFFERENCE):
                continue
            classes.setdefault(name, {})[score] = float(value["doubleValue"])
    return classes


def _numbers(found: Mapping[str, Any], task: Task) -> dict[str, float]:
    """What TFMA measured, and what follows from it, in the task's order."""
    numbers = {name: float(value["doubleValue"]) for name, value in found.items()}
    for name, metric in task.evaluation.metrics.items():
        if metric.function:
            numbers[name] = metric.function(numbers[metric.of])
    return {name: numbers[name] for name in (*task.evaluation.metrics, ROWS) if name in numbers}


def _natural(name: str) -> list[str]:
    """Sorts numbers in names by their value: 5-9 words before 10-19 words."""
    return [f"{int(part):09d}" if part.isdigit() else part for part in re.split(r"(\d+)", name)]
