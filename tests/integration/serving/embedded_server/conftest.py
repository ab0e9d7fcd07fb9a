"""Models to copy, folders to serve, and a gate that holds requests."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import served_models
from serving_client import Gate


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> dict[int, Path]:
    """Two versions, to be copied: the first adds 2, the second 3."""
    folder = tmp_path_factory.mktemp("made")
    return {number: served_models.save(folder / str(number), bias=number + 1.0) for number in (1, 2)}


@pytest.fixture
def base(tmp_path, made) -> Path:
    """A model's folder with its first version."""
    shutil.copytree(made[1], tmp_path / "root" / "m" / "1")
    return tmp_path / "root" / "m"


@pytest.fixture
def other_place(tmp_path, made) -> Path:
    """A model that is none of the server's business."""
    shutil.copytree(made[1], tmp_path / "elsewhere" / "1")
    return tmp_path / "elsewhere"


@pytest.fixture
def gate(tmp_path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.open()  # also after a failure: somebody may wait
