"""The Evaluator: the pipeline's door to `executor.py`."""

import json
import os
from collections.abc import Mapping
from typing import Any

import apache_beam as beam
import tensorflow as tf
from tfx.components.evaluator import constants
from tfx.dsl.component.experimental.annotations import (
    BeamComponentParameter,
    InputArtifact,
    OutputArtifact,
    Parameter,
)
from tfx.dsl.component.experimental.decorators import component
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.types.standard_artifacts import Examples, Model, ModelBlessing, ModelEvaluation, ModelRun
from tfx.utils import io_utils, path_utils

from bertline.components.evaluator.executor import evaluate
from bertline.components.evaluator.verdict import FILE_NAME
from bertline.components.ingest.rows import TEST
from bertline.components.pusher.executor import model_digest, pushed_versions
from bertline.components.step_files import PROBE, RECIPE
from bertline.models.tasks.base.task import as_learned, get_task
from bertline.pipeline.config import EvaluationConfig, PretrainingConfig
from bertline.pipeline.core import events
from bertline.pipeline.core.storage import local_copy
from bertline.serving.contract import read_metadata


@component(use_beam=True)
def Evaluator(
    examples: InputArtifact[Examples],
    model: InputArtifact[Model],
    training: InputArtifact[ModelRun],
    evaluation: OutputArtifact[ModelEvaluation],
    blessing: OutputArtifact[ModelBlessing],
    settings: Parameter[str],
    destination: Parameter[str],
    code: Parameter[str],
    pretraining: Parameter[str] = "{}",
    beam_pipeline: BeamComponentParameter[beam.Pipeline] = None,
) -> None:
    """Measures a model on the evaluation examples, against the model that is pushed now and simple baselines, and blesses
    or refuses it.

    Args:
      examples: raw Examples with the splits `eval` and `train`, which simple baselines learn from, and perhaps with test
        examples beside them.
      model: the candidate.
      training: what its Trainer has left beside it: the predictions of a probe, which are a baseline, and its recipe.
      evaluation: TFMA's results, our verdict with its reasons, and every row with the model's answer.
      blessing: whether the model may be pushed.
      settings: JSON of the config's section `evaluation`.
      destination: folder of pushed versions; the newest one is the baseline.
      code: fingerprint of the sources, so that a change of code is not answered from the cache.
      pretraining: JSON of the settings that say what is learned.
    """
    model_path = path_utils.serving_model_path(model.uri)

    def files(split: str) -> list[str]:
        return [os.path.join(uri, "*") for uri in artifact_utils.get_split_uris([examples], split)]

    # Ingest leaves them beside the splits, so that no other step takes them for one.
    test = os.path.join(examples.uri, f"Split-{TEST}", "*")
    metadata = read_metadata(model_path)
    task = as_learned(get_task(metadata["task"]), PretrainingConfig.model_validate_json(pretraining))
    verdict = evaluate(
        lambda: beam_pipeline,
        task,
        EvaluationConfig.model_validate_json(settings),
        model=model_path,
        baseline=find_baseline(model_path, metadata, destination),
        examples=files("eval"),
        train=files("train"),
        test=[test] if fileio.glob(test) else [],
        probed=os.path.join(training.uri, PROBE),
        long_enough="epochs" in chosen_by_data(training.uri),
        output=evaluation.uri,
        labels=metadata["labels"],
        # A caller may name the texts otherwise than the Examples do.
        text_keys=task.preprocessing.text_keys if task.preprocessing.input_names else metadata["text_keys"],
    )
    io_utils.write_string_file(os.path.join(evaluation.uri, FILE_NAME), verdict.to_json())
    marker = constants.BLESSED_FILE_NAME if verdict.blessed else constants.NOT_BLESSED_FILE_NAME
    io_utils.write_string_file(os.path.join(blessing.uri, marker), "\n".join(verdict.reasons))
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, int(verdict.blessed))
    blessing.set_string_custom_property("reasons", json.dumps(verdict.reasons))


def chosen_by_data(folder: str) -> Mapping[str, Any]:
    """The settings that the Trainer has chosen, by its recipe in this folder."""
    path = os.path.join(folder, RECIPE)
    if not tf.io.gfile.exists(path):
        return {}
    with tf.io.gfile.GFile(path) as file:
        return json.load(file)["settings"]


def find_baseline(model: str, metadata: Mapping[str, Any], destination: str) -> str | None:
    """The newest pushed model that is not the candidate itself, if it reads and answers the same."""
    digest = model_digest(model)
    for pushed in reversed(pushed_versions(destination)):
        if pushed.metadata.get("digest") == digest:
            continue
        # A model that was pushed before rows could have two texts has one.
        before = {"text_keys": ["text"], **pushed.metadata}
        for key, what in (("task", "another task"), ("labels", "other classes"), ("text_keys", "other texts")):
            if before.get(key) != metadata[key]:
                note = f"version {pushed.version} has {what} than this model: it is no baseline for it"
                events.emit(events.Note(note))
                return None
        return local_copy(str(pushed.path))
    return None
