"""Splits that one can trust, by Ingest's own pipeline: classes on both sides, no text of the evaluation in training."""

from __future__ import annotations

import csv
import random
from collections import Counter
from pathlib import Path

import apache_beam as beam
import pytest
import tensorflow as tf

from bertline.components.ingest import executor as run
from bertline.components.ingest.executor import ingest
from bertline.components.ingest.report import Tally
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError

Rows = list[tuple[str, str]]


def make_pipeline() -> beam.Pipeline:
    return beam.Pipeline(argv=["--direct_running_mode=in_memory", "--direct_num_workers=1"])


def write(path: Path, rows: Rows) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return str(path)


def split(folder: Path, data: DataConfig, label="class") -> tuple[dict, dict[str, Rows]]:
    """The report, and the rows of each side in the order of its files."""
    uris = folder / "examples", folder / "report"
    report = ingest(make_pipeline, data, (), *map(str, uris), label=label)
    found: dict[str, Rows] = {}
    for side in ("train", "eval"):
        files = sorted(map(str, (uris[0] / f"Split-{side}").glob("*")))
        found[side] = []
        digests = Tally()
        for record in tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator():
            digests.add_example(side, record)
            features = tf.train.Example.FromString(record).features.feature
            text, labels = ([value.decode() for value in features[name].bytes_list.value] for name in ("text", "label"))
            found[side].append((text[0], ";".join(labels)))
        # What is told of a side is what is in its files, whatever has changed sides or was left out.
        assert report["kept"][side] == len(found[side])
        assert report["labels"][side] == Counter(
            name for _, labels in found[side] for name in filter(None, labels.split(";"))
        )
        assert report["digests"][side] == digests.as_report([])["digests"][side]
    assert sum(report["kept"].values()) == report["rows"] - report["excluded"] - report["quarantined"]
    return report, found


def skewed(common: int = 495, rare: int = 5) -> Rows:
    return [(f"text {number}", "rare" if number < rare else "common") for number in range(common + rare)]


def test_one_row_in_a_hundred_is_enough_to_be_trained_on_and_evaluated(tmp_path):
    report, found = split(tmp_path, DataConfig(path=write(tmp_path / "a.csv", skewed())))
    assert report["labels"]["eval"]["rare"] == 1 and report["labels"]["train"]["rare"] == 4
    assert 45 <= report["labels"]["eval"]["common"] <= 54
    (note,) = report["notes"]
    assert "1 class has fewer than 10 evaluation examples" in note and "rare (1)" in note


def test_classes_of_one_row_are_trained_on_and_named(tmp_path):
    rows = [(f"text {number}", f"class {number % 30}") for number in range(600)]
    rows += [(f"single {number}", f"single {number}") for number in range(10)]
    report, found = split(tmp_path, DataConfig(path=write(tmp_path / "a.csv", rows)))
    assert set(report["labels"]["train"]) == {label for _, label in rows}
    assert set(report["labels"]["eval"]) == {f"class {number}" for number in range(30)}
    assert set(report["labels"]["eval"].values()) == {2} and report["moved"]
    assert "10 classes have fewer than 3 different texts" in report["notes"][0]
    assert "single 0, single 1, single 2, single 3, single 4 and 5 more" in report["notes"][0]


def test_the_same_rows_are_split_alike_whatever_their_order_and_files_and_shards(tmp_path, monkeypatch):
    rows = [(f"text {number}", f"class {number % 17}") for number in range(400)] + skewed(90, 8)
    _, one = split(tmp_path / "one", DataConfig(path=write(tmp_path / "all.csv", rows)))
    random.Random(1).shuffle(rows)
    for part in range(3):
        write(tmp_path / f"part{part}.csv", rows[part::3])
    monkeypatch.setattr(run, "SHARD_BYTES", 1000)
    _, many = split(tmp_path / "many", DataConfig(path=str(tmp_path / "part*.csv")))
    assert len(list((tmp_path / "many" / "examples" / "Split-train").iterdir())) > 2
    for side in ("train", "eval"):
        assert sorted(one[side]) == sorted(many[side])


def test_without_stratifying_the_hash_alone_decides(tmp_path):
    path = write(tmp_path / "a.csv", skewed())
    report, found = split(tmp_path, DataConfig(path=path, split={"stratify": False}))
    assert report["labels"]["eval"].get("rare", 0) == 0 and not report["moved"] and not report["rare"]


