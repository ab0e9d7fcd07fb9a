"""The one typed config of a run: every setting, its default, its limits and its meaning; a module for each section.

`pipeline.config_file` reads it from YAML. Nothing here imports TensorFlow or TFX, so a wrong value is refused in well
under a second.
"""

from pipeline.config.base import Frozen
from pipeline.config.beam import BeamConfig
from pipeline.config.cluster import ClusterConfig, ResourcesConfig
from pipeline.config.data import (
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
from pipeline.config.model import SIZES, ModelConfig, Pooling
from pipeline.config.pretraining import PhaseConfig, PretrainingConfig
from pipeline.config.results import (
    AbstainConfig,
    DecisionConfig,
    EvaluationConfig,
    PushConfig,
    ServeCheckConfig,
    TrackingConfig,
)
from pipeline.config.run import SPOOL, Config, own_tasks, task_names
from pipeline.config.search import RangeConfig, SearchConfig, Values
from pipeline.config.text import Long, Reading, TextConfig
from pipeline.config.training import Sampling, TrainingConfig
from pipeline.config.translation import TranslationConfig
from pipeline.config.wording import nearest, without_password

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
    "Reading",
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
