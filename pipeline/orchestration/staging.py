"""A step whose inputs and outputs are in a bucket works on copies of them, on the disk of its own machine.

Every library that a step uses can then do with files what it likes, and a file appears in the bucket when it is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.storage import COPIES, fetch, is_remote, send

TOLD = "--json_serialized_invocation_args"
"""Names the argument that says, in Kubeflow's words, where the inputs are and where the outputs go."""
_AT_ONCE = 8


@contextmanager
def staged(arguments: Sequence[str], log: Callable[[str], None]) -> Iterator[list[str]]:
    """The arguments of a step, with paths of this machine in place of buckets; afterwards its outputs are sent there."""
    arguments = list(arguments)
    place = arguments.index(TOLD) + 1
    executor_input = json.loads(arguments[place])
    wanted = {side: _uris(executor_input, side) for side in ("inputs", "outputs")}
    result = executor_input["outputs"]["outputFile"]
    if not any(wanted.values()) and not is_remote(result):
        yield arguments
        return
    with _folder("\n".join([*wanted["outputs"], result])) as folder:
        copies = {uri: _copy_of(uri, folder / side) for side, uris in wanted.items() for uri in uris}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for done in [pool.submit(fetch, uri, copies[uri]) for uri in wanted["inputs"]]:
                done.result()
        log(f"{len(wanted['inputs'])} inputs were copied to this machine")
        written = folder / "executor_output.json"
        executor_input = _renamed(executor_input, {uri: str(copy) for uri, copy in copies.items()})
        executor_input["outputs"]["outputFile"] = str(written)
        arguments[place] = json.dumps(executor_input)
        names = {str(copy): uri for uri, copy in copies.items()}
        os.environ[COPIES] = json.dumps(names)
        yield arguments
        for uri in wanted["outputs"]:
            if copies[uri].exists():
                send(copies[uri], uri)
        written.write_text(json.dumps(_renamed(json.loads(written.read_text()), names)))
        if is_remote(result):
            send(written, result)  # last: it says that the rest is there
        else:
            Path(result).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(written, result)
        log(f"{len(wanted['outputs'])} outputs were copied to the bucket")


def _uris(executor_input: dict[str, Any], side: str) -> list[str]:
    """Those in buckets, each once."""
    given = executor_input.get(side, {}).get("artifacts", {}).values()
    found = (artifact["uri"] for artifacts in given for artifact in artifacts.get("artifacts", []))
    return list(dict.fromkeys(uri for uri in found if is_remote(uri)))


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The same, with other values under the key `uri`."""
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if isinstance(value, dict):
        return {
            key: names.get(item, item) if key == "uri" and isinstance(item, str) else _renamed(item, names)
            for key, item in value.items()
        }
    return value


def _copy_of(uri: str, folder: Path) -> Path:
    return folder / hashlib.sha256(uri.encode()).hexdigest()[:16] / uri.rstrip("/").rpartition("/")[2]


@contextmanager
def _folder(of: str) -> Iterator[Path]:
    """Has the same name when the step is tried again: a training knows by its paths that it is the same one."""
    path = Path(tempfile.gettempdir()) / f"bertline-{os.getuid()}-{hashlib.sha256(of.encode()).hexdigest()[:16]}"
    shutil.rmtree(path, ignore_errors=True)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        raise BertlineError(f"{path}: it is there already and is not this user's; remove it, or set TMPDIR.") from None
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
