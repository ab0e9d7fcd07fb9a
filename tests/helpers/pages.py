"""What every page of the pipeline promises, asked of its text."""

from __future__ import annotations

import re
from html.parser import HTMLParser

HOSTILE = "</script><img src=x onerror=\"document.title='taken over'\">"


class Read(HTMLParser):
    """A page as its reader meets it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.cards: list[str] = []
        """The words of each card."""
        self._inside = False
        self._depth = 0  # within a card, of lists
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag == "li" and (self._depth or "card" in (dict(attributes).get("class") or "").split()):
            self._depth += 1
            if self._depth == 1:
                self.cards.append("")
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._inside = True

    def handle_endtag(self, tag):
        self._depth -= tag == "li" and self._depth > 0
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self._inside:
            self.tables[-1][-1][-1] += data
        if self._depth:
            self.cards[-1] = " ".join(f"{self.cards[-1]} {data}".split())

    def count(self, tag: str) -> int:
        return sum(found == tag for found, _ in self.tags)

    def rows(self, name: str) -> list[list[str]]:
        """The rows of all tables that begin with a cell."""
        every = [[cell.strip() for cell in row] for table in self.tables for row in table]
        return [row for row in every if row and row[0] == name]

    def row(self, name: str) -> list[str]:
        """The first of them."""
        return self.rows(name)[0]


def assert_self_contained(html: str) -> None:
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#|data:)|@import|url\(""", html)
    assert set(re.findall(r"https?://[^\"'\s<]*", html)) <= {"http://www.w3.org/2000/svg"}  # the name of SVG, not a place
    assert "default-src 'none'" in html


def assert_accessible(html: str) -> None:
    """One h1, headings that skip no level, tables with captions, pictures with words or none of their own."""
    page = Read(html)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1 and all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    assert page.count("caption") == page.count("table") > 0
    pictures = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert all(found.get("aria-label") or found.get("aria-hidden") for found in pictures)
    names = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(names) == len(set(names))
    assert {found["href"] for tag, found in page.tags if tag == "a"} <= {f"#{name}" for name in names}
    assert next(found for tag, found in page.tags if tag == "html") == {"lang": "en"}
    # The first link leads past the navigation, whose links lead to all parts of the page, in their order.
    links = [found["href"] for tag, found in page.tags if tag == "a"]
    parts = [f"#{found['id']}" for tag, found in page.tags if tag == "section"]
    assert links[0] == "#main" and links[1:] == parts and len(parts) > 1
