"""The Trainer: transformed examples become a SavedModel that takes raw text.

TFX's stock executor calls `run_fn` by its dotted path; `component.py` is the step around it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from bertline.components.step_files import HISTORY, PROBE, RECIPE
from bertline.components.trainer.checkpoint_mirror import checkpoints_at
from bertline.components.trainer.cluster import train_as_chief
from bertline.components.trainer.fallback import Candidate, better_one
from bertline.components.trainer.model import make_encoder, make_model
from bertline.components.trainer.probe_predictions import write_probe
from bertline.components.trainer.recipe import decide_long, prepare
from bertline.components.trainer.rows import phases_of, positive_of, with_class_weights
from bertline.components.transform.executor import target_vocabulary_of, vocabulary_of
from bertline.components.validation.schema import labels_of
from bertline.models.data import batching
from bertline.models.data.long_texts import left_open
from bertline.models.decisions.tuning import check_deciding
from bertline.models.heads.pooled import as_chosen
from bertline.models.kinds import has_fallback
from bertline.models.tasks.base.task import Context, Task, Tensors, expanded, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.training import loop as training
from bertline.models.training.cluster import Cluster
from bertline.models.training.distribution import join
from bertline.models.training.epoch_metrics import scorer
from bertline.pipeline.config import (
    DecisionConfig,
    ModelConfig,
    PretrainingConfig,
    TextConfig,
    TrainingConfig,
    TranslationConfig,
)
from bertline.pipeline.core import events
from bertline.pipeline.core.storage import join as join_paths
from bertline.serving.export.exporter import export_whole
from bertline.serving.export.samples import choose_examples


def run_fn(args: Any) -> None:
    """The door for TFX. Where TF_CONFIG names several processes, this one is their chief."""
    if Cluster.from_environment():
        train_as_chief(args)
    else:
        train_here(args)


def train_here(args: Any) -> None:
    """Unpacks TFX's arguments and calls `train_and_export`.

    `args.custom_config` carries the sections of the config as JSON, the pipeline's name, a code fingerprint (so that a
    change of code is a change of the cache key) and the folder for checkpoints that outlive a killed run.
    """
    settings = args.custom_config
    inputs_seen = [args.transform_graph_path, *args.train_files, *args.eval_files, json.dumps(settings, sort_keys=True)]
    # A checkpoint is taken up again only by a run with the same config, code and data.
    key = hashlib.sha256("\n".join(inputs_seen).encode()).hexdigest()[:16]
    given = Given(
        name=settings["name"],
        text=TextConfig.model_validate_json(settings["text"]),
        model=ModelConfig.model_validate_json(settings["model"]),
        training=TrainingConfig.model_validate_json(settings["training"]),
        pretraining=PretrainingConfig.model_validate_json(settings["pretraining"]),
        translation=TranslationConfig.model_validate_json(settings.get("translation", "{}")),
        positive=settings.get("positive"),
        deciding=DecisionConfig.model_validate_json(settings.get("deciding", "{}")),
        columns=settings["columns"],
        fallback_by=settings.get("fallback_by", ()),
        samples=settings["samples"],
    )
    examples = Examples(
        labels=labels_of(args.schema_path),
        vocab_path=vocabulary_of(args.transform_graph_path),
        target_vocab_path=target_vocabulary_of(args.transform_graph_path),
        feature_spec=tft.TFTransformOutput(args.transform_graph_path).transformed_feature_spec(),
        train=_matching(args.train_files),
        evaluation=_matching(args.eval_files),
        raw_train=_matching(settings["raw_train_files"]),
        raw_evaluation=_matching(settings["raw_files"]),
    )
    with checkpoints_at(join_paths(settings["checkpoints"], key)) as (folder, saved):
        out = Out(args.serving_model_dir, args.model_run_dir, folder, saved)
        train_and_export(get_task(settings["task"]), given, examples, out)


def _matching(patterns: Sequence[str]) -> list[str]:
    return [path for pattern in patterns for path in tf.io.gfile.glob(pattern)]


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the config says of a training, section by section."""

    name: str
    """Of the pipeline."""
    text: TextConfig
    model: ModelConfig
    training: TrainingConfig
    pretraining: PretrainingConfig
    translation: TranslationConfig = field(default_factory=TranslationConfig)
    deciding: DecisionConfig = field(default_factory=DecisionConfig)
    """What is tuned when the training is over."""
    columns: Mapping[str, str | Sequence[str]]
    """Those of the texts, by the texts' names."""
    positive: str | None = None
    """`data.positive`."""
    fallback_by: Sequence[str] = ()
    """Metrics that the trained model is compared with a fallback by, the first ones first; without any there is none."""
    samples: int
    """How many raw evaluation examples go with the model as sample requests."""


@dataclass(frozen=True, kw_only=True)
class Examples:
    """What the steps before have made of the data."""

    labels: Sequence[str]
    vocab_path: str
    target_vocab_path: str | None = None
    """Of the texts that are written, where they have a vocabulary of their own."""
    feature_spec: dict[str, Any]
    train: Sequence[str]
    evaluation: Sequence[str]
    raw_train: Sequence[str] = ()
    """As they were read: a fallback reads texts, and not tokens."""
    raw_evaluation: Sequence[str]


@dataclass(frozen=True)
class Out:
    """Where a training writes."""

    model_folder: str
    history_folder: str
    checkpoint_folder: Path
    saved: Callable[[], None] = lambda: None
    """It is called when a checkpoint is written."""


