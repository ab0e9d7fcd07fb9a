"""Shared by every tier; sets the environment before TensorFlow is first imported."""

import os

from bertline.pipeline.core.environment import prepare

prepare()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.pop("MLFLOW_TRACKING_URI", None)  # a developer's own store is none of the tests' business

_LONGEST = (
    "e2e/test_line",
    "e2e/test_study",
    "e2e/test_cache",
    "e2e/",
    "integration/components/tracking/",
    "integration/components/test_tr",
    "integration/models/test_tr",
    "integration/serving/test_tr",
    "integration/",
    "conformance/",
)
"""Files that take minutes; begun last, one of them would keep a single worker busy while the others have nothing left."""


def pytest_collection_modifyitems(config, items):
    """For `make test`, whose workers take whole files in this order."""

    def place(item):
        path = item.path.as_posix()
        return next((at for at, name in enumerate(_LONGEST) if f"tests/{name}" in path), len(_LONGEST))

    if hasattr(config, "workerinput"):  # without workers they run as they are named
        items.sort(key=place)


def pytest_addoption(parser):
    parser.addoption(
        "--target",
        default="embedded",
        help="of tests/conformance: embedded, binary, docker, or HOST:PORT of gRPC",
    )
    parser.addoption("--rest-target", metavar="HOST:PORT", help="REST of a --target HOST:PORT")
