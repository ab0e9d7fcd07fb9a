"""An assembly line for BERT: raw text in, an evaluated, tracked and served model out."""

from __future__ import annotations

__all__ = ["__version__"]

__version__: str


def __getattr__(name: str) -> str:
    if name == "__version__":
        from importlib.metadata import version  # when it is asked for: to read it takes longer than to import this package

        return version("bertline")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
