"""What the site shows and `docs/` does not hold: the notebooks, the changelog and the guide for contributors."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
_PAGES = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
_INTO_DOCS = re.compile(r"\]\(docs/")


@event_priority(100)  # before the plugin that makes pages of notebooks
def on_files(files: Files, config: MkDocsConfig) -> Files:
    for page, source in _PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for book in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        files.append(File(f"notebooks/{book.name}", str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links from the root into docs/ are links within the site."""
    return _INTO_DOCS.sub("](", markdown) if page.file.src_uri in _PAGES else markdown
