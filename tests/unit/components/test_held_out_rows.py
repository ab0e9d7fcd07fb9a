"""The file of evaluation examples: written in parts, found again by id, and read without TensorFlow."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_rows import TASKS, random_predictions

from bertline.components.evaluator.predictions.parts import write_sorted
from bertline.components.evaluator.predictions.rows import FILE_NAME, Description, EvaluationPredictions, shared
from bertline.components.evaluator.predictions.scores import scores
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.core.errors import BertlineError


@pytest.mark.parametrize("task", TASKS)
def test_what_is_written_is_read_with_all_that_is_needed_to_score_it(task, tmp_path):
    rows = random_predictions(task, 50)
    rows.write(tmp_path / FILE_NAME)
    found = EvaluationPredictions.read(tmp_path)
    assert found.ids == rows.ids and found.texts == rows.texts and found.description == rows.description
    assert scores(found) == scores(rows)


def test_reading_takes_no_tensorflow(tmp_path):
    random_predictions("classification", 20).write(tmp_path / FILE_NAME)
    script = """
import sys
from bertline.components.evaluator.predictions import error_records, outcomes, plots, scores
from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.reports import data_page, results_page
from bertline.components.reports.results import Bounds, results_of
from bertline.components.evaluator.verdict import Verdict
rows = EvaluationPredictions.read(sys.argv[1])
verdict = Verdict(blessed=True, reasons=[], metrics=scores.scores(rows), slices={})
results_page.results_page(results_of(verdict, rows, Bounds()), "x")
scores.bootstrap(rows, rows, draws=5), outcomes.flips(rows, rows)
error_records.error_json(rows), plots.draw_plots(rows)
print([name for name in sys.modules if name.split(".")[0] in ("tensorflow", "tfx", "apache_beam", "keras")])
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_file_that_is_missing_or_of_others_is_told(tmp_path):
    with pytest.raises(BertlineError, match="Run the pipeline again"):
        EvaluationPredictions.read(tmp_path)
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / FILE_NAME)
    with pytest.raises(BertlineError, match="not written by an Evaluator"):
        EvaluationPredictions.read(tmp_path / FILE_NAME)


def test_rows_that_two_have_in_common_come_in_one_order():
    rows = random_predictions("classification", 30)
    one, other = shared(rows.take([5, 3, 9, 1]), rows.take([9, 7, 5]))
    assert one.ids == other.ids == [rows.ids[5], rows.ids[9]] and one.texts == other.texts
    np.testing.assert_array_equal(one.label(), rows.label()[[5, 9]])


def test_a_function_that_cannot_be_named_in_a_file_is_refused():
    task = get_task("pretraining")
    description = Description.of(task, ("next", "other"), ("text",))
    assert Description.from_json(description.to_json()) == description and description.text_keys == ()
    metric = description.metrics["perplexity"]
    odd = {"perplexity": metric.__class__(of="mlm_loss", function=lambda loss: 2**loss)}
    with pytest.raises(TypeError, match="a function of `math`"):
        Description("pretraining", (), (), description.outputs, odd).to_json()


@pytest.mark.parametrize("at_once", [1 << 30, 400])
def test_parts_become_one_file_sorted_by_id_and_equal_rows_are_numbered(tmp_path, at_once):
    """Whether they fit into memory or are sorted piece by piece."""
    names = [f"{np.random.default_rng(row % 90).integers(2**63):016x}" for row in range(100)]  # ten of them twice
    paths = []
    for part in np.array_split(np.arange(100), 3):
        paths.append(str(tmp_path / f"{part[0]}.arrow"))
        batches = [pa.record_batch([[names[row]], [float(row)]], ["id", "weight"]) for row in part]
        with pa.ipc.new_file(paths[-1], batches[0].schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    description = Description.of(get_task("regression"), (), ("text",))
    assert write_sorted(paths, str(tmp_path / FILE_NAME), description, at_once) == 100
    rows = EvaluationPredictions.read(tmp_path)
    assert rows.ids == sorted(rows.ids) and len(set(rows.ids)) == 100
    assert sorted(name for name in rows.ids if "-" in name) == sorted(f"{name}-2" for name in names[:10])
    for name, row in zip(rows.ids, rows.weight(), strict=True):
        assert names[int(row)] == name.partition("-")[0]
