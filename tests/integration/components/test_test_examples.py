"""Test examples: Ingest keeps them beside the splits, and the Evaluator measures on them what was chosen without them."""

from __future__ import annotations

import json
from pathlib import Path

import apache_beam as beam
import pytest
import tensorflow as tf
from test_ingest_splits import Rows, make_pipeline, write
from test_rows_of_evaluator import write_examples
from tiny_models import CLASSES, Tiny, make

from bertline.components.evaluator.executor import evaluate
from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.evaluator.predictions.scores import scores
from bertline.components.evaluator.verdict import OVERALL, Verdict
from bertline.components.ingest.component import Ingest
from bertline.components.ingest.executor import ingest
from bertline.components.ingest.files import digest, find_files
from bertline.components.ingest.report import judge
from bertline.models.tasks.base.task import check_test, get_task
from bertline.pipeline.config import DataConfig, EvaluationConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.export.saved_model import export


def texts(folder: Path, split: str) -> list[str]:
    files = sorted(map(str, (folder / f"Split-{split}").glob("*")))
    records = tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator()
    return sorted(
        tf.train.Example.FromString(record).features.feature["text"].bytes_list.value[0].decode() for record in records
    )


def rows(name: str, count: int) -> Rows:
    return [(f"{name} number {at}", "ab"[at % 2]) for at in range(count)]


def ingested(folder: Path, data: DataConfig) -> dict:
    return ingest(make_pipeline, data, (), str(folder / "examples"), str(folder / "report"))


def test_test_examples_stay_whole_beside_the_splits_and_their_texts_leave_training(tmp_path):
    train, test = rows("train", 200), [*rows("test", 29), ("something new", "c")]
    repeated = [("Train NUMBER 3!", "b"), ("train number 4", "a")]
    paths = {"path": write(tmp_path / "rows.csv", train), "test": write(tmp_path / "test.csv", [*test, *repeated])}
    data = DataConfig(**paths)
    report = ingested(tmp_path / "with", data)
    without = ingested(tmp_path / "without", DataConfig(path=paths["path"]))

    folder, other = tmp_path / "with" / "examples", tmp_path / "without" / "examples"
    assert texts(folder, "test") == sorted(text for text, _ in (*test, *repeated))
    assert texts(folder, "eval") == texts(other, "eval") and set(without["kept"]) == {"train", "eval"}
    gone = set(texts(other, "train")) - set(texts(folder, "train"))
    of_evaluation = {"train number 3", "train number 4"} & set(texts(folder, "eval"))
    assert gone == {"train number 3", "train number 4"} - of_evaluation
    assert report["kept"]["test"] == 32 and sum(report["labels"]["test"].values()) == 32
    assert report["left_out"].get("data.duplicates", 0) == len(gone) and report["tested"] == len(of_evaluation)
    assert any("the text of an evaluation or test example" in note for note in report["notes"]) == bool(gone)
    assert any(note.startswith("No training example has c, which test examples have") for note in report["notes"])


def test_a_test_file_needs_no_column_of_the_split_and_is_part_of_what_the_step_depends_on(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "text,label,part\n" + "".join(f"text {at},{'ab'[at % 2]},{('train', 'dev')[at % 3 == 0]}\n" for at in range(30))
    )
    plain = {"path": str(path), "split": {"column": "part"}}
    data = DataConfig(**plain, test=write(tmp_path / "test.csv", rows("test", 4)))
    assert [file.split for file in find_files(data)] == [None, "test"]
    assert digest(data) != digest(DataConfig(**plain))
    report = ingested(tmp_path, data)
    assert report["kept"] == {"train": 20, "eval": 10, "test": 4}


@pytest.mark.parametrize(
    "name, message", [("rows.csv", "both data.path and data.test"), ("none.csv", "data.test: there is")]
)
def test_a_test_file_that_cannot_be_one_is_refused(tmp_path, name, message):
    path = write(tmp_path / "rows.csv", rows("train", 40))
    with pytest.raises(BertlineError, match=message):
        find_files(DataConfig(path=path, test=str(tmp_path / name)))


def test_a_task_that_makes_its_own_examples_refuses_a_test_file():
    with pytest.raises(BertlineError, match="data.test: the task pretraining"):
        check_test(get_task("pretraining"), "test.txt")


def test_test_examples_that_are_all_left_out_are_told_of():
    report = {"rows": 9, "quarantined": 0, "excluded": 3, "kept": {"train": 4, "eval": 2}, "unreadable": [], "left_out": {}}
    with pytest.raises(BertlineError, match="No test examples are left.*check data.test"):
        judge(report, DataConfig(path="a.csv", test="b.csv"), None, "")


def test_no_step_but_the_evaluator_is_told_of_test_examples():
    step = Ingest(
        data=DataConfig(path="a", test="b").model_dump_json(), slices="[]", inputs="", code="", quarantine_path=""
    )
    assert json.loads(step.exec_properties["data"])["test"] == "b"


def test_the_evaluator_measures_the_model_on_test_examples_with_intervals_and_judges_by_none(tmp_path):
    export(make(Tiny("classification", ("text",)), tmp_path), str(tmp_path / "model"), {})
    evaluation = [(f"film {at}", CLASSES[at % 3]) for at in range(30)]
    test = [(f"the film is {at}", CLASSES[at % 3]) for at in range(40)]
    write_examples(tmp_path / "eval.gz", evaluation)
    write_examples(tmp_path / "test.gz", [*test, ("of no class that was learned", "unheard of")])

    def judged(**given) -> Verdict:
        return evaluate(
            beam.Pipeline,
            get_task("classification"),
            EvaluationConfig(thresholds={"accuracy": 0.0}, length_slices=()),
            model=str(tmp_path / "model"),
            baseline=None,
            examples=[str(tmp_path / "eval.gz")],
            output=str(tmp_path / f"output {len(given)}"),
            labels=CLASSES,
            text_keys=("text",),
            **given,
        )

    verdict = judged(test=[str(tmp_path / "test.gz")])
    kept = EvaluationPredictions.read(tmp_path / "output 1" / "test")
    assert len(kept) == 41 and verdict.test_rows == 40
    assert {name: found["value"] for name, found in verdict.test.items()} == pytest.approx(scores(kept), abs=1e-6)
    low, value, high = (verdict.test["accuracy"][end] for end in ("low", "value", "high"))
    assert low <= value <= high and low < high
    assert verdict.blessed and OVERALL not in verdict.slices
    assert verdict.metrics["rows"] == 30 and len(EvaluationPredictions.read(tmp_path / "output 1")) == 30
    assert Verdict.from_json(verdict.to_json()) == verdict
