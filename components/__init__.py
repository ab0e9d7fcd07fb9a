"""The steps of the pipeline."""

from typing import Any


def __getattr__(name: str) -> Any:
    """Artifact types, by the names that a compiled line has for them: Kubeflow imports NAMESPACE.TYPE, of two parts. They
    are loaded when they are asked for, for TFX takes seconds."""
    if name in ("IngestReport", "Vocabulary"):
        from bertline.components import artifacts

        return getattr(artifacts, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
