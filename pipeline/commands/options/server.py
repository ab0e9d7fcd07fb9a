"""The options of a command that asks a server, as one value. It imports nothing that `--help` would wait for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from bertline.pipeline.core.errors import BertlineError


@dataclass(frozen=True, kw_only=True)
class Server:
    """Which model of which server is asked, and how."""

    address: str
    name: str | None = None
    """Of the model; by default that of the last run in the workspace."""
    version: int | None = None
    label: str | None = None
    timeout: float = 60.0
    """Seconds for a batch."""
    max_batch: int = 64
    tls: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    @property
    def is_secure(self) -> bool:
        return self.tls or any((self.tls_ca, self.tls_cert, self.tls_key))


_OPTIONS = (
    click.option(
        "--server", metavar="HOST:PORT", help="Send requests to a model server by gRPC, instead of loading a model here."
    ),
    click.option("--name", metavar="MODEL", help="The model's name on the server. [default: that of the last run]"),
    click.option("--version", type=click.IntRange(min=0), metavar="N", help="Its version. [default: the server's newest]"),
    click.option("--label", metavar="L", help="Its version by label, for example stable."),
    click.option(
        "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Seconds for a batch. [default: 60]"
    ),
    click.option("--max_batch", type=click.IntRange(min=1), metavar="N", help="Examples per request. [default: 64]"),
    click.option("--tls", is_flag=True, default=None, help="A secure connection; the system's authorities are trusted."),
    click.option("--tls_ca", metavar="FILE", help="The authority to trust instead, in PEM."),
    click.option("--tls_cert", metavar="FILE", help="Client certificate, if the server requires one."),
    click.option("--tls_key", metavar="FILE", help="The key of --tls_cert."),
)
_NAMES = ("name", "version", "label", "timeout", "max_batch", "tls", "tls_ca", "tls_cert", "tls_key")


def server_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command these options, and its function a `server`: a `Server`, or None where none was named."""

    @functools.wraps(command)
    def called(server: str | None, **given: Any) -> Any:
        said = {name: value for name in _NAMES if (value := given.pop(name)) is not None}
        if server is None and said:
            raise BertlineError(f"--{next(iter(said))} goes with --server HOST:PORT.")
        return command(server=Server(address=server, **said) if server else None, **given)

    for option in reversed(_OPTIONS):
        called = option(called)
    return called
