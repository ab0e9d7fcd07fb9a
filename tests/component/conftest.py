"""What tests of pages share."""

from __future__ import annotations

import pytest
from browser import HOW_TO_INSTALL, Browser, find_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find_browser()
    if program is None:
        # A user without root may run the other tests; `.ci/run` installs one, so that nothing is skipped there.
        pytest.skip(HOW_TO_INSTALL)
    opened = Browser(program, tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()
