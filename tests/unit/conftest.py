"""The unit tier is quick because it never loads TFX; this keeps it so."""

import sys
from pathlib import Path

import pytest
from checkpoint_files import TABLE, Arrays, random

HERE = Path(__file__).parent


@pytest.fixture
def tensors() -> Arrays:
    """The weights of a small encoder, by Hugging Face's names."""
    return random(dict(TABLE.values()), seed=0)


def pytest_sessionfinish(session):
    if session.items and all(HERE in item.path.parents for item in session.items) and "tfx" in sys.modules:
        print("\nA unit test imported tfx: move it to tests/integration.")
        session.exitstatus = 1
