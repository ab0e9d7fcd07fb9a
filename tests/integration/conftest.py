"""What files of this tier share."""

from __future__ import annotations

from pathlib import Path

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


@pytest.fixture(scope="session")
def every_model(tmp_path_factory, learned_model):
    """() -> the folder of a version of every task, by the task: of those that are learned the learned model, of the rest an
    untrained one. Where a row may have one text or two, it has two."""
    from learned import LESSONS, VERSION
    from tiny_models import EVERY, push

    def made() -> dict[str, Path]:
        untrained = {tiny.task: tiny for tiny in EVERY if tiny.task not in LESSONS}
        root = made_once(
            tmp_path_factory,
            "untrained",
            lambda folder: [push(tiny, folder / task, VERSION) for task, tiny in untrained.items()],
        )
        learned = {task: learned_model(task) / task / str(VERSION) for task in LESSONS}
        return learned | {task: root / task / str(VERSION) for task in untrained}

    return made
