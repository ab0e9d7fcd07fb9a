"""What comes from others is read, and never run."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from crafted_parquet import write_crafted

from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.models.checkpoints.keras_file import open_keras, open_preset
from bertline.pipeline.core.errors import BertlineError

ROOT = Path(__file__).parents[3]
TEXTS = ["a fine film", "a dull film"] * 30


@pytest.fixture
def crafted(tmp_path):
    path = tmp_path / "crafted.parquet"
    write_crafted(path, tmp_path / "it-ran", {"text": TEXTS, "label": ["good", "bad"] * 30})
    return path


def test_the_crafted_file_runs_its_code_where_pyarrow_is_left_as_it_is(crafted):
    """Else the tests below would show nothing."""
    read = f"import pyarrow.parquet as pq; pq.ParquetFile({str(crafted)!r})"
    subprocess.run([sys.executable, "-c", read], capture_output=True)
    assert (crafted.parent / "it-ran").is_dir()


READERS = {
    "columns": "from bertline.components.ingest.readers.parquet import columns as read; read({path!r}, None)",
    "rows": "from bertline.components.ingest.readers.parquet import read; list(read({path!r}, None))",
    "evaluated rows": "from bertline.components.evaluator.predictions.rows import EvaluationPredictions;"
    " EvaluationPredictions.read({path!r})",
}


@pytest.mark.parametrize("code", READERS.values(), ids=READERS)
def test_what_reads_parquet_without_beam_refuses_the_crafted_file(crafted, code):
    """In a process of its own: another test may have imported Beam, which mends pyarrow too."""
    told = subprocess.run([sys.executable, "-c", code.format(path=str(crafted))], cwd=ROOT, capture_output=True, text=True)
    assert told.returncode == 1 and "BertlineError: " in told.stderr and "none was run" in told.stderr
    assert not (crafted.parent / "it-ran").exists()


def test_new_refuses_the_crafted_file_in_one_sentence(crafted):
    told = subprocess.run(
        [sys.executable, "-c", "from bertline.pipeline.cli import main; main()", "new", str(crafted)],
        cwd=crafted.parent,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 1 and "Traceback" not in told.stderr and not told.stdout
    assert told.stderr.startswith("error: ") and "crafted.parquet: the file carries pickled Python code" in told.stderr
    assert not (crafted.parent / "it-ran").exists() and not (crafted.parent / "crafted.yaml").exists()


def test_rows_of_a_shared_record_are_read_by_the_same_door(crafted):
    with pytest.raises(BertlineError, match="pickled Python code"):
        EvaluationPredictions.read(crafted)


def test_pyarrow_is_imported_in_one_place_alone():
    importing = []
    for package in ("pipeline", "components", "models", "serving"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
                if any(name.split(".")[0] == "pyarrow" for name in names):
                    importing.append(path.relative_to(ROOT).as_posix())
    assert sorted(set(importing)) == ["pipeline/core/arrow.py"]


def test_a_keras_file_that_names_a_function_of_python_is_refused(tmp_path):
    """What a .keras file calls a layer may be any function of any module; Keras imports none but its own."""
    layer = {"module": "os", "class_name": "mkdir", "registered_name": None, "config": {"path": str(tmp_path / "it-ran")}}
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.0.0", "date_saved": ""}))
        archive.writestr("config.json", json.dumps(layer))
        archive.writestr("model.weights.h5", b"")
    with pytest.raises(BertlineError, match="Keras cannot load it"), open_keras(path):
        pass
    assert not (tmp_path / "it-ran").exists()


@pytest.mark.parametrize("kind", ["external", "virtual"])
def test_a_preset_whose_weights_are_another_file_of_this_machine_is_refused(tmp_path, kind):
    """HDF5 can take a tensor's bytes from any file: they would be exported with the model."""
    secret, path = tmp_path / "secret", tmp_path / "model.weights.h5"
    secret.write_bytes(b"0123456789abcdef")
    place = "layers/embedding/vars/0"
    with h5py.File(path, "w") as file:
        if kind == "external":
            file.create_dataset(place, (4,), np.float32, external=[(str(secret), 0, 16)])
        else:
            layout = h5py.VirtualLayout((4,), np.float32)
            layout[:] = h5py.VirtualSource(str(secret), "weights", (4,))
            file.create_virtual_dataset(place, layout)
    with pytest.raises(BertlineError, match="takes .* from another file"), open_preset(path):
        pass
