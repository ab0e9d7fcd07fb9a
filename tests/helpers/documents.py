"""The documentation as tests look at it: pages, headings, links, and blocks of code with what is said of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").is_file())
SITE = ROOT / "docs"
AT_THE_ROOT = ("README", "CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "SECURITY")
RUN_BY_TESTS = ("README.md", "docs/tutorials/*.md", "docs/zh/*.md", "docs/how-to/python.md")
"""Pages whose blocks are executed, but for those with a reason before them."""

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run|run with): (?P<reason>.+?) -->\n)?^```(?P<language>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    title: str | None
    """The file that the reader saves it as."""
    mark: str | None
    reason: str | None

    @property
    def runs(self) -> bool:
        return self.mark is None and self.language in ("bash", "python")


def pages() -> list[Path]:
    return [*(ROOT / f"{name}.md" for name in AT_THE_ROOT), *sorted(SITE.rglob("*.md"))]


def pages_that_run() -> list[Path]:
    return [path for pattern in RUN_BY_TESTS for path in sorted(ROOT.glob(pattern))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    found = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Block(one["language"], one["code"], one["title"], one["mark"], one["reason"]) for one in found]


def prose(page: Path) -> str:
    """Without blocks, and without what stands in backticks."""
    return re.sub(r"`[^`\n]*`", "", _FENCED.sub("", page.read_text(encoding="utf-8")))


def links(page: Path) -> list[str]:
    """Those of prose, as they are written."""
    return _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """Of the headings, as GitHub and MkDocs name them both."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def commands(block: Block) -> list[str]:
    """The lines of a shell block, without comments; a line that goes on after a backslash is one."""
    lines = block.code.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
