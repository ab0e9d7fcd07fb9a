"""Replies as JSON, laid out as TensorFlow Serving prints them: rows on one line, columns a value a line."""

from __future__ import annotations

import binascii
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import classification_pb2, predict_pb2, regression_pb2

from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.rest.document import invalid, line, quoted
from bertline.serving.embedded.rest.values import KINDS, type_name

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def predict_reply(response: predict_pb2.PredictResponse, as_rows: bool) -> bytes:
    """A single output goes without its name."""
    outputs = dict(sorted(response.outputs.items()))
    if not outputs:
        raise invalid("Cannot convert empty tensor map to JSON")
    return (_rows(outputs) if as_rows else _columns(outputs)).encode()


def classify_reply(response: classification_pb2.ClassificationResponse) -> bytes:
    if not response.result.classifications:
        raise invalid("Cannot convert empty ClassificationResults to JSON")
    found = []
    for classes in response.result.classifications:
        scores = decimals([one.score for one in classes.classes], np.float32)
        pairs = (f"[{quoted(one.label)}, {score}]" for one, score in zip(classes.classes, scores, strict=True))
        found.append(f"[{', '.join(pairs)}]")
    return _in_object("results", f"[{', '.join(found)}{line(1)}]").encode()


def regress_reply(response: regression_pb2.RegressionResponse) -> bytes:
    if not response.result.regressions:
        raise invalid("Cannot convert empty RegressionResults to JSON")
    values = decimals([one.value for one in response.result.regressions], np.float32)
    return _in_object("results", f"[{', '.join(values)}]").encode()


def error_reply(message: str) -> bytes:
    return _in_object("error", quoted(message)).encode(errors="replace")


def decimals(values: Iterable[float], dtype: type[np.floating[Any]]) -> list[str]:
    """Six digits where they give the number back, else as many as always do; whole numbers end in `.0`."""
    exact = np.fromiter(values, dtype)
    numbers = exact.tolist()
    texts = [f"{number:g}" for number in numbers]
    again = np.fromiter(map(float, texts), dtype, len(texts))
    digits = 9 if dtype is np.float32 else 17
    for place in np.flatnonzero(again != exact).tolist():
        texts[place] = f"{numbers[place]:.{digits}g}"
    return [text if "." in text or "e" in text else _NOT_FINITE.get(text) or f"{text}.0" for text in texts]


def _rows(outputs: Mapping[str, tensor_pb2.TensorProto]) -> str:
    columns: dict[str, list[str]] = {}
    level = 3 if len(outputs) > 1 else 2  # so many brackets deep a row's value stands
    size = -1
    for name, tensor in outputs.items():
        shape = [dim.size for dim in tensor.tensor_shape.dim]
        if not shape:
            raise invalid(f"Tensor name: {name} has no shape information ")
        if size not in (-1, shape[0]):
            raise invalid(f"Tensor name: {name} has inconsistent batch size: {shape[0]} expecting: {size}")
        size = shape[0]
        values = _texts(name, tensor, level + len(shape) - 1)
        for dim in range(len(shape) - 1, 0, -1):
            values = [f"[{', '.join(part)}]" for part in _parts(values, shape, dim)]
        columns[name] = values
    if len(columns) == 1:
        texts = ", ".join(*columns.values())
    else:
        keys = [f"{line(3)}{quoted(name)}: " for name in columns]
        members = (",".join(map(str.__add__, keys, row)) for row in zip(*columns.values(), strict=True))
        texts = ",".join(f"{line(2)}{{{row}{line(2)}}}" for row in members)
    return _in_object("predictions", f"[{texts}{line(1) if size else ''}]")


def _columns(outputs: Mapping[str, tensor_pb2.TensorProto]) -> str:
    level = 2 if len(outputs) > 1 else 1
    columns: dict[str, str] = {}
    for name, tensor in outputs.items():
        shape = [dim.size for dim in tensor.tensor_shape.dim]
        values = _texts(name, tensor, level + len(shape))
        for dim in range(len(shape) - 1, -1, -1):
            new, end = line(level + dim + 1), line(level + dim)
            values = [f"[{new}{f',{new}'.join(part)}{end}]" if part else "[]" for part in _parts(values, shape, dim)]
        columns[name] = values[0]
    if len(columns) == 1:
        return _in_object("outputs", *columns.values())
    texts = ",".join(f"{line(2)}{quoted(name)}: {text}" for name, text in columns.items())
    return _in_object("outputs", f"{{{texts}{line(1)}}}")


def _parts(values: list[str], shape: list[int], dim: int) -> Iterable[list[str]]:
    """The values by the lists of one dimension that they are in; those of an empty dimension are empty."""
    size = shape[dim]
    return (values[place * size : (place + 1) * size] for place in range(math.prod(shape[:dim])))


def _texts(name: str, tensor: tensor_pb2.TensorProto, level: int) -> list[str]:
    """Each value as JSON; `level` is how many brackets deep it stands."""
    kind = KINDS.get(tensor.dtype)
    if kind is None:
        raise invalid(f"Failed to write JSON value for tensor type: {type_name(tensor.dtype)}")
    values = getattr(tensor, kind.field)
    if len(values) != math.prod(dim.size for dim in tensor.tensor_shape.dim):
        raise RequestError("INTERNAL", f"The output {name} has {len(values)} values, which do not fill its shape")
    if tensor.dtype in (types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE):
        return decimals(values, np.float32 if tensor.dtype == types_pb2.DT_FLOAT else np.float64)
    if tensor.dtype == types_pb2.DT_BOOL:
        return ["true" if value else "false" for value in values]
    if tensor.dtype != types_pb2.DT_STRING:
        return list(map(str, values))
    if name.endswith("_bytes"):
        before, after = f'{{{line(level + 1)}"b64": "', f'"{line(level)}}}'
        return [before + binascii.b2a_base64(value, newline=False).decode() + after for value in values]
    # Bytes that are no text would make the whole reply unreadable; who wants them asks for an output named `…_bytes`.
    return [quoted(value.decode(errors="replace")) for value in values]


def _in_object(key: str, text: str) -> str:
    return f'{{{line(1)}"{key}": {text}{line(0)}}}'
