"""When TF-IDF may take the place of an encoder that was trained from scratch."""

from __future__ import annotations

from bertline.models.kinds import has_fallback
from bertline.pipeline.config import Config


def fallback_by(config: Config) -> list[str]:
    """The metrics by which both are compared, the first of them that an epoch is measured by; none without a fallback."""
    settings, training = config.evaluation, config.training
    judged = settings.baselines and settings.must_beat_baselines
    if training.fallback == "never" or config.model.checkpoint or not judged:
        return []
    if not has_fallback(config.task, len(config.data.columns_of_texts)):
        return []
    is_given = "monitor" in training.model_fields_set and "monitor" not in training.recipe
    return [training.monitor] if is_given else list(settings.thresholds)


def without_fallback(config: Config) -> Config:
    """For runs that are compared with each other: by what was trained, or a fallback would make them all alike."""
    return config.model_copy(update={"training": config.training.model_copy(update={"fallback": "never"})})
