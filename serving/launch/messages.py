"""TensorFlow Serving's messages for files that are in no Python package: BatchingParameters, MonitoringConfig, SSLConfig.

They are built from the names, numbers and types of their fields, which never change: a user's file is read by protobuf's
own text format.
"""

from __future__ import annotations

from bertline.serving.client.wire import build_messages

_SCHEMA = {
    "Int64Value": "int64 value=1",
    "BoolValue": "bool value=1",
    "StringValue": "string value=1",
    "BatchingParameters": (
        "Int64Value max_batch_size=1; Int64Value batch_timeout_micros=2; Int64Value max_enqueued_batches=3;"
        "Int64Value num_batch_threads=4; StringValue thread_pool_name=5; repeated int64 allowed_batch_sizes=6;"
        "bool pad_variable_length_inputs=7; BoolValue enable_large_batch_splitting=8;"
        "Int64Value max_execution_batch_size=9"
    ),
    "PrometheusConfig": "bool enable=1; string path=2",
    "MonitoringConfig": "PrometheusConfig prometheus_config=1",
    "SSLConfig": "string server_key=1; string server_cert=2; string custom_ca=3; bool client_verify=4",
}
_made = build_messages(_SCHEMA, "bertline.files")
BatchingParameters = _made["BatchingParameters"]
MonitoringConfig = _made["MonitoringConfig"]
SSLConfig = _made["SSLConfig"]
