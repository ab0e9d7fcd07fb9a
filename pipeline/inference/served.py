"""`bertline predict --server`: the model of a server as one that answers. TensorFlow is not imported for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bertline.models.responses.base import ResponseSpec
from bertline.models.tasks.base.task import tasks_with
from bertline.pipeline.commands.options.server import Server
from bertline.pipeline.console import summary
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.inference.predictor import ANY, Found, Loaded, Texts, Wanted
from bertline.serving.client.recognition import UnknownKindError, kind_of, text_keys
from bertline.serving.client.sync import Client, ClientTls

AT_ONCE = 8
"""Requests under way: a server that batches has then one to begin with when another is done."""
_RETRIES = 100
"""Within the deadline: a server that starts anew amid a long file is waited for."""
_ANSWERS_SOON = 10.0
"""Seconds in which a server must say what its model is: whether it is there at all is told at once."""
_VERSION = "version"


def find_served(server: Server, workspace: str, wanted: Wanted = ANY) -> Found:
    """The model of a server. What it is for is told by its signature: the metadata stays in its folder."""
    name = server.name or _last_name(workspace)
    where, signature = f"{server.address}, model {name}", wanted.signature
    with _client(server, name, timeout=min(server.timeout, _ANSWERS_SOON)) as client:
        signatures = client.metadata().signatures
    if signature not in signatures:
        raise BertlineError(
            f"{where}: no signature {signature}, but {', '.join(signatures)}; name another model by --name."
        )
    try:
        kind = kind_of(signatures[signature])
    except UnknownKindError as error:
        raise BertlineError(f"{where}: {error}; use Client.predict of serving/client/sync.py.") from None
    if wanted.task and wanted.task not in (known := tasks_with(kind)):
        tasks = " or ".join(known)
        raise BertlineError(f"{where}: its task is {tasks}, not {wanted.task}; name another model by --name.")
    keys = text_keys(kind, signatures[signature])
    return Found(where, keys, lambda: _load(server, name, wanted.shown_as(kind), wanted))


def _load(server: Server, name: str, kind: ResponseSpec[Any], wanted: Wanted) -> Loaded:
    client = _client(server, name, timeout=server.timeout, retries=_RETRIES)

    def ask(rows: Sequence[Texts]) -> list[dict[str, Any]]:
        answered = client.ask(wanted.rows(rows), signature=wanted.signature)
        return [{**row.outputs, _VERSION: row.version} for row in answered]

    def plain(given: Mapping[str, Any]) -> dict[str, Any]:
        outputs = {name: value for name, value in given.items() if name != _VERSION}
        return {**kind.plain(outputs), _VERSION: given[_VERSION]}

    return Loaded(ask, kind.readable, plain, AT_ONCE, client.close, kind.read)


def _client(server: Server, name: str, *, timeout: float, retries: int = 5) -> Client:
    tls = ClientTls.read(ca=server.tls_ca, cert=server.tls_cert, key=server.tls_key) if server.is_secure else None
    return Client(
        server.address,
        name,
        version=server.version,
        label=server.label,
        timeout=timeout,
        retries=retries,
        tls=tls,
        max_batch=server.max_batch,
    )


def _last_name(workspace: str) -> str:
    last = summary.read(workspace)
    if not last or not last.get("name"):
        raise BertlineError(f"no run in {workspace} has recorded a model name; give --name.")
    return last["name"]
