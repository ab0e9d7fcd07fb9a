"""Which kind of answers a signature gives, told by its names, types and shapes: a model's metadata is not on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bertline.models.responses.base import ResponseSpec
from bertline.models.responses.types import KINDS

CHOICES = "choices"


@dataclass(frozen=True)
class TensorSpec:
    dtype: str
    shape: tuple[int | None, ...] | None
    """None: of any rank; in it, of any size."""


@dataclass(frozen=True)
class Signature:
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]
    method: str = ""


class UnknownKindError(ValueError):
    """A signature is that of no task of this pipeline, or of more than one."""


def kind_of(signature: Signature) -> ResponseSpec[Any]:
    """The one kind whose inputs these are, and whose outputs are all among these.

    Raises:
      UnknownKindError: it says what the signature has.
    """
    fitting = _fitting(KINDS, signature) or _fitting(_registered(), signature)
    if len(fitting) == 1:
        return fitting[0]
    shown = f"takes {', '.join(sorted(signature.inputs))} and gives {', '.join(sorted(signature.outputs))}"
    if fitting:
        from bertline.models.tasks.base.task import tasks_with  # which a client needs for nothing else

        names = " or ".join("/".join(tasks_with(kind)) or kind.call for kind in fitting)
        raise UnknownKindError(f"its signature {shown}, which may be {names}")
    raise UnknownKindError(f"its signature {shown}, which belongs to no task of Bertline")


def _fitting(kinds: Iterable[ResponseSpec[Any]], signature: Signature) -> list[ResponseSpec[Any]]:
    return [kind for kind in kinds if _takes(kind, signature) and set(kind.outputs) <= set(signature.outputs)]


def _registered() -> Iterator[ResponseSpec[Any]]:
    """How tasks of other packages answer, those that are installed here."""
    from bertline.models.tasks.base.task import kind_for  # which a client needs for nothing else
    from bertline.pipeline.core import plugins

    for name in plugins.registered(plugins.TASKS):
        if kind := kind_for(name):
            yield kind


def text_keys(kind: ResponseSpec[Any], signature: Signature) -> tuple[str, ...]:
    """The texts that a row has, in their order: a signature's names have none."""
    return tuple(name for name in kind.inputs if name in signature.inputs)


def _takes(kind: ResponseSpec[Any], signature: Signature) -> bool:
    given = {name: spec for name, spec in signature.inputs.items() if name not in kind.numbers}
    numbers = {name: signature.inputs[name].dtype for name in kind.numbers if name in signature.inputs}
    if numbers != kind.numbers or not set(kind.inputs) - set(kind.optional) <= set(given) <= set(kind.inputs):
        return False
    return all(_is_text(spec, rank=2 if name == CHOICES else 1) for name, spec in given.items())


def _is_text(spec: TensorSpec, rank: int) -> bool:
    return spec.dtype == "string" and (spec.shape is None or len(spec.shape) == rank)
