"""Plots and pages that were drawn before: a cached step has the same ones, and drawing takes longer than telling."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

_LIMIT = 60
"""Drawings that are kept, the newest ones; a run has four or five."""
_CODE = Path(__file__).parents[1]
_ENDINGS = (".py", ".html", ".css", ".js")


class Drawings:
    """Kept in a folder, each under what it was drawn from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, what: str, sources: Iterable[Path], draw: Callable[[], Mapping[str, Any]]) -> dict[str, Path]:
        """The files by their names, drawn now where that was not done before.

        Args:
          what: is drawn, with everything that it depends on beside the sources.
          draw: gives texts, and figures of matplotlib, by their names.
        """
        digest = hashlib.sha256(f"{_code()}\0{what}".encode())
        for source in sources:
            with source.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        place = self._folder / digest.hexdigest()[:32]
        if place.is_dir():
            os.utime(place)
        else:
            self._draw(place, draw())
        return {path.relative_to(place).as_posix(): path for path in sorted(place.rglob("*")) if path.is_file()}

    def _draw(self, place: Path, drawn: Mapping[str, Any]) -> None:
        self._folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".") as unfinished:
            for name, picture in drawn.items():
                path = Path(unfinished, "drawn", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                if isinstance(picture, str):
                    path.write_text(picture, encoding="utf-8")
                else:
                    picture.savefig(path)
            Path(unfinished, "drawn").mkdir(exist_ok=True)
            Path(unfinished, "drawn").rename(place)  # nobody ever sees half of it
        kept = sorted(self._folder.glob("[!.]*"), key=lambda path: path.stat().st_mtime)
        for path in kept[:-_LIMIT]:
            shutil.rmtree(path, ignore_errors=True)


@cache
def _code() -> str:
    """Of all that draws."""
    digest = hashlib.sha256()
    for path in sorted(path for path in _CODE.rglob("*") if path.suffix in _ENDINGS):
        digest.update(path.relative_to(_CODE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
