"""Shared by every tier; sets the environment before TensorFlow is first imported."""

import os

import pytest

from pipeline.environment import prepare

prepare()
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.pop("MLFLOW_TRACKING_URI", None)  # a developer's own store is none of the tests' business

_LONGEST = ("e2e/test_study", "e2e/test_cache", "e2e/", "component/test_tr", "component/")
"""Files that take minutes; begun last, one of them would keep a single worker busy while the others have nothing left."""
_SHARED_LINE = "finished_line"


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config, items):
    """For `make test`: the tests of a file run in one worker, the longest files first.

    Files that read the line which is run once for a session are one group: a second worker would have to run it again.
    """
    if not hasattr(config, "workerinput"):
        return
    shared = {item.path for item in items if _SHARED_LINE in item.fixturenames}
    for item in items:
        group = _SHARED_LINE if item.path in shared else item.path.relative_to(config.rootpath).as_posix()
        item.add_marker(pytest.mark.xdist_group(group))

    def place(item):
        path = item.path.as_posix()
        return next((at for at, name in enumerate(_LONGEST) if f"tests/{name}" in path), len(_LONGEST))

    items.sort(key=place)


def pytest_addoption(parser):
    parser.addoption(
        "--target",
        default="embedded",
        help="of tests/component/serving_conformance: embedded, binary, docker, or HOST:PORT of gRPC",
    )
    parser.addoption("--rest-target", metavar="HOST:PORT", help="REST of a --target HOST:PORT")
