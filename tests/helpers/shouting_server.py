"""A PredictionService made of TensorFlow Serving's own messages, and both clients to go through the same tests with it."""

from __future__ import annotations

import asyncio
import threading
from concurrent import futures
from contextlib import contextmanager

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from bertline.serving.client.sync import AsyncClient, Client

MODEL = "loud"
FULL = "The batch scheduling queue to which this task was submitted is full"
LONG = 60.0
"""Seconds that no test waits for."""


class Shouts(prediction_service_pb2_grpc.PredictionServiceServicer, model_service_pb2_grpc.ModelServiceServicer):
    """A model of two versions that gives each text a number, its length, unless it is told to do otherwise."""

    def __init__(self):
        self.before = lambda request, context: None
        """Called with each Predict, and may fail it."""
        self.version = 4
        self.filling = None
        """One more output, as large as it is."""
        self.sizes = []
        self.left = []
        self.lock = threading.Lock()

    def Predict(self, request, context):
        texts = tf.make_ndarray(request.inputs["text"])
        with self.lock:
            self.sizes.append(len(texts))
            self.left.append(context.time_remaining())
        if request.model_spec.name != MODEL:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found for request: Latest({request.model_spec.name})")
        if request.model_spec.HasField("version") and request.model_spec.version.value not in (3, 4):
            wanted = request.model_spec.version.value
            context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found for request: Specific({MODEL}, {wanted})")
        self.before(request, context)
        reply = predict_pb2.PredictResponse()
        reply.model_spec.version.value = self.version
        lengths = np.array([len(text) for text in texts], np.float32)
        reply.outputs["value"].CopyFrom(tf.make_tensor_proto(lengths))
        if self.filling:
            reply.outputs["filling"].CopyFrom(tf.make_tensor_proto([self.filling] * len(texts)))
        return reply

    def GetModelMetadata(self, request, context):
        signature_map = get_model_metadata_pb2.SignatureDefMap()
        signature = signature_map.signature_def["serving_default"]
        for infos, name, dtype in ((signature.inputs, "text", 7), (signature.outputs, "value", 1)):
            infos[name].dtype = dtype
            infos[name].tensor_shape.dim.add(size=-1)
        reply = get_model_metadata_pb2.GetModelMetadataResponse()
        reply.model_spec.version.value = self.version
        reply.metadata["signature_def"].Pack(signature_map)
        return reply

    def GetModelStatus(self, request, context):
        reply = get_model_status_pb2.GetModelStatusResponse()
        for version in (3, 4):
            reply.model_version_status.add(version=version, state="AVAILABLE")
        return reply


@contextmanager
def listening(servicer, credentials=None, port=0):
    server = grpc.server(futures.ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(servicer, server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(servicer, server)
    address = f"127.0.0.1:{port}"
    port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


class Blocking:
    """The calls of `AsyncClient`, each awaited in a loop of its own: so both clients go through the same tests."""

    def __init__(self, *arguments, **options):
        self.made = arguments, options

    def __getattr__(self, name):
        def called(*arguments, **options):
            async def within():
                async with AsyncClient(*self.made[0], **self.made[1]) as client:
                    return await getattr(client, name)(*arguments, **options)

            return asyncio.run(within())

        return called


both = pytest.mark.parametrize("make", [Client, Blocking], ids=["sync", "async"])


def fails(times, code=grpc.StatusCode.UNAVAILABLE, details=FULL):
    """Fails so many requests, and no more."""
    left = iter(range(times))

    def before(request, context):
        if next(left, None) is not None:
            context.abort(code, details)

    return before


def server_credentials(files, *, mutual):
    pair = (files / "server.key").read_bytes(), (files / "server.pem").read_bytes()
    return grpc.ssl_server_credentials([pair], (files / "ca.pem").read_bytes() if mutual else None, mutual)
