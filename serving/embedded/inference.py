"""Classify, Regress and MultiInference: Examples in, classes with scores or numbers out, by signatures of fixed names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import classification_pb2, input_pb2, regression_pb2

from bertline.serving.embedded.errors import RequestError
from bertline.serving.lean_tensorflow import as_dtype

INPUTS, CLASSES, SCORES, REGRESSION = "inputs", "classes", "scores", "outputs"
CLASSIFY_METHOD = "tensorflow/serving/classify"
REGRESS_METHOD = "tensorflow/serving/regress"
DEFAULT = "serving_default"

Outputs = Mapping[str, np.ndarray]
"""By the names of the graph's tensors."""


def serialized_examples(given: input_pb2.Input) -> np.ndarray:
    """The Examples of a request as records; a context stands before each, so that an Example's own features win."""
    kind = given.WhichOneof("kind")
    if kind == "example_list":
        records = [example.SerializeToString() for example in given.example_list.examples]
    elif kind == "example_list_with_context":
        context = given.example_list_with_context.context.SerializeToString()
        records = [context + example.SerializeToString() for example in given.example_list_with_context.examples]
    else:
        records = []
    if not records:
        raise RequestError("INVALID_ARGUMENT", "Input is empty.")
    array = np.empty(len(records), object)
    array[:] = records
    return array


def find_signature(
    signatures: Mapping[str, meta_graph_pb2.SignatureDef], name: str, missing: str
) -> meta_graph_pb2.SignatureDef:
    """The signature under a name, or the default one; `missing` is what is said where there is none."""
    name = name or DEFAULT
    if name not in signatures:
        raise RequestError("INVALID_ARGUMENT", missing + name)
    return signatures[name]


def classification_tensors(signature: meta_graph_pb2.SignatureDef) -> tuple[str, list[str]]:
    """(input tensor, output tensors) of a signature that classifies."""
    if len(signature.inputs) != 1:
        raise RequestError("INVALID_ARGUMENT", "Expected one input Tensor.")
    if len(signature.outputs) not in (1, 2):
        count = len(signature.outputs)
        raise RequestError("INVALID_ARGUMENT", f"Expected one or two output Tensors, found {count}")
    if INPUTS not in signature.inputs:
        raise RequestError("INVALID_ARGUMENT", f"No classification inputs found in SignatureDef: {signature}")
    names = [signature.outputs[name].name for name in (CLASSES, SCORES) if name in signature.outputs]
    if not names:
        raise RequestError(
            "INVALID_ARGUMENT",
            f'Expected classification signature outputs to contain at least one of "{CLASSES}" or "{SCORES}".'
            f" Signature was: {signature}",
        )
    return signature.inputs[INPUTS].name, names


def regression_tensors(signature: meta_graph_pb2.SignatureDef) -> tuple[str, list[str]]:
    """(input tensor, output tensors) of a signature that regresses."""
    if len(signature.inputs) != 1:
        raise RequestError("INVALID_ARGUMENT", "Expected one input Tensor.")
    if len(signature.outputs) != 1:
        raise RequestError("INVALID_ARGUMENT", "Expected one output Tensor.")
    if INPUTS not in signature.inputs:
        raise RequestError("INVALID_ARGUMENT", f"No regression inputs found in SignatureDef: {signature}")
    if REGRESSION not in signature.outputs:
        raise RequestError("INVALID_ARGUMENT", f"No regression outputs found in SignatureDef: {signature}")
    return signature.inputs[INPUTS].name, [signature.outputs[REGRESSION].name]


TENSORS: Mapping[str, Callable[[meta_graph_pb2.SignatureDef], tuple[str, list[str]]]] = {
    CLASSIFY_METHOD: classification_tensors,
    REGRESS_METHOD: regression_tensors,
}
"""By the method that a task of a MultiInferenceRequest names."""


def classification_result(
    signature: meta_graph_pb2.SignatureDef, outputs: Outputs, rows: int
) -> classification_pb2.ClassificationResult:
    classes, scores = (
        outputs[signature.outputs[name].name] if name in signature.outputs else None for name in (CLASSES, SCORES)
    )
    for name, array, kind, wanted in ((CLASSES, classes, "O", "DT_STRING"), (SCORES, scores, "f", "DT_FLOAT")):
        if array is not None:
            _check(array, name, rows, is_right=array.dtype.kind == kind and array.dtype != np.float64, wanted=wanted)
    if classes is not None and scores is not None and classes.shape[1] != scores.shape[1]:
        raise RequestError(
            "INVALID_ARGUMENT",
            f"Tensors class and score should match in dim_size(1). Got {classes.shape[1]} vs. {scores.shape[1]}",
        )
    result = classification_pb2.ClassificationResult()
    for row in range(rows):
        of_row = result.classifications.add()
        labels: Sequence[bytes] = classes[row] if classes is not None else [b""] * scores.shape[1]  # type: ignore[union-attr]
        numbers = scores[row].tolist() if scores is not None else [0.0] * len(labels)
        for label, number in zip(labels, numbers, strict=True):
            of_row.classes.add(label=label.decode("utf-8", errors="replace"), score=number)
    return result


def regression_result(
    signature: meta_graph_pb2.SignatureDef, outputs: Outputs, rows: int
) -> regression_pb2.RegressionResult:
    array = outputs[signature.outputs[REGRESSION].name]
    if array.ndim != 1 and not (array.ndim == 2 and array.shape[1] == 1):
        raise RequestError(
            "INVALID_ARGUMENT",
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got " + _shape(array),
        )
    if len(array) != rows:
        raise RequestError("INVALID_ARGUMENT", f"Input batch size did not match output batch size: {rows} vs. {len(array)}")
    if array.dtype != np.float32:
        raise RequestError("INVALID_ARGUMENT", f"Expected output Tensor of DT_FLOAT.  Got: {_type(array)}")
    result = regression_pb2.RegressionResult()
    for value in array.ravel().tolist():
        result.regressions.add(value=value)
    return result


def _check(array: np.ndarray, name: str, rows: int, *, is_right: bool, wanted: str) -> None:
    if array.ndim != 2:
        raise RequestError("INVALID_ARGUMENT", f"Expected Tensor shape: [batch_size num_classes] but got {_shape(array)}")
    if not is_right:
        raise RequestError("INVALID_ARGUMENT", f"Expected {name} Tensor of {wanted}. Got: {_type(array)}")
    if len(array) != rows:
        raise RequestError("INVALID_ARGUMENT", f"Expected {name} output batch size of {rows}. Got: {len(array)}")


def _shape(array: np.ndarray) -> str:
    return "[" + ",".join(map(str, array.shape)) + "]"


def _type(array: np.ndarray) -> str:
    return types_pb2.DataType.Name(as_dtype(array.dtype).as_datatype_enum)
