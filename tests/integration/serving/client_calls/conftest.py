"""A server that the clients ask, and keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from certificates import signed
from shouting_server import Shouts, listening


@pytest.fixture
def shouts():
    return Shouts()


@pytest.fixture
def address(shouts):
    with listening(shouts) as where:
        yield where


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> Path:
    """PEM files of an authority, of a server and of a client that it has signed."""
    folder, authority = tmp_path_factory.mktemp("tls"), signed("authority")
    (folder / "ca.pem").write_bytes(authority[1])
    for name in ("server", "client"):
        key, certificate = signed(name, authority)
        (folder / f"{name}.pem").write_bytes(certificate)
        (folder / f"{name}.key").write_bytes(key)
    return folder
