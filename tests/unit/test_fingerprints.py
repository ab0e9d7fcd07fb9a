import json

import pytest

from pipeline import fingerprints
from pipeline.errors import BertlineError
from pipeline.fingerprints import PACKAGES, ROOT, code_fingerprint, file_fingerprint


def test_a_step_depends_on_the_code_it_imports_and_on_no_other():
    trainer = json.loads(code_fingerprint("components.trainer", "models.tasks.classification"))
    assert {"models/training.py", "models/inputs.py", "models/tasks/classification.py", "serving/signatures.py"} <= set(
        trainer
    )
    assert "components/ingest/component.py" not in trainer and "components/tracking.py" not in trainer
    ingest = json.loads(code_fingerprint("components.ingest.component"))
    assert "models/training.py" not in ingest and "components/ingest/readers.py" in ingest


def test_a_changed_byte_changes_the_fingerprint(tmp_path, monkeypatch):
    package = tmp_path / "models"
    package.mkdir()
    (package / "a.py").write_text("from models import b\n")
    (package / "b.py").write_text("x = 1\n")
    monkeypatch.setattr(fingerprints, "ROOT", tmp_path)
    fingerprints._imports.cache_clear()
    before = json.loads(code_fingerprint("models.a"))
    (package / "b.py").write_text("x = 2\n")
    after = json.loads(code_fingerprint("models.a"))
    assert before["models/a.py"] == after["models/a.py"] and before["models/b.py"] != after["models/b.py"]


def test_a_folder_is_known_by_the_bytes_of_its_files(tmp_path):
    assert file_fingerprint(None) == ""
    (tmp_path / "a").write_bytes(b"1")
    before = file_fingerprint(str(tmp_path))
    (tmp_path / "a").write_bytes(b"2")
    assert file_fingerprint(str(tmp_path)) != before


def test_imports_point_one_way():
    """pipeline -> components -> serving, models -> the config, errors and storage of pipeline."""
    below = {"pipeline": set(PACKAGES), "components": {"components", "serving", "models"}}
    below |= {"serving": {"serving", "models"}, "models": {"models"}}
    for package, allowed in below.items():
        for path in (ROOT / package).rglob("*.py"):
            for module in fingerprints._imports(path):
                if module.startswith(("pipeline.config", "pipeline.errors", "pipeline.storage")) or module == "pipeline":
                    continue
                top = module.partition(".")[0]
                assert top not in PACKAGES or top in allowed, f"{path.relative_to(ROOT)} imports {module}"


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(BertlineError, match="vocab.txt: there is no such file"):
        file_fingerprint(str(tmp_path / "vocab.txt"))
