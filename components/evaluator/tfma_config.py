"""What TFMA is told: which metrics of which outputs it computes, on which slices, and by which models' decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma

from bertline.components.evaluator import metrics
from bertline.components.evaluator.verdict import LENGTH, ROWS, length_slice
from bertline.models.decisions.decision import Decision
from bertline.models.metrics.accumulators import family_of
from bertline.models.metrics.scores import OF_CLASSES
from bertline.models.tasks.base.task import Task
from bertline.pipeline.config import EvaluationConfig
from bertline.serving.contract import EXAMPLES_SIGNATURE, TARGETS_SIGNATURE


def eval_config_of(
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

    slices = [[], *([column] for column in slice_columns(settings))]
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


def slice_columns(settings: EvaluationConfig) -> tuple[str, ...]:
    return (*([LENGTH] if settings.length_slices else []), *settings.slices)


def length_extractor(limits: Sequence[int]) -> Any:
    """Adds the slice feature `length` that is made from the feature `words`."""

    def add_length(extracts: dict[str, Any]) -> dict[str, Any]:
        features = dict(extracts[tfma.FEATURES_KEY])
        words = np.asarray(features["words"]).reshape(-1)
        features[LENGTH] = np.asarray([[length_slice(int(count), limits)] for count in words], dtype=object)
        return {**extracts, tfma.FEATURES_KEY: features}

    return tfma.extractors.Extractor(stage_name="ExtractLength", ptransform=beam.Map(add_length))