def test_several_classes_a_row_are_split_alike(tmp_path):
    chance = random.Random(0)
    names = {"often": 0.5, "seldom": 0.02, "hardly": 0.008}
    rows = [(f"text {at}", ",".join(name for name, share in names.items() if chance.random() < share)) for at in range(600)]
    report, _ = split(tmp_path, DataConfig(path=write(tmp_path / "a.csv", rows)), "classes")
    totals = Counter(name for _, labels in rows for name in filter(None, labels.split(",")))
    for name, count in totals.items():
        assert report["labels"]["eval"][name] == pytest.approx(0.1 * count, rel=0.1, abs=1)


def test_a_row_that_changes_to_training_may_be_too_long_for_it(tmp_path):
    rows = [(f"text {number}", "ab"[number % 2]) for number in range(50)]
    rows += [(f"w{number} " * 30, "long") for number in range(2)]
    report, found = split(
        tmp_path, DataConfig(path=write(tmp_path / "a.csv", rows), max_words=20, split={"eval_fraction": 0.6})
    )
    assert "long" not in report["labels"]["eval"] and report["left_out"] == {"data.max_words": 2}


REPEATED = [("Good film!", "x"), ("good  FILM", "y"), ("Bad film", "y")]


def test_training_rows_with_the_text_of_an_evaluation_example_are_left_out_and_counted(tmp_path):
    train = [*REPEATED, *((f"text {number}", "xy"[number % 2]) for number in range(20))]
    evaluation = [("good film", "x"), ("other", "y")]
    data = DataConfig(train=write(tmp_path / "train.csv", train), eval=write(tmp_path / "eval.csv", evaluation))
    report, found = split(tmp_path / "remove", data)
    assert sorted(found["eval"]) == sorted(evaluation) and sorted(found["train"]) == sorted(train[2:])
    assert report["left_out"] == {"data.duplicates": 2} and report["excluded"] == 2
    assert any("2 training examples have the text of an evaluation example" in note for note in report["notes"])
    assert any("1 text has different labels" in note for note in report["notes"])
    report, found = split(tmp_path / "keep", data.model_copy(update={"duplicates": "keep"}))
    assert sorted(found["train"]) == sorted(train) and report["left_out"] == {}


def test_near_duplicates_do_not_come_between_the_sides_of_one_file(tmp_path):
    rows = [(text, "xy"[number % 2]) for number in range(100) for text in (f"Text {number}.", f"text {number}")]
    report, found = split(tmp_path, DataConfig(path=write(tmp_path / "a.csv", rows), split={"eval_fraction": 0.3}))
    sides = [{text.lower().strip(".") for text, _ in found[side]} for side in ("train", "eval")]
    assert not sides[0] & sides[1] and report["left_out"]["data.duplicates"] > 10


def test_evaluation_examples_that_hold_all_training_texts_stop_the_run_with_the_reason(tmp_path):
    path = write(tmp_path / "a.csv", skewed(10, 10))
    copied = write(tmp_path / "b.csv", skewed(10, 10))
    with pytest.raises(BertlineError, match="No training examples are left.*data.duplicates"):
        split(tmp_path, DataConfig(train=path, eval=copied))


def test_a_class_whose_training_rows_are_all_duplicates_stops_the_run_with_the_reason(tmp_path):
    train = write(tmp_path / "train.csv", [*skewed(20, 0), ("Lost", "lost"), ("lost!", "lost"), ("other", "other")])
    data = DataConfig(train=train, eval=write(tmp_path / "eval.csv", [("lost", "lost"), ("more", "other")]))
    with pytest.raises(
        BertlineError, match="Every training example of the class 'lost' has the text of an evaluation example"
    ):
        split(tmp_path / "remove", data)
    report, _ = split(tmp_path / "keep", data.model_copy(update={"duplicates": "keep"}))
    assert report["labels"]["train"]["lost"] == 2


def test_groups_stay_together_though_classes_are_skewed(tmp_path):
    rows = [(f"text {number}", "rare" if number < 6 else "common", f"user {number % 40}") for number in range(400)]
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label", "user"), *rows])
    _, found = split(tmp_path, DataConfig(path=str(path), split={"group": "user"}))
    user = {text: name for text, _, name in rows}
    sides = [{user[text] for text, _ in found[side]} for side in ("train", "eval")]
    assert not sides[0] & sides[1] and len(sides[0] | sides[1]) == 40
