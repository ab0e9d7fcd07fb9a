"""Ports: whether one is free, and which one is; and which addresses are this machine's own."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Mapping

from bertline.pipeline.core.errors import BertlineError


def require_free(host: str, ports: Mapping[str, int]) -> None:
    """Refuses ports that are taken, by the flag that gives them; 0 stands for any and is always free.

    gRPC binds with SO_REUSEPORT: a second server on the same port would start without a word, and get every other request.
    """
    for flag, port in ports.items():
        try:
            with _bound(host, port):
                pass
        except OSError as error:
            raise BertlineError(_told(error, host, flag, port)) from error


def free_ports(host: str = "127.0.0.1") -> tuple[int, int]:
    """Two ports that were free a moment ago."""
    with _bound(host, 0) as one, _bound(host, 0) as other:
        return one.getsockname()[1], other.getsockname()[1]


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what a server that has just ended leaves behind
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made


def _told(error: OSError, host: str, flag: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{flag} {port}: the port is in use on {host}; stop what listens there, or give another one."
    if error.errno == errno.EACCES:
        return f"{flag} {port}: only the administrator may listen there; give a port of 1024 or more."
    return f"--host {host} is not an address of this machine ({error.strerror}); give one, or 0.0.0.0 for all."


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own, which no other machine reaches.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "localhost.evil.example", "")]
    [True, True, True, False, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
