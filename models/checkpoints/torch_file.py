"""`pytorch_model.bin` without PyTorch, and without running anything that the file asks for.

`torch.save` writes a zip: `data.pkl` is a pickle of the dictionary of tensors, in which each tensor names its storage, and
`data/0`, `data/1`, … are the storages' bytes. The pickle may name six things, and gets stand-ins of ours for them that
cannot be altered from within a pickle; any other name is refused before it is looked up.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bertline.models.checkpoints.source import Source, StoredTensor, broken_promises, files_of, sort_out
from bertline.pipeline.core.errors import BertlineError

# What PyTorch calls a storage -> the kind of its numbers.
_STORAGES = {"FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16", "LongStorage": "I64"}
_NUMBERS: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "I64": np.dtype("<i8"),
}
_OLD_FORMAT = (
    b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # the pickled number that files of before PyTorch 1.6 begin with
)


@contextmanager
def open_torch(path: Path) -> Iterator[Source]:
    """The tensors of `pytorch_model.bin`, or of the files that `pytorch_model.bin.index.json` names."""
    files, promised = files_of(path)
    with ExitStack() as stack:
        entries = []
        for shard in files:
            try:
                archive = _Archive(shard, stack.enter_context(zipfile.ZipFile(shard)))
            except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
                raise _unreadable(shard, error) from None
            entries += [(tensor.name, tensor) for tensor in archive.tensors()]
        yield sort_out(path, entries, clashes=broken_promises(promised, entries))


class _Storage(NamedTuple):  # a tuple, for a pickle can set the fields of any other object after it is made
    key: str
    kind: str
    length: int


class _View(NamedTuple):
    """A tensor: some numbers of a storage, by their places."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def check(self) -> None:
        """Raises ValueError unless all that it looks at lies inside the storage."""
        whole = (self.offset, *self.shape, *self.strides)
        if len(self.shape) != len(self.strides) or not all(type(number) is int and number >= 0 for number in whole):
            raise ValueError("a tensor without proper sizes")
        # The second rule keeps a tensor from being larger than its file: a stride of 0 would repeat one number for ever.
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        count = prod(self.shape)
        if count and (last >= self.storage.length or count > self.storage.length):
            raise ValueError("a tensor that reaches beyond its storage")


class _RebuildTensor:
    """Stands for `torch._utils._rebuild_tensor_v2`."""

    __slots__ = ()  # nothing that a pickle could set

    def __call__(
        self, storage: Any, offset: Any, shape: Any, strides: Any, gradient: Any, hooks: Any, metadata: Any = None
    ) -> _View:
        if not isinstance(storage, _Storage):
            raise ValueError("a tensor without a storage")
        if metadata:  # such as that every number is to be negated
            raise ValueError("a tensor with remarks on how to read it")
        view = _View(storage, offset, tuple(shape), tuple(strides))
        view.check()
        return view


class _RebuildParameter:
    """Stands for `torch._utils._rebuild_parameter`: a parameter is its tensor."""

    __slots__ = ()

    def __call__(self, data: Any, *_: Any) -> Any:
        return data


_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _RebuildTensor(),
    ("torch._utils", "_rebuild_parameter"): _RebuildParameter(),
    **{("torch", name): kind for name, kind in _STORAGES.items()},
}


class _Refused(Exception):
    """The pickle named something that no dictionary of tensors needs."""


class _StateDictUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise _Refused(f"{module}.{name}")
        return _ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        match pid:
            case ("storage", str(kind), str(key), str(), int(length)) if kind in _NUMBERS and length >= 0:
                return _Storage(key, kind, length)
        raise ValueError("a reference that is not to a storage")


class _Archive:
    """One file of `torch.save`."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self.archive = archive
        self.size = path.stat().st_size
        pickles = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise BertlineError(f"{path}: a zip without the data.pkl of torch.save; is it a model's file?")
        self.top = pickles[0].removesuffix("data.pkl")

    def tensors(self) -> list[StoredTensor]:
        if f"{self.top}byteorder" in self.archive.namelist() and self._bytes("byteorder") != b"little":
            raise BertlineError(f"{self.path}: written on a big-endian machine; save it again as safetensors.")
        try:
            found = _StateDictUnpickler(io.BytesIO(self._bytes("data.pkl"))).load()
        except _Refused as error:
            raise BertlineError(
                f"{self.path}: the pickle asks for {error}, which a dictionary of tensors does not need; nothing was run."
                " Take the model's safetensors instead."
            ) from None
        except BertlineError:
            raise
        except Exception as error:  # a damaged pickle fails in every way there is
            raise _unreadable(self.path, error) from None
        if not isinstance(found, dict):
            raise BertlineError(f"{self.path}: holds {type(found).__name__}, not a dictionary of tensors.")
        tensors = []
        for name, view in dict.items(found):  # not its own `items`: the pickle may have put something in its place
            if not isinstance(name, str) or not isinstance(view, _View):
                raise BertlineError(
                    f"{self.path}: {name!r} is {type(view).__name__}, not a tensor; save the state_dict alone."
                )
            self._check_storage(name, view.storage)
            tensors.append(StoredTensor(name, view.shape, view.storage.kind, partial(self._read, view)))
        return tensors

    def _check_storage(self, name: str, storage: _Storage) -> None:
        try:
            size = self.archive.getinfo(f"{self.top}data/{storage.key}").file_size
        except KeyError:
            raise BertlineError(f"{self.path}: the numbers of {name} are missing; fetch the file again.") from None
        if size != storage.length * _NUMBERS[storage.kind].itemsize:
            raise BertlineError(
                f"{self.path}: {name} has {size} bytes for {storage.length} numbers ({storage.kind}); fetch the file again."
            )

    def _read(self, view: _View) -> np.ndarray:
        kind = view.storage.kind
        numbers = np.frombuffer(self._bytes(f"data/{view.storage.key}"), _NUMBERS[kind])
        strides = [stride * numbers.itemsize for stride in view.strides]
        array = np.lib.stride_tricks.as_strided(numbers[view.offset :], view.shape, strides, writeable=False)
        if kind == "BF16":  # the upper half of a float32, so that nothing is rounded
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array

    def _bytes(self, name: str) -> bytes:
        info = self.archive.getinfo(self.top + name)
        # torch.save never compresses. An entry that is compressed could unpack to more than any memory has.
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > self.size:
            raise BertlineError(f"{self.path}: {info.filename} is compressed, as torch.save never does; fetch it again.")
        try:
            return self.archive.read(info)
        except (zipfile.BadZipFile, EOFError, OSError, RuntimeError) as error:
            raise _unreadable(self.path, error) from None


def _unreadable(path: Path, error: Exception) -> BertlineError:
    with path.open("rb") as file:
        if file.read(len(_OLD_FORMAT)) == _OLD_FORMAT:
            return BertlineError(
                f"{path}: in the format of PyTorch before 1.6; take the model's safetensors, or load and save it once with"
                " a newer PyTorch."
            )
    return BertlineError(f"{path}: not a whole file of torch.save ({error}); fetch it again.")
