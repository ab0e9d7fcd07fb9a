"""The wiring of the pipeline: which step feeds which. The work is in `components/`."""

from __future__ import annotations

import json
from typing import Any

from tfx.orchestration import metadata
from tfx.orchestration.pipeline import Pipeline

from bertline.components.evaluator.component import Evaluator
from bertline.components.evaluator.verdict import check_metrics
from bertline.components.ingest.component import GIVEN_AT_RUN as FILES_AT_RUN
from bertline.components.ingest.component import Ingest
from bertline.components.ingest.files import raw_bytes
from bertline.components.ingest.readers.registry import check_inputs
from bertline.components.pusher.component import Publish
from bertline.components.sentence_pairs.component import SentencePairs
from bertline.components.serve_check.component import ServeCheck
from bertline.components.statistics.component import StatisticsGen
from bertline.components.steps import Step
from bertline.components.trainer.component import GIVEN_AT_RUN as TRAINING_AT_RUN
from bertline.components.trainer.component import Trainer
from bertline.components.transform.component import Transform
from bertline.components.validation.component import DataGate, SchemaFromConfig
from bertline.components.vocabulary.component import VocabularyGen
from bertline.models.data.long_texts import check_long
from bertline.models.decisions.tuning import check_deciding
from bertline.models.tasks.base.task import as_learned, check_label, check_test, check_texts, check_training, get_task
from bertline.pipeline.config import Config, DecisionConfig
from bertline.pipeline.core import plugins
from bertline.pipeline.orchestration.beam import beam_args
from bertline.pipeline.orchestration.fallback import fallback_by
from bertline.pipeline.orchestration.fingerprints import InputDigests, added_to, code_fingerprint, task_modules
from bertline.pipeline.orchestration.placement import RunLocation, here

_OF_THE_LINE_ALONE = {
    "path",
    "positive",
    "train",
    "eval",
    "test",
    "query",
    "sheet",
    "spans",
    "split",
    "labels",
    "incomplete",
    "max_bad_fraction",
}
"""Settings of `data` that say nothing of how another file is read."""
_OF_LENGTH = {"seq_len", "long", "window_step", "max_windows"}
"""Settings of `text` that no vocabulary depends on."""
_TRAINING_ALONE: Any = {
    "static_masking": True,
    "next_sentence": True,
    "pack": True,
    "phases": {"__all__": {"epochs", "batch_size"}},
}
"""Settings of `pretraining` that do not change the pairs."""


