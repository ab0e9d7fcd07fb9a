"""Requests that are kept, and asked again to warm up a version."""

import os
import shutil
from pathlib import Path

import grpc
import pytest
import tensorflow as tf
from served_models import HELD, NUMBERS, TEXTS
from serving_client import eventually, refused, request, serving
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from bertline.serving.contract import WARM_UP


def test_the_log_of_requests_warms_up_the_next_version(base, made, tmp_path):
    with serving(base, request_log=tmp_path / "log", request_log_rate=1.0) as client:
        expected = [client.predict(x=[2.0, 4.0]), client.predict(TEXTS, text=["one"])]
        assert client.rest()[0] == 200
        refused(lambda: client.predict("none", x=[1.0]))
    (path,) = (tmp_path / "log").iterdir()
    logs = [
        prediction_log_pb2.PredictionLog.FromString(record)
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    ]
    assert [log.predict_log.response for log in logs[:2]] == expected and len(logs) == 3
    assert logs[0].predict_log.request == request(x=[2.0, 4.0])
    assert logs[0].log_metadata.sampling_config.sampling_rate == 1.0
    shutil.copytree(made[2], base / "2")
    (base / "2" / WARM_UP).parent.mkdir()
    shutil.copy(path, base / "2" / WARM_UP)
    with serving(base) as client:
        assert client.version() == 2


def warm_up(version: Path, *records: bytes) -> None:
    (version / WARM_UP).parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(version / WARM_UP)) as writer:
        for record in records:
            writer.write(record)


def logged(asked: predict_pb2.PredictRequest) -> bytes:
    return prediction_log_pb2.PredictionLog(predict_log={"request": asked}).SerializeToString()


def test_a_version_is_asked_its_own_requests_before_others_reach_it(base, gate):
    gate.open()
    warm_up(base / "1", logged(request(HELD, **gate.row("warmed"))))
    with serving(base) as client:
        assert gate.has_run("warmed") and client.answers()
        assert b'request_count{model_name="m",status="OK"} 1' in client.server.monitoring.render()


def test_a_version_that_takes_the_place_of_another_is_asked_its_own_requests_first(base, made, tmp_path, gate):
    shutil.copytree(made[2], tmp_path / "2")
    warm_up(tmp_path / "2", logged(request(HELD, **gate.row("warmed"))))
    with serving(base) as client, gate:
        os.rename(tmp_path / "2", base / "2")
        assert eventually(lambda: gate.has_run("warmed"))
        assert client.version() == 1
        gate.open()
        assert eventually(lambda: client.version() == 2)


@pytest.mark.parametrize(
    "records",
    [
        [logged(request(x=[1.0]))] * 1001,
        [b"no log of a prediction"],
        [prediction_log_pb2.PredictionLog().SerializeToString()],
        [logged(request(NUMBERS, text=["none"]))],
        [logged(request("none", x=[1.0]))],
    ],
    ids=["more than 1000", "unreadable", "empty", "failing", "unknown signature"],
)
def test_a_version_whose_own_requests_fail_takes_no_others(base, made, tmp_path, records):
    shutil.copytree(made[2], tmp_path / "2")
    warm_up(tmp_path / "2", *records)
    os.rename(tmp_path / "2", base / "2")
    with serving(base) as client:
        assert refused(client.answers).code() == grpc.StatusCode.NOT_FOUND
        assert client.status()[2].status.error_message and client.rest()[0] == 404
    with serving(base, warm_up=False) as client:
        assert client.version() == 2
