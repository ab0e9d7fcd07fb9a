"""The one typed config of a run: every setting, its default, its limits and its meaning; a module for each section.

`bertline.pipeline.settings.loader` reads it from YAML. Nothing here imports TensorFlow or TFX, so a wrong value is refused
in well under a second.
"""

from bertline.pipeline.config.base import Frozen
from bertline.pipeline.config.beam import BeamConfig
from bertline.pipeline.config.cluster import ClusterConfig, ResourcesConfig
from bertline.pipeline.config.data import (
    CHOICES,
    TEXT_KEYS,
    DataConfig,
    Formats,
    LabelKind,
    Scheme,
    SplitConfig,
    ValidationConfig,
    format_names,
)
from bertline.pipeline.config.model import SIZES, ModelConfig, Pooling
from bertline.pipeline.config.pretraining import PhaseConfig, PretrainingConfig
from bertline.pipeline.config.results import (
    AbstainConfig,
    DecisionConfig,
    EvaluationConfig,
    PushConfig,
    ServeCheckConfig,
    TrackingConfig,
)
from bertline.pipeline.config.run import SPOOL, Config, own_tasks, task_names
from bertline.pipeline.config.search import RangeConfig, SearchConfig, Values
from bertline.pipeline.config.text import Long, TextConfig, TokenizerVariant
from bertline.pipeline.config.training import Sampling, TrainingConfig
from bertline.pipeline.config.translation import TranslationConfig
from bertline.pipeline.core.wording import nearest, without_password

__all__ = [
    "AbstainConfig",
    "BeamConfig",
    "CHOICES",
    "ClusterConfig",
    "Config",
    "DataConfig",
    "DecisionConfig",
    "EvaluationConfig",
    "Formats",
    "format_names",
    "own_tasks",
    "Frozen",
    "LabelKind",
    "Long",
    "ModelConfig",
    "PhaseConfig",
    "Pooling",
    "PretrainingConfig",
    "PushConfig",
    "RangeConfig",
    "TokenizerVariant",
    "ResourcesConfig",
    "SIZES",
    "SPOOL",
    "Sampling",
    "Scheme",
    "SearchConfig",
    "ServeCheckConfig",
    "SplitConfig",
    "TEXT_KEYS",
    "TextConfig",
    "TrackingConfig",
    "TrainingConfig",
    "TranslationConfig",
    "ValidationConfig",
    "Values",
    "nearest",
    "task_names",
    "without_password",
]