def create_pipeline(
    config: Config, *, push: bool = True, place: RunLocation | None = None, digests: InputDigests | None = None
) -> Pipeline:
    """The pipeline for one config, its steps in the order in which the data goes through them.

    Args:
      push: whether ServeCheck and the Pusher are among them. Without, a model is trained and judged, and goes no further.
      place: where it runs; this machine by default.
      digests: of the files that the config names, where they are known already.
    """
    place = place or here(config)
    at_run = place.given_at_run
    task = get_task(config.task)
    text_keys = list(config.data.columns_of_texts)
    check_texts(task, text_keys, config.model.pooling)
    check_long(task, config.text, len(text_keys), xla=config.training.xla)
    check_label(task, config.data.label)
    check_test(task, config.data.test)
    check_training(task, config.training, config.model.crf)
    check_metrics(as_learned(task, config.pretraining), config.evaluation, len(config.data.labels))
    check_deciding(task, config.evaluation, len(config.data.labels))
    files = (
        check_inputs(config.data, config.evaluation.slices, list(task.preprocessing.list_keys)) if place.sees_data else []
    )
    own = task_modules(config.task)
    of_task, of_reader = added_to(config, plugins.TASKS), added_to(config, plugins.READERS)
    measured = added_to(config, plugins.TASKS, plugins.METRICS)
    slices = json.dumps(list(config.evaluation.slices))
    # Which of two classes is looked for is no question of reading.
    data, text = config.data.model_dump_json(exclude={"positive"}), config.text.model_dump_json()

    digests = digests or InputDigests.of(config, data=place.sees_data)

    ingest = Ingest(
        data=data,
        slices=slices,
        inputs=digests.data,
        code=code_fingerprint("bertline.components.ingest.component", added=of_reader),
        quarantine_path=place.quarantine,
        label=task.preprocessing.label or "class",
        lists=json.dumps(list(task.preprocessing.list_keys)),
        **{name: at_run[name] for name in FILES_AT_RUN if name in at_run},
    ).with_id(Step.INGEST)
    examples = ingest.outputs["examples"]
    statistics = StatisticsGen(
        examples=examples,
        code=code_fingerprint("bertline.components.statistics.component"),
    ).with_id(Step.STATISTICS)
    schema = SchemaFromConfig(
        report=ingest.outputs["report"],
        data=config.data.model_dump_json(),
        # A step gets only what changes its result: allowing anomalies must not train the model again.
        validation=config.validation.model_dump_json(exclude={"allow_anomalies"}),
        slices=slices,
        label=task.preprocessing.label or "class",
        lists=json.dumps(dict(task.preprocessing.list_keys)),
        code=code_fingerprint("bertline.components.validation.component"),
    ).with_id(Step.SCHEMA)
    validator = DataGate(
        statistics=statistics.outputs["statistics"],
        schema=schema.outputs["schema"],
        report=ingest.outputs["report"],
        validation=config.validation.model_dump_json(),
        baseline_path=place.accepted_statistics,
        code=code_fingerprint("bertline.components.validation.component"),
    ).with_id(Step.VALIDATION)
    vocabulary = VocabularyGen(
        examples=examples,
        text=config.text.model_dump_json(exclude=_OF_LENGTH),
        text_keys=json.dumps(text_keys),
        target_keys=json.dumps(["label"] if task.preprocessing.label == "text" else []),
        vocab_digest=digests.vocab,
        code=code_fingerprint("bertline.components.vocabulary.component"),
    ).with_id(Step.VOCABULARY)
    # What is learned from: the rows themselves, or, of documents, pairs of sentences.
    learned, learned_schema, pairs = examples, schema.outputs["schema"], []
    if task.preprocessing.number_keys:
        sentence_pairs = SentencePairs(
            examples=examples,
            vocabulary=vocabulary.outputs["vocabulary"],
            text=text,
            pretraining=config.pretraining.model_dump_json(exclude=_TRAINING_ALONE),
            code=code_fingerprint("bertline.components.sentence_pairs.component"),
        ).with_id(Step.SENTENCE_PAIRS)
        learned, learned_schema = sentence_pairs.outputs["pairs"], sentence_pairs.outputs["schema"]
        pairs = [sentence_pairs]
    transform = Transform(
        examples=learned,
        schema=learned_schema,
        vocabulary=vocabulary.outputs["vocabulary"],
        task=config.task,
        text=text,
        text_keys=text_keys,
        code=code_fingerprint("bertline.components.transform.component", *own, added=of_task),
    ).with_id(Step.TRANSFORM)
    trainer = Trainer(
        examples=transform.outputs["transformed_examples"],
        raw_examples=examples,
        transform_graph=transform.outputs["transform_graph"],
        schema=learned_schema,
        settings={
            "name": config.name,
            "task": config.task,
            "text": text,
            "columns": config.data.columns_of_texts,
            "positive": config.data.positive,
            # Only of tasks that decide by it, so that no other is trained again.
            "deciding": config.evaluation.model_dump_json(include=set(DecisionConfig.model_fields))
            if task.serving.decides
            else "{}",
            "model": config.model.model_dump_json(),
            "training": config.training.model_dump_json(exclude={"fallback"}),
            "pretraining": config.pretraining.model_dump_json() if pairs else "{}",
            "translation": config.translation.model_dump_json() if task.preprocessing.label == "text" else "{}",
            **({"fallback_by": compared} if (compared := fallback_by(config)) else {}),
            "samples": config.serve_check.samples,
            "checkpoints": place.checkpoints,
            "checkpoint_digest": digests.checkpoint,
            "code": code_fingerprint("bertline.components.trainer.executor", *own, *task.model.modules(), added=measured),
        },
        **{name: at_run[name] for name in TRAINING_AT_RUN if name in at_run},
    ).with_id(Step.TRAINER)
    evaluator = Evaluator(
        examples=learned,
        model=trainer.outputs["model"],
        training=trainer.outputs["model_run"],
        settings=config.evaluation.model_dump_json(),
        pretraining=config.pretraining.model_dump_json(include={"next_sentence"}),
        destination=place.destination,
        code=code_fingerprint("bertline.components.evaluator.component", *own, *task.evaluation.modules(), added=measured),
    ).with_id(Step.EVALUATOR)
    checks, served = [], {}
    if push and config.serve_check.enabled:
        checks = [
            ServeCheck(
                model=trainer.outputs["model"],
                blessing=evaluator.outputs["blessing"],
                name=config.name,
                max_ms=config.serve_check.max_latency_ms,
                code=code_fingerprint("bertline.components.serve_check.component", "bertline.serving.embedded.__main__"),
            ).with_id(Step.SERVE_CHECK)
        ]
        served = {"served": checks[0].outputs["served"]}
    pusher = Publish(
        model=trainer.outputs["model"],
        blessing=evaluator.outputs["blessing"],
        **served,
        destination=place.destination,
        card=json.dumps({"pipeline": config.name, "data_digest": digests.data, "data": _how_read(config)}),
        code=code_fingerprint("bertline.components.pusher.component"),
    ).with_id(Step.PUSHER)
    # Nothing is learned from data that the validator has not let through.
    vocabulary.add_upstream_node(validator)
    transform.add_upstream_node(validator)

    return Pipeline(
        pipeline_name=config.name,
        pipeline_root=place.root,
        components=[
            ingest,
            statistics,
            schema,
            validator,
            vocabulary,
            *pairs,
            transform,
            trainer,
            evaluator,
            *checks,
            *([pusher] if push else []),
        ],  # fmt: skip
        metadata_connection_config=metadata.sqlite_metadata_connection_config(str(config.metadata_path)),
        enable_cache=True,
        beam_pipeline_args=beam_args(config, raw_bytes(files) if place.sees_data else None),
    )


def _how_read(config: Config) -> dict[str, Any]:
    """How rows are read, for those who give others to the pushed model."""
    return config.data.model_dump(mode="json", exclude=_OF_THE_LINE_ALONE, exclude_defaults=True)
