"""What files of this tier share."""

from __future__ import annotations

import pytest
from browser import HOW_TO_INSTALL, Browser, find_browser
from shared import made_once


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    program = find_browser()
    if program is None:
        # A user without root may run the other tests; `.ci/run` installs one, so that nothing is skipped there.
        pytest.skip(HOW_TO_INSTALL)
    opened = Browser(program, tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def learned_model(tmp_path_factory):
    """(task of `learned.LESSONS`) -> the folder of a model that was trained on it, once for all processes of a test run."""
    from learned import learn  # TensorFlow, which not every file of this tier needs

    return lambda task: made_once(tmp_path_factory, f"learned-{task}", lambda folder: learn(task, folder))
