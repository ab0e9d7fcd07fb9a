"""A bucket on loopback: moto's server speaks S3's own protocol, and s3fs asks it as it would ask Amazon's."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import fsspec
import pytest

NAME = "bucket"


@contextmanager
def running() -> Iterator[dict[str, str]]:
    """Yields the environment that leads to it, which this process has as long as it lasts."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    # What is stored belongs to the process and not to the server: another test may have left something.
    urllib.request.urlopen(urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        fsspec.filesystem("s3").clear_instance_cache()  # which know another server
        fsspec.filesystem("s3").mkdir(NAME)
        try:
            yield environment
        finally:
            server.stop()
            fsspec.filesystem("s3").clear_instance_cache()


def everything() -> dict[str, bytes]:
    """Name in the bucket -> content."""
    system = fsspec.filesystem("s3", use_listings_cache=False)
    return {path.removeprefix(f"{NAME}/"): system.cat_file(path) for path in system.find(NAME)}


def put(name: str, content: bytes) -> str:
    """Returns the URI."""
    fsspec.filesystem("s3", use_listings_cache=False).pipe_file(f"{NAME}/{name}", content)
    return f"s3://{NAME}/{name}"
