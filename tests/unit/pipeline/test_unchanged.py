"""What a run is remembered by: everything that it follows from."""

from dataclasses import fields, replace

import pytest

from bertline.pipeline.orchestration import fingerprints, unchanged
from bertline.pipeline.orchestration.fingerprints import InputDigests
from bertline.pipeline.orchestration.unchanged import fingerprint
from bertline.pipeline.settings.loader import load

DIGESTS = InputDigests(**{field.name: "as it was" for field in fields(InputDigests)})


@pytest.fixture(scope="module")
def config():
    return load("copy-tiny")


@pytest.mark.parametrize("field", [field.name for field in fields(InputDigests)])
def test_changed_input_is_another_run(config, field):
    assert fingerprint(config, DIGESTS) == fingerprint(config, replace(DIGESTS))
    assert fingerprint(config, replace(DIGESTS, **{field: "changed"})) != fingerprint(config, DIGESTS)


def test_a_changed_setting_is_another_run(config):
    assert fingerprint(load("copy-tiny", ["training.seed=7"]), DIGESTS) != fingerprint(config, DIGESTS)


@pytest.mark.parametrize("what", ["our sources", "an installed package"])
def test_changed_code_is_another_run(config, monkeypatch, what):
    before = fingerprint(config, DIGESTS)
    if what == "our sources":
        monkeypatch.setattr(unchanged, "all_sources", lambda: "changed")
    else:
        monkeypatch.setattr(unchanged.system, "versions", lambda: {"tensorflow": "0"})
    assert fingerprint(config, DIGESTS) != before


@pytest.mark.parametrize(
    "file", ["pipeline/config/data.py", "pipeline/core/storage.py", "components/statistics/executor.py"]
)
def test_a_changed_file_is_another_run(config, tmp_path, monkeypatch, file):
    """Whoever takes from it: which steps do is found out where some of them may have to run."""
    (tmp_path / file).parent.mkdir(parents=True)
    monkeypatch.setattr(fingerprints, "ROOT", tmp_path)
    before = fingerprint(config, DIGESTS)
    (tmp_path / file).write_text("x = 1\n")
    written = fingerprint(config, DIGESTS)
    (tmp_path / file).write_text("x = 2\n")
    assert len({before, written, fingerprint(config, DIGESTS)}) == 3
