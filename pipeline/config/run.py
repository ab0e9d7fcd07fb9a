"""All sections together, and what holds between them."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from bertline.pipeline.config.base import Frozen
from bertline.pipeline.config.beam import BeamConfig
from bertline.pipeline.config.cluster import ClusterConfig
from bertline.pipeline.config.data import CHOICES, TEXT_KEYS, DataConfig, ValidationConfig
from bertline.pipeline.config.model import ModelConfig
from bertline.pipeline.config.pretraining import PretrainingConfig
from bertline.pipeline.config.results import EvaluationConfig, PushConfig, ServeCheckConfig, TrackingConfig
from bertline.pipeline.config.search import SearchConfig
from bertline.pipeline.config.text import TextConfig
from bertline.pipeline.config.training import TrainingConfig
from bertline.pipeline.config.translation import TranslationConfig
from bertline.pipeline.core import plugins
from bertline.pipeline.core.storage import AnyPath, at
from bertline.pipeline.core.wording import nearest

SPOOL = "tracking"
"""Folder of a workspace; see `components/tracking`."""


class Config(Frozen):
    """A run: what is read, what is trained, what the model must achieve, where it is pushed."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    """Name of the pipeline: small letters, digits and dashes."""
    task: str = "classification"
    """What is learned; one file in `models/tasks/` each, or the name of a task that an installed package registers. Or a
    layout of GLUE's, as glue/cola, with `data: FOLDER`."""
    workspace: str = "workspace"
    """Folder of everything a run writes."""
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = Field(default=(), max_length=100)
    """Train once for each of these seeds, in place of `training.seed`; the best blessed model is pushed, and mean and
    standard deviation of every metric are reported."""
    data: DataConfig
    validation: ValidationConfig = ValidationConfig()
    text: TextConfig = TextConfig()
    pretraining: PretrainingConfig = PretrainingConfig()
    translation: TranslationConfig = TranslationConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig
    search: SearchConfig = SearchConfig()
    serve_check: ServeCheckConfig = ServeCheckConfig()
    push: PushConfig = PushConfig()
    tracking: TrackingConfig = TrackingConfig()
    beam: BeamConfig = BeamConfig()
    cluster: ClusterConfig = ClusterConfig()

    @field_validator("seeds")
    @classmethod
    def _each_seed_once(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) < len(value):
            raise ValueError("name each seed once: a second training with it would be the same")
        return value

    @field_validator("task")
    @classmethod
    def _known_task(cls, value: str) -> str:
        known = task_names()
        if value not in known:
            raise ValueError(f"there is no task {value!r}{nearest(value, known)}; known: {', '.join(known)}")
        return value

    @model_validator(mode="after")
    def _slices_are_not_reserved(self) -> Config:
        reserved = {*TEXT_KEYS, CHOICES, "label", "label_words", "words", "length"} & set(self.evaluation.slices)
        if reserved:
            raise ValueError(f"evaluation.slices: {sorted(reserved)} are reserved names; texts are sliced by length anyway")
        return self

    @model_validator(mode="after")
    def _phases_rise(self) -> Config:
        lengths = [phase.seq_len for phase in self.pretraining.phases]
        if lengths and (lengths != sorted(lengths) or self.text.seq_len != lengths[-1]):
            raise ValueError(
                f"pretraining.phases: their seq_len must rise, up to text.seq_len (received {lengths} and"
                f" {self.text.seq_len}; leave text.seq_len out)"
            )
        for phase in self.pretraining.phases:
            if phase.batch_size % self.training.gradient_accumulation_steps:
                raise ValueError(
                    f"pretraining.phases: batch_size={phase.batch_size} cannot be divided into"
                    f" {self.training.gradient_accumulation_steps} equal parts (training.gradient_accumulation_steps)"
                )
        return self

    @model_validator(mode="after")
    def _pretraining_reads_masks(self) -> Config:
        if self.task == "pretraining" and self.text.tokenizer_variant == "original":
            raise ValueError(
                "text.tokenizer_variant must be huggingface for pretraining: the original variant splits a [MASK] in a text"
            )
        return self

    @model_validator(mode="after")
    def _translation_has_two_texts_and_no_classes(self) -> Config:
        if self.task != "translation":
            alone = {
                "data.max_word_ratio": self.data.max_word_ratio,
                "text.separate_vocabularies": self.text.separate_vocabularies,
            }
            for name, value in alone.items():
                if value:
                    raise ValueError(f"{name}: only for the task translation; the task {self.task} generates no text")
            return self
        if self.model.checkpoint is not None:
            raise ValueError(
                "model.checkpoint: the task translation starts from scratch, with an encoder and a decoder that are trained"
                " together; leave it out, and give a size (model.size)"
            )
        if self.data.label is None:
            raise ValueError("data.label: name the column of the target texts")
        if self.data.labels:
            raise ValueError("data.labels: a translation has no classes; leave it out")
        return self

    # Where things are: the one place that knows the shape of the workspace.
    @property
    def home(self) -> Path:
        return Path(self.workspace) / "pipelines" / self.name

    @property
    def artifact_root(self) -> Path:
        return self.home / "artifacts"

    @property
    def metadata_path(self) -> Path:
        return self.home / "metadata.db"

    @property
    def search_path(self) -> Path:
        return self.home / "search"

    @property
    def push_path(self) -> AnyPath:
        return at(self.push.destination) if self.push.destination else Path(self.workspace) / "models" / self.name

    @property
    def spool_path(self) -> Path:
        """What is to be sent to MLflow, until it is sent."""
        return Path(self.workspace) / SPOOL

    @property
    def tracking_uri(self) -> str:
        return (
            self.tracking.uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path(self.workspace) / 'mlflow.db'}"
        )

    def flat(self) -> dict[str, Any]:
        """The config as dotted names, for the record of a run."""
        return dict(_flatten(self.model_dump(mode="json")))

    def to_json(self) -> str:
        return json.dumps(self.model_dump(mode="json"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Config:
        return cls.model_validate_json(text)


def task_names() -> list[str]:
    """The tasks that a config may name: our own, and those that installed packages register."""
    return sorted({*own_tasks(), *plugins.registered(plugins.TASKS)})


@cache
def own_tasks() -> tuple[str, ...]:
    """Those of this package, a file in `models/tasks/` each."""
    folder = Path(__file__).parents[2] / "models" / "tasks"
    return tuple(sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")))


def _flatten(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        return [pair for key, item in value.items() for pair in _flatten(item, f"{prefix}.{key}" if prefix else str(key))]
    return [(prefix, value)]
