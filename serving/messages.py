"""TensorFlow Serving's messages for files that are in no Python package: BatchingParameters, MonitoringConfig, SSLConfig.

They are built from the names, numbers and types of their fields, which never change: a user's file is read by protobuf's
own text format. They have a pool of their own: a package that brings the real ones meets no second definition.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2

_PACKAGE = "tensorflow.serving"
_KINDS = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"bool": _KINDS.TYPE_BOOL, "int64": _KINDS.TYPE_INT64, "string": _KINDS.TYPE_STRING}
_WRAPPED = ("Int64Value", "BoolValue", "StringValue")

# Message -> field -> (number, type). Types are scalars, Google's wrappers and other messages of this table.
_FIELDS: dict[str, dict[str, tuple[int, str]]] = {
    "BatchingParameters": {
        "max_batch_size": (1, "Int64Value"),
        "batch_timeout_micros": (2, "Int64Value"),
        "max_enqueued_batches": (3, "Int64Value"),
        "num_batch_threads": (4, "Int64Value"),
        "thread_pool_name": (5, "StringValue"),
        "allowed_batch_sizes": (6, "repeated int64"),
        "pad_variable_length_inputs": (7, "bool"),
        "enable_large_batch_splitting": (8, "BoolValue"),
        "max_execution_batch_size": (9, "Int64Value"),
    },
    "PrometheusConfig": {"enable": (1, "bool"), "path": (2, "string")},
    "MonitoringConfig": {"prometheus_config": (1, "PrometheusConfig")},
    "SSLConfig": {
        "server_key": (1, "string"),
        "server_cert": (2, "string"),
        "custom_ca": (3, "string"),
        "client_verify": (4, "bool"),
    },
}


def _field(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str) -> None:
    single = kind.removeprefix("repeated ")
    field = message.field.add(name=name, number=number)
    field.label = _KINDS.LABEL_OPTIONAL if single == kind else _KINDS.LABEL_REPEATED
    if single in _SCALARS:
        field.type = _SCALARS[single]
    else:
        field.type = _KINDS.TYPE_MESSAGE
        field.type_name = f".{'google.protobuf' if single in _WRAPPED else _PACKAGE}.{single}"


def _classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="bertline/messages.proto", package=_PACKAGE, syntax="proto3")
    file.dependency.append("google/protobuf/wrappers.proto")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _field(message, field, number, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _FIELDS}


_made = _classes()
BatchingParameters = _made["BatchingParameters"]
MonitoringConfig = _made["MonitoringConfig"]
SSLConfig = _made["SSLConfig"]
