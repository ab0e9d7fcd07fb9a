"""What every kind of checkpoint is turned into: tensors under Hugging Face's names, read only when they are wanted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertline.pipeline.core.checkpoint_formats import INDEX
from bertline.pipeline.core.errors import BertlineError

PREFIXES = ("bert.", "roberta.", "albert.")
HEADS = ("cls.", "classifier.", "qa_outputs.", "lm_head.", "predictions.", "sop_classifier.")
FLOATS = ("F64", "F32", "F16", "BF16")

_OLD_NORMS = ((".gamma", ".weight"), (".beta", ".bias"))
_CONSTANTS = ("embeddings.position_ids", "embeddings.token_type_ids")  # 0, 1, 2, … and 0, 0, 0, …


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in a file; `read` gives it with the shape said here, as PyTorch would hold it."""

    name: str
    """As the file spells it."""
    shape: tuple[int, ...]
    kind: str
    """Of its numbers, as safetensors names them: F32, BF16, I64, …"""
    read: Callable[[], np.ndarray]

    def as_float32(self) -> np.ndarray:
        return self.read().astype(np.float32, copy=False)

    def transposed(self) -> StoredTensor:
        """For formats that keep the kernel of a linear layer as [inputs, outputs]."""
        return replace(self, shape=self.shape[::-1], read=lambda: self.read().T)

    def reshaped(self, shape: tuple[int, ...]) -> StoredTensor:
        return replace(self, shape=shape, read=lambda: self.read().reshape(shape))


@dataclass(frozen=True)
class Source:
    """The tensors of a checkpoint, sorted out."""

    path: Path
    tensors: dict[str, StoredTensor] = field(default_factory=dict)
    """Of the encoder, under Hugging Face's names without a prefix."""
    heads: dict[str, StoredTensor] = field(default_factory=dict)
    """Of heads, under Hugging Face's names."""
    aside: tuple[str, ...] = ()
    """What only a training needs: an optimizer's memory."""
    clashes: tuple[str, ...] = ()
    """What is wrong with the file itself, a sentence each."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """What an encoder does not take, as the file spells it."""
        return (*sorted(tensor.name for tensor in self.heads.values()), *self.aside)


def sort_out(
    path: Path, entries: Iterable[tuple[str, StoredTensor]], aside: Iterable[str] = (), clashes: Iterable[str] = ()
) -> Source:
    """A source of tensors under any of Hugging Face's spellings: with and without a prefix, old and new LayerNorm."""
    source = Source(path, aside=tuple(sorted(aside)))
    problems = list(clashes)
    for spelled, tensor in sorted(entries, key=lambda entry: entry[0]):
        name = one_spelling(spelled)
        place = source.heads if name.startswith(HEADS) else source.tensors
        if name in _CONSTANTS:
            continue
        if name in place:
            problems.append(f"{tensor.name} and {place[name].name} are the same weight")
        else:
            place[name] = tensor
    return replace(source, clashes=tuple(problems))


def one_spelling(name: str) -> str:
    """Hugging Face's present name of a tensor, without the model's prefix."""
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    for old, new in _OLD_NORMS:
        if name.endswith(f"LayerNorm{old}"):
            name = name.removesuffix(old) + new
    return name


def files_of(path: Path) -> tuple[list[Path], set[str]]:
    """The files that hold a checkpoint's tensors, and the names that its index promises (none without an index)."""
    if not path.name.endswith(INDEX):
        return [path], set()
    index = read_json(path)
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise BertlineError(f"{path}: weight_map should name the file of each tensor; fetch the index again.")
    files = []
    for name in sorted(set(places.values())):
        if Path(name).name != name:
            raise BertlineError(f"{path}: {name!r} is not the name of a file beside it; fetch the index again.")
        if not (path.parent / name).is_file():
            raise BertlineError(f"{path.parent} has no {name}, which {path.name} names; fetch it too.")
        files.append(path.parent / name)
    return files, set(places)


def broken_promises(promised: Iterable[str], entries: Sequence[tuple[str, StoredTensor]]) -> list[str]:
    found = {tensor.name for _, tensor in entries}
    return [f"{name} is in the index, but in none of the files" for name in sorted(set(promised) - found)]


def read_json(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # of the encoding, too
        raise BertlineError(f"{path}: not valid JSON: {error}.") from None
    if not isinstance(raw, dict):
        raise BertlineError(f"{path}: a model's config is an object of settings, not {type(raw).__name__}.")
    return raw
