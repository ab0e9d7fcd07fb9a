"""Shared by every tier; sets the environment before TensorFlow is first imported."""

import os

from pipeline.environment import prepare

prepare()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.pop("MLFLOW_TRACKING_URI", None)  # a developer's own store is none of the tests' business


def pytest_addoption(parser):
    parser.addoption(
        "--target",
        default="embedded",
        help="of tests/component/serving_conformance: embedded, binary, docker, or HOST:PORT of gRPC",
    )
    parser.addoption("--rest-target", metavar="HOST:PORT", help="REST of a --target HOST:PORT")
