"""One run for somebody who was not there: `bertline report`.

`report.py` reads what is recorded and makes one value of it; `page.py` shows that value as a page of HTML, `terminal.py` in
a few lines, and `Report.to_json` gives it to a program. A notebook has a door of its own:

    from bertline.pipeline.runs.report import report_page

    report_page(workspace="workspace")            # of the newest run; as the last line of a cell it shows itself
    report_page("3f2a", workspace="workspace").write(Path("report.html"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertline.components.reports.page import Page


def report_page(run: str | None = None, workspace: str = "workspace") -> Page:
    """The page of a run.

    Args:
      run: its id or the first digits of it; the newest run without.
      workspace: whose store is looked into.
    """
    from bertline.pipeline.runs.report.page import render
    from bertline.pipeline.runs.report.report import newest, report_of
    from bertline.pipeline.runs.store import run_store

    with run_store(workspace, "the run") as store:
        return render(report_of(store, store.find(run) if run else newest(store)))
