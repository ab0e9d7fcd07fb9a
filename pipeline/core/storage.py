"""Files and folders wherever a config names them: on this machine, on a model hub (`pipeline/core/hubs.py`), or in a
bucket such as gs://BUCKET or s3://BUCKET.

fsspec opens the buckets, with a package for each kind, which is an extra of ours. Nothing of it is imported for paths of
this machine.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertline.pipeline.core.errors import BertlineError

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://")
_EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}
HUBS = ("hf://", "kaggle://")
CACHE_VARIABLE = "BERTLINE_CACHE"
"""Names the folder for copies of what is in buckets."""

COPIES = "BERTLINE_COPIES"
"""Names, to the step of a compiled line, where the copies that it works on come from and go to: a JSON object of URIs."""

AnyPath = Any
"""A `Path`, or a `UPath`, which has the same methods for a bucket."""


def is_remote(path: str | AnyPath) -> bool:
    return _SCHEME.match(str(path)) is not None


def at(path: str | AnyPath) -> AnyPath:
    """The path as an object: pathlib's own on this machine."""
    if not is_remote(path):
        return Path(path)
    from upath import UPath

    with reaching(str(path)):
        return UPath(str(path), use_listings_cache=False)  # others write there, too


def find(pattern: str) -> list[str]:
    """The files that match a pattern, in order."""
    if not is_remote(pattern):
        return sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))
    with reaching(pattern):
        system = _system(pattern)
        found = system.glob(pattern, detail=True)
    return sorted(system.unstrip_protocol(name) for name, details in found.items() if details["type"] == "file")


def join(folder: str, *names: str) -> str:
    """As os.path.join; of a bucket, too."""
    return "/".join((folder.rstrip("/"), *names)) if is_remote(folder) else os.path.join(folder, *names)


def local_copy(path: str) -> str:
    """A file or folder as one of this machine: itself, or a copy of what is in the bucket or on the hub now.

    Copies are kept in a cache, by what the bucket says of their content; they are shared and not to be changed.
    """
    if not is_remote(path):
        return path
    if path.startswith(HUBS):
        from bertline.pipeline.core.hubs import (
            downloaded_copy,  # which knows what a checkpoint consists of, and so more than this module
        )

        return downloaded_copy(path)
    with reaching(path):
        system = _system(path)
        files = system.find(path, detail=True)
        if not files:
            raise FileNotFoundError("there is no such file or folder")
        seen = sorted(str(sorted((key, str(value)) for key, value in details.items())) for details in files.values())
        key = hashlib.sha256("\n".join(seen).encode()).hexdigest()[:24]
        name = path.rstrip("/").rpartition("/")[2]
        copy = _cache() / key / name
        if not copy.exists():
            copy.parent.parent.mkdir(parents=True, exist_ok=True)
            incoming = Path(tempfile.mkdtemp(dir=copy.parent.parent, prefix=".incoming-"))
            try:
                fetch(path, incoming / name)
                os.rename(incoming, copy.parent)
            except OSError:
                if not copy.exists():  # otherwise another process was quicker
                    raise
            finally:
                shutil.rmtree(incoming, ignore_errors=True)
    return str(copy)


def origin(path: str) -> str:
    """Where the copy that a step works on goes to; the path itself where it is none."""
    return str(json.loads(os.environ.get(COPIES, "{}")).get(path, path))


def fetch(uri: str, target: Path) -> None:
    """Copies a file, or a folder with all that is in it, to this machine."""
    with reaching(uri):
        system = _system(uri)
        if system.isfile(uri):
            target.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(uri, str(target))
        else:
            target.mkdir(parents=True, exist_ok=True)
            system.get(f"{uri.rstrip('/')}/", f"{target}/", recursive=True)


def send(source: Path, uri: str, *, last: str | None = None) -> None:
    """Copies a file, or all files of a folder, to a bucket.

    Args:
      last: name of the file that is to come after all the others.
    """
    with reaching(uri):
        system = _system(uri)
        if source.is_file():
            system.put_file(str(source), uri)
            return
        names = [path.relative_to(source).as_posix() for path in sorted(source.rglob("*")) if path.is_file()]
        for some in ([name for name in names if name != last], [name for name in names if name == last]):
            if some:
                system.put([str(source / name) for name in some], [f"{uri.rstrip('/')}/{name}" for name in some])


@contextlib.contextmanager
def reaching(path: str) -> Iterator[None]:
    """What goes wrong on the way to a bucket is one sentence: which one, why, and what to do."""
    try:
        yield
    except (BertlineError, FileExistsError):
        raise
    except Exception as error:
        if not is_remote(path):
            raise
        raise BertlineError(f"{path}: {_explained(path, error)}") from error


def _explained(path: str, error: Exception) -> str:
    scheme = str(path).partition(":")[0]
    if isinstance(error, ImportError):
        extra = _EXTRAS.get(scheme)
        remedy = f"pip install 'bertline[{extra}]'" if extra else f"install the package that fsspec opens {scheme}:// with"
        return f"{scheme}:// needs a package that is not installed; {remedy} ({error})."
    if isinstance(error, ValueError) and "nsupported" in str(error):
        return f"nothing opens {scheme}://; name a path of this machine, s3://BUCKET/… or gs://BUCKET/…."
    if isinstance(error, FileNotFoundError):
        return f"it is not there: {str(error).rstrip('.')}; check the bucket and the name."
    reason = next(iter(str(error).splitlines()), "").rstrip(".")
    return (
        f"it cannot be reached: {type(error).__name__}: {reason}; check the credentials and the endpoint in the environment"
        f"{' (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …)' if _EXTRAS.get(scheme) == 's3' else ''}."
    )


def _system(path: str) -> Any:
    from fsspec.core import url_to_fs

    return url_to_fs(path, use_listings_cache=False)[0]


def _cache() -> Path:
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bertline"
