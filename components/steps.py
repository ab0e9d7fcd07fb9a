"""The steps of the pipeline, by their names in TFX, in MLflow and in messages."""

from __future__ import annotations

from enum import StrEnum


class Step(StrEnum):
    """In the order in which the data goes through them."""

    INGEST = "Ingest"
    STATISTICS = "StatisticsGen"
    SCHEMA = "Schema"
    VALIDATION = "ExampleValidator"
    VOCABULARY = "Vocabulary"
    SENTENCE_PAIRS = "SentencePairs"
    """Of a pre-training alone."""
    TRANSFORM = "Transform"
    TRAINER = "Trainer"
    EVALUATOR = "Evaluator"
    SERVE_CHECK = "ServeCheck"
    PUSHER = "Pusher"
