"""Requests read from JSON and replies written as JSON, in short, for tests of the REST API."""

import pytest
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import model_pb2, predict_pb2

from bertline.serving.embedded.errors import RequestError
from bertline.serving.embedded.rest.replies import predict_reply
from bertline.serving.embedded.rest.requests import predict_request
from bertline.serving.settings import Limits

LIMITS = Limits()
SPEC = model_pb2.ModelSpec(name="m")


def inputs(**dtypes: str) -> dict[str, meta_graph_pb2.TensorInfo]:
    return {name: meta_graph_pb2.TensorInfo(dtype=f"DT_{dtype}") for name, dtype in dtypes.items()}


def read(body: str | bytes, limits: Limits = LIMITS, **dtypes: str) -> predict_pb2.PredictRequest:
    data = body if isinstance(body, bytes) else body.encode()
    return predict_request(data, SPEC, lambda _: inputs(**dtypes), limits)[0]


def tensor(request: predict_pb2.PredictRequest, name: str = "x") -> tensor_pb2.TensorProto:
    return request.inputs[name]


def shape(proto: tensor_pb2.TensorProto) -> list[int]:
    return [dim.size for dim in proto.tensor_shape.dim]


def refused(body: str | bytes, **dtypes: str) -> str:
    with pytest.raises(RequestError) as caught:
        read(body, **dtypes)
    assert caught.value.code == "INVALID_ARGUMENT"
    return caught.value.message


def proto(dtype: str, dims: list[int], **values: list) -> tensor_pb2.TensorProto:
    made = tensor_pb2.TensorProto(dtype=f"DT_{dtype}", **values)
    made.tensor_shape.SetInParent()
    for size in dims:
        made.tensor_shape.dim.add(size=size)
    return made


def reply(as_rows: bool = True, **outputs: tensor_pb2.TensorProto) -> str:
    return predict_reply(predict_pb2.PredictResponse(outputs=outputs), as_rows).decode()
