"""Pages of HTML that ask for nothing else: no script, font or picture of another file or host.

A page is a template that extends `base.html`. All of them share its frame with `frame.js`, the styles `page.css` and
`charts.css`, the script `page.js`, and the parts of `parts.html`, `cards.html` and `charts.html`. Whatever comes from a run
is escaped by Jinja, or stands in the JSON, which the script writes as text only.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from bertline.pipeline.core.errors import BertlineError

_TEMPLATES, _STATIC = (Path(__file__).parent / name for name in ("templates", "static"))
SCRIPT = _STATIC / "page.js"
"""Draws learning curves, and lets one choose by which metric slices are shown."""
_STYLES = (_STATIC / "page.css", _STATIC / "charts.css")
COLOURS, DASHES = 8, 4  # that page.css has
_FRAME_HEIGHT = 700  # pixels, in a notebook


@dataclass(frozen=True)
class Page:
    """A page as text. As the last value of a notebook's cell it shows itself."""

    html: str

    def write(self, path: Path, option: str = "") -> None:
        """Replaces the file in one go: a browser never sees half of it.

        Args:
          option: of the command line, that named the file; begins the sentence which says why it cannot be written.
        """
        unfinished = path.with_name(f".{path.name}.part")
        try:
            unfinished.write_text(self.html, encoding="utf-8", errors="replace")
            os.replace(unfinished, path)
        except OSError as error:
            raise BertlineError(
                f"{option} {path}: {error.strerror}; name a file in a folder that can be written to.".lstrip()
            ) from error

    def _repr_html_(self) -> str:
        """In a frame: the page keeps its own style and policy, and the notebook its own."""
        address = base64.b64encode(self.html.encode("utf-8", "replace")).decode()
        return (
            f'<iframe title="a page of Bertline" src="data:text/html;charset=utf-8;base64,{address}" width="100%"'
            f' height="{_FRAME_HEIGHT}" style="border: 0"></iframe>'
        )


def render(
    template: Path,
    view: Mapping[str, Any],
    *,
    scripts: Sequence[Path] = (),
    styles: Sequence[Path] = (),
    data: Mapping[str, Any] | None = None,
) -> Page:
    """Fills in a template.

    Args:
      view: what the template shows; `title`, and `parts` (the id and heading of each section), are the frame's.
      scripts: files that become the one script of the page after that of the frame, in this order.
      styles: what the page adds to the style of all pages.
      data: what the scripts read.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, _TEMPLATES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False}
    script = "".join(path.read_text(encoding="utf-8") for path in (_STATIC / "frame.js", *scripts))
    return Page(
        environment.get_template(template.name).render(
            **view,
            style="".join(path.read_text(encoding="utf-8") for path in (*_STYLES, *styles)),
            script=script,
            # The browser runs this very script and no other, whatever else the page may come to hold.
            script_source=f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'",
            data=data or {"runs": (), "curves": ()},
        )
    )


def short(text: str, limit: int = 24) -> str:
    """
    >>> short("a long name of a class", 8)
    'a long …'
    """
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