def train_and_export(task: Task, given: Given, examples: Examples, out: Out) -> training.TrainingResult:
    """Trains, and writes the SavedModel with all that it brings along, where this process is the one that writes."""
    text, settings, model, labels, columns = given.text, given.training, given.model, examples.labels, given.columns
    check_deciding(task, given.deciding, len(labels))
    was_open = left_open(task, text)
    text, why_long = decide_long(task, text, len(columns), examples.train, examples.feature_spec, xla=settings.xla)
    encoder = TextEncoder.from_config(examples.vocab_path, text)
    second = examples.target_vocab_path
    target = TextEncoder.from_config(second, text) if second not in (None, examples.vocab_path) else encoder
    context = Context(
        encoder,
        tuple(labels),
        given.pretraining,
        tuple(columns),
        crf=model.crf,
        deciding=given.deciding,
        translation=given.translation,
        target=target if task.preprocessing.label == "text" else None,
    )

    def as_read(features: Tensors) -> Tensors:
        return as_chosen(features, context) if was_open else features

    def corpus(files: Sequence[str], for_training: bool) -> batching.Corpus:
        prepare = task.preprocessing.prepare(context, for_training) if task.preprocessing.prepare else None
        read = batching.read_corpus(
            files, examples.feature_spec, lambda features: expanded(task, as_read(features), context, training=True)
        )
        return replace(read, prepare=prepare, counted=task.objective.counted_key)

    @cache  # asked for after each epoch; the rows that are learned from are in memory too
    def evaluation_batches() -> list[Tensors]:
        read = batching.read_rows(examples.evaluation, examples.feature_spec, settings.batch_size).map(
            batching.as_it_is(as_read)
        )
        return list(batching.by_length(read, settings.batch_size))

    train_examples = corpus(examples.train, True)
    looked_for = positive_of(task, train_examples, labels, given.positive)
    if looked_for:
        context = replace(context, positive=looked_for.name)
        events.emit(events.Note(f"positive class {looked_for.name!r}  ({looked_for.why})"))
    if settings.class_weights and task.objective.class_weights and task.objective.class_key:
        train_examples = with_class_weights(task, train_examples, settings.class_weights, labels)
    eval_examples = corpus(examples.evaluation, False)

    @cache
    def fresh_encoder() -> Any:
        return make_encoder(model, encoder.vocab_size, settings.seed)

    replicas = join(settings.devices).replicas
    prepared = prepare(
        task, context, model, settings, fresh_encoder, train_examples, len(eval_examples), why_long, replicas
    )
    settings, context = prepared.settings, prepared.context
    result = training.train(
        lambda: prepared.begin(make_model(task, context, model, settings.seed)),
        task,
        settings,
        phases_of(train_examples, settings, text, given.pretraining),
        eval_examples,
        start_counts=prepared.probe is not None,
        ends_at_best=prepared.ends_at_best,
        checkpoint_folder=out.checkpoint_folder,
        score=scorer(task, context, evaluation_batches),
        report=lambda record: events.emit(events.Training(record)),
        saved=out.saved,
    )
    if not join(settings.devices).is_chief:
        return result
    if result.resumed_at:
        events.emit(events.Note(f"training resumed from the checkpoint at step {result.resumed_at}"))
    if result.unbeatable:
        prepared = prepared.ended(result.kept_step, len(eval_examples))
    chosen = Candidate(task, result.model, evaluation_batches)
    if given.fallback_by and has_fallback(task.name, len(columns)):
        chosen = better_one(
            chosen, context, result, (*given.fallback_by, settings.monitor), examples.raw_train, examples.raw_evaluation
        )
    if task.evaluation.tune:
        context = replace(context, tuned=task.evaluation.tune(task, chosen.model, context, chosen.rows()))
        for what, value in context.tuned.items():
            events.emit(events.Note(f"{what} {value:.4f}, tuned on the evaluation examples"))
    metadata = {
        "pipeline": given.name,
        "task": task.name,
        **chosen.metadata,
        "labels": list(labels),
        # What a caller names the texts, and the columns that they had in the training files.
        "text_keys": list(task.preprocessing.input_names or columns),
        "columns": dict(zip(task.preprocessing.input_names or columns, columns.values(), strict=True)),
        "tuned": dict(context.tuned),
        **({"positive": looked_for.name, "positive_why": looked_for.why} if looked_for else {}),
        "text": text.model_dump(exclude={"vocab", "target_vocab"}),
    }
    rows = choose_examples(task, context, examples.raw_evaluation, given.samples)
    export_whole(
        chosen.task,
        context,
        chosen.model,
        out.model_folder,
        metadata,
        rows=rows,
        name=given.name,
        vocab_path=examples.vocab_path,
    )
    history_folder = out.history_folder
    tf.io.gfile.makedirs(history_folder)
    with tf.io.gfile.GFile(f"{history_folder}/{HISTORY}", "w") as file:
        file.write("".join(json.dumps(record) + "\n" for record in result.history))
    with tf.io.gfile.GFile(f"{history_folder}/{RECIPE}", "w") as file:
        file.write(prepared.to_json())
    if prepared.probe:
        write_probe(f"{history_folder}/{PROBE}", prepared.probe, task, context, fresh_encoder(), examples.raw_evaluation)
    shutil.rmtree(out.checkpoint_folder)  # finished: the next training of this kind starts afresh
    return result
