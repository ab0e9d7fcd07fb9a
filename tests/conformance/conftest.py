"""One suite for any server of TensorFlow Serving's protocol: `pytest tests/conformance --target binary`.

The cases follow TensorFlow Serving's source; those of the fixture `embedded_only` are about what the embedded server does
better on purpose.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import conformance_models
import grpc
import pytest
from conformance_targets import EMBEDDED, ENGINES, Asked, opened, require_here

from bertline.serving.settings import Batching, ServerSettings

Start = Callable[..., Asked]


@pytest.fixture(scope="session")
def target(request) -> str:
    at = request.config.getoption("--target")
    if at in ENGINES:
        require_here(at)
    elif at != EMBEDDED and ":" not in at:
        pytest.exit(f"--target {at}: give embedded, binary, docker or HOST:PORT", returncode=4)
    return at


@pytest.fixture
def embedded_only(target) -> None:
    if target != EMBEDDED:
        pytest.skip("the embedded server differs from TensorFlow Serving here, on purpose")


@pytest.fixture(scope="session")
def root(tmp_path_factory) -> Path:
    """A folder for everything that a server may load."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="session")
def config(root):
    """Every model of the suite, written and configured."""
    return conformance_models.write_all(root)


@pytest.fixture(scope="session")
def server(target, request) -> Iterator[Asked]:
    """A server of every model, for cases that change nothing."""
    if target != EMBEDDED and target not in ENGINES:
        asked = Asked(target, request.config.getoption("--rest-target"), target)
        try:
            served = asked.states("half_plus_two")
        except grpc.RpcError as error:
            pytest.skip(f"--target {target} does not answer: {error.details()}")
        if not served:
            pytest.skip(f"--target {target} does not serve the models that conformance_models.py writes")
        yield asked
        asked.close()
        return
    settings = ServerSettings(request.getfixturevalue("config"), port=0, rest_api_port=0, poll_seconds=3600)
    with opened(target, settings) as asked:
        yield asked


@pytest.fixture
def start(target, root, config) -> Iterator[Start]:
    """Starts a server of its own for a case: `start(models_config, batching=…)`."""
    with ExitStack() as stack:

        def started(models, batching: Batching | None = None, **others) -> Asked:
            quick = {"port": 0, "rest_api_port": 0, "poll_seconds": 0.1, "load_retries": 0, "root": root}
            return stack.enter_context(opened(target, ServerSettings(models, batching=batching, **(quick | others))))

        yield started


@pytest.fixture
def base(root) -> Path:
    """A model's folder with no version yet."""
    return Path(tempfile.mkdtemp(prefix="base-", dir=root))
