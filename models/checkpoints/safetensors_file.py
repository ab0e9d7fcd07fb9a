"""Hugging Face's safetensors, in one file or in many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from safetensors import SafetensorError, safe_open

from bertline.models.checkpoints.source import Source, StoredTensor, broken_promises, files_of, sort_out
from bertline.pipeline.core.errors import BertlineError


@contextmanager
def open_safetensors(path: Path) -> Iterator[Source]:
    """The tensors of `model.safetensors`, or of the files that `model.safetensors.index.json` names."""
    files, promised = files_of(path)
    with ExitStack() as stack:
        entries: list[tuple[str, StoredTensor]] = []
        for shard in files:
            try:
                file = stack.enter_context(safe_open(shard, framework="numpy"))
            except SafetensorError as error:
                raise BertlineError(f"{shard}: not a whole safetensors file ({error}); fetch it again.") from None
            for name in file.keys():  # noqa: SIM118 - it is not a mapping
                view = file.get_slice(name)
                tensor = StoredTensor(name, tuple(view.get_shape()), view.get_dtype(), partial(file.get_tensor, name))
                entries.append((name, tensor))
        yield sort_out(path, entries, clashes=broken_promises(promised, entries))
