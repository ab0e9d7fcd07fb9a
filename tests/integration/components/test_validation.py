"""The schema from the config, and the gate that stops the pipeline."""

import json
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pytest
import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2
from tfx.components import StatisticsGen
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.metadata import sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline

from bertline.components.ingest.component import Ingest
from bertline.components.ingest.readers.records import Row
from bertline.components.ingest.report import Tally
from bertline.components.ingest.rows import sort_example
from bertline.components.validation.anomalies import Anomaly, explain, validate
from bertline.components.validation.component import DataGate, SchemaFromConfig
from bertline.components.validation.executor import gate, make_schema, read_baseline
from bertline.components.validation.schema import labels_of, read_schema
from bertline.pipeline.config import DataConfig, LabelKind, ValidationConfig
from bertline.pipeline.core import events
from bertline.pipeline.core.errors import AnomaliesError, BertlineError

BOUNDS = ValidationConfig()
DATA = DataConfig(train="train.csv", eval="eval.csv")
SHORT, LONG = "a film that works", "a film that goes on and on " * 9


class Data:
    """Rows as Ingest would count and StatisticsGen would sum them up."""

    def __init__(
        self, data: DataConfig = DATA, kind: LabelKind = "class", **splits: Iterable[tuple[str | None, str | None]]
    ):
        tally, self.statistics = Tally(), {}
        for split, pairs in splits.items():
            features = []
            for line, (text, label) in enumerate(pairs, start=2):
                row = Row(f"{split}.csv", line, {"text": text, "label": label})
                kept = sort_example(row, data, split, (), kind)
                tally.add(row, kept)
                features.append(kept.features)
            self.statistics[split] = tfdv.generate_statistics_from_dataframe(pd.DataFrame(features))
        self.report = json.loads(json.dumps(tally.as_report([])))
        self.schema = make_schema(data, BOUNDS, (), self.report, kind)

    def anomalies(self, since: "Data | None" = None) -> list[Anomaly]:
        baseline = since.statistics if since else {}
        found = validate(self.statistics, self.schema, baseline)
        return explain(found, self.statistics, self.schema, self.report, baseline)


def balanced(rows: int, text: str = SHORT) -> list[tuple[str | None, str | None]]:
    return [(f"{text} {'very ' * (row % 7)}much", ("pos", "neg")[row % 2]) for row in range(rows)]


@pytest.fixture(scope="module")
def clean() -> Data:
    return Data(train=balanced(400), eval=balanced(40))


# The schema


def test_schema_says_what_the_config_says(clean):
    schema = make_schema(DATA, ValidationConfig(label_drift=0.2, length_drift=0.3), ("source",), clean.report)
    text, label, words, source = schema.feature
    assert [feature.name for feature in schema.feature] == ["text", "label", "words", "source"]
    assert (text.type, label.type, words.type, source.type) == (
        schema_pb2.BYTES, schema_pb2.BYTES, schema_pb2.INT, schema_pb2.BYTES,
    )  # fmt: skip
    assert all(feature.presence.min_fraction == 1 for feature in (text, label, words))
    assert not source.HasField("presence")
    assert label.drift_comparator.infinity_norm.threshold == 0.2
    assert words.drift_comparator.jensen_shannon_divergence.threshold == 0.3
    assert not any(feature.HasField("shape") for feature in schema.feature)


def test_classes_are_those_of_the_training_rows_unless_named():
    rows = [("text", "b"), ("text", "a"), ("text", "b")]
    assert list(Data(train=rows, eval=[("text", "c")]).schema.feature[1].string_domain.value) == ["a", "b"]
    named = DataConfig(train="train.csv", eval="eval.csv", labels=("z", "b", "a"))
    assert list(Data(named, train=rows).schema.feature[1].string_domain.value) == ["z", "b", "a"]


def test_no_class_is_lost_where_statistics_keep_a_thousand():
    rows = [("text", f"class-{number % 1500:04d}") for number in range(3000)]
    many = Data(train=rows, eval=[("text", "class-0001"), ("text", "class-1501")])
    assert len(many.schema.feature[1].string_domain.value) == 1500
    assert [anomaly.what.split(" in ")[0] for anomaly in many.anomalies()] == ["class 'class-1501'"]


@pytest.mark.parametrize(("labels", "message"), [(["a", "a"], "only the class 'a'"), ([None, None], "no labels")])
def test_fewer_than_two_classes_to_learn_are_refused(labels, message):
    with pytest.raises(BertlineError, match=message):
        Data(train=[("text", label) for label in labels])


# The anomalies


def test_good_data_has_no_anomaly_alone_or_against_itself(clean):
    assert clean.anomalies() == []
    assert clean.anomalies(since=clean) == []


def test_missing_labels_and_texts_are_counted_with_their_places():
    rows = balanced(1200)
    rows[15] = (SHORT, None)
    rows[100] = rows[200] = (SHORT, "  ")
    rows[300] = (None, "pos")
    label, text = Data(train=rows, eval=balanced(40)).anomalies()
    assert label.split == text.split == "train"
    assert label.what == (
        "missing label in 3 of 1,200 examples (0.25%);"
        " the first of 3 in all splits: train.csv:17, train.csv:102, train.csv:202"
    )
    assert text.what == "empty text in 1 of 1,200 examples (0.08%); the first of 1 in all splits: train.csv:302"
    assert "data.incomplete: quarantine" in label.remedy


def test_a_split_without_any_label_is_told():
    (anomaly,) = Data(train=balanced(40), eval=[(SHORT, None)] * 3).anomalies()
    assert (anomaly.split, anomaly.feature) == ("eval", "label")
    assert "missing label in 3 of 3 examples (100.00%)" in anomaly.what


def test_a_mistyped_class_is_told_with_the_nearest_right_one():
    named = DataConfig(train="train.csv", eval="eval.csv", labels=("positive", "negative"))
    rows = [(SHORT, label) for label in ["positive", "negative"] * 20 + ["postive"] * 2 + ["?"]]
    typo, other = Data(named, train=rows).anomalies()
    assert typo.what == "class 'postive' in 2 of 43 examples is not a known class; the nearest is 'positive'"
    assert other.what == "class '?' in 1 of 43 examples is not a known class; they are positive, negative"
    assert "data.labels" in typo.remedy


def test_a_class_that_training_never_saw_is_told():
    (anomaly,) = Data(train=balanced(40), eval=[*balanced(10), (SHORT, "mixed")]).anomalies()
    assert anomaly.split == "eval" and "class 'mixed' in 1 of 11 examples" in anomaly.what


def test_a_wrong_label_column_does_not_fill_the_screen():
    rows = [(SHORT, f"id-{number}") for number in range(100)]
    anomalies = Data(train=balanced(40), eval=rows).anomalies()
    assert len(anomalies) == 11
    assert anomalies[-1].what == "90 further unknown classes in 90 examples"


def test_label_drift_names_the_class_that_moved_most():
    before = Data(train=[(SHORT, label) for label in ["a"] * 200 + ["b"] * 100 + ["c"] * 100])
    after = Data(train=[(SHORT, label) for label in ["a"] * 80 + ["b"] * 160 + ["c"] * 160])
    (anomaly,) = after.anomalies(since=before)
    assert anomaly.what == (
        "the fraction of class 'a' moved from 50.0% to 20.0% since the last accepted run, by 0.300 where 0.1 is allowed"
    )
    assert "validation.label_drift" in anomaly.remedy


def test_length_drift_is_told_in_words_of_text(clean):
    (anomaly,) = Data(train=balanced(400, LONG)).anomalies(since=clean)
    assert anomaly.feature == "words"
    assert "from a median of 8 words to 67: Jensen-Shannon divergence 1.000 where 0.1 is allowed" in anomaly.what
    assert "validation.length_drift" in anomaly.remedy


def test_drift_of_a_few_rows_says_that_it_may_be_chance(clean):
    (anomaly,) = Data(train=balanced(400), eval=[(text, "pos") for text, _ in balanced(40)]).anomalies(since=clean)
    assert "with 40 examples it may be chance" in anomaly.what


def test_a_gap_in_the_baseline_is_no_anomaly(clean):
    assert clean.anomalies(since=Data(train=balanced(400), eval=[(f"{text}", None) for text, _ in balanced(40)])) == []


# Labels that are texts


def translated(rows: int, target: str = "ein Film, der gut ist") -> list[tuple[str | None, str | None]]:
    return [(f"{text} {row}", f"{target} {'sehr ' * (row % 5)}{row}") for row, (text, _) in enumerate(balanced(rows))]


def test_a_text_to_be_written_is_required_and_no_class():
    good = Data(kind="text", train=translated(400), eval=translated(40))
    label = next(feature for feature in good.schema.feature if feature.name == "label")
    assert label.presence.min_fraction == 1 and label.type == schema_pb2.BYTES
    assert not label.HasField("string_domain") and not label.HasField("drift_comparator")
    assert good.anomalies() == good.anomalies(since=good) == []
    assert Data(kind="text", train=[("a dog", "ein Hund")] * 40).anomalies() == []  # nor is one text too few


def test_missing_targets_are_told_once_with_their_places():
    rows = translated(400)
    rows[7] = (SHORT, None)
    (anomaly,) = Data(kind="text", train=rows, eval=translated(40)).anomalies()
    assert anomaly.what == "missing target text in 1 of 400 examples (0.25%); the first of 1 in all splits: train.csv:9"
    (anomaly,) = Data(kind="text", train=translated(40), eval=[(SHORT, None)] * 3).anomalies()
    assert (anomaly.split, anomaly.feature) == ("eval", "label") and "in 3 of 3 examples" in anomaly.what


def test_targets_drift_by_their_lengths_alone():
    before = Data(kind="text", train=translated(400))
    assert Data(kind="text", train=translated(400, "noch mehr, das anders heißt")).anomalies(since=before) == []
    (anomaly,) = Data(kind="text", train=translated(400, "und so weiter " * 20)).anomalies(since=before)
    assert anomaly.feature == "label_words" and "validation.length_drift" in anomaly.remedy
    assert "the lengths of the target texts moved since the last accepted run, from a median of 8 words to" in anomaly.what


# The gate


def pass_gate(data: Data, tmp_path: Path, allow: bool = False) -> dict:
    (tmp_path / "out").mkdir(exist_ok=True)
    gate(
        data.statistics,
        data.schema,
        data.report,
        allow_anomalies=allow,
        baseline_folder=tmp_path / "baseline",
        folder=tmp_path / "out",
    )
    return json.loads((tmp_path / "out" / "report.json").read_text())


def test_a_refused_run_leaves_the_baseline_as_it_was(clean, tmp_path):
    assert pass_gate(clean, tmp_path) == {"anomalies": [], "allowed": False, "drift": []}
    assert (tmp_path / "out" / "report.txt").read_text() == "No anomalies.\n"
    before = (tmp_path / "baseline" / "statistics.pb").read_bytes()
    with pytest.raises(AnomaliesError, match="(?s)text lengths moved.*--allow-anomalies") as refused:
        pass_gate(Data(train=balanced(400, LONG), eval=balanced(40)), tmp_path)
    assert refused.value.judgement["refused"]
    assert [found["feature"] for found in refused.value.judgement["anomalies"]] == ["words"]
    assert (tmp_path / "baseline" / "statistics.pb").read_bytes() == before
    assert [path.name for path in (tmp_path / "baseline").iterdir()] == ["statistics.pb"]


def test_an_allowed_run_is_recorded_and_becomes_the_baseline(clean, tmp_path):
    pass_gate(clean, tmp_path)
    longer, notes = Data(train=balanced(400, LONG), eval=balanced(40)), []
    with events.listening(notes.append):
        record = pass_gate(longer, tmp_path, allow=True)
    assert record["allowed"] and [anomaly["feature"] for anomaly in record["anomalies"]] == ["words"]
    assert "text lengths moved" in (tmp_path / "out" / "report.txt").read_text()
    assert "they were allowed" in notes[0].text
    drift = {(found["split"], found["feature"]): found for found in record["drift"]}
    assert set(drift) == {(split, name) for split in ("train", "eval") for name in ("label", "words")}
    assert drift["train", "words"]["value"] > drift["train", "words"]["bound"] == 0.1
    assert drift["train", "words"]["measure"] == "Jensen-Shannon divergence" and drift["eval", "words"]["value"] == 0
    again = pass_gate(longer, tmp_path)
    assert again["anomalies"] == [] and not again["allowed"] and {found["value"] for found in again["drift"]} == {0}
    assert set(read_baseline(tmp_path / "baseline")) == {"train", "eval"}


# The components, in a real line


def run_line(tmp_path: Path, rows: list[tuple[str | None, str | None]], inputs: str, allow: bool = False) -> None:
    path = tmp_path / "rows.csv"
    lines = ["text,label", *(f"{text or ''} {number},{label or ''}" for number, (text, label) in enumerate(rows))]
    path.write_text("\n".join(lines))
    data = DataConfig(path=str(path)).model_dump_json()
    ingest = Ingest(data=data, slices="[]", inputs=inputs, code="", quarantine_path=str(tmp_path / "bad.jsonl"))
    statistics = StatisticsGen(examples=ingest.outputs["examples"])
    report = ingest.outputs["report"]
    schema = SchemaFromConfig(report=report, data=data, validation="{}", slices="[]", code="")
    validator = DataGate(
        statistics=statistics.outputs["statistics"],
        schema=schema.outputs["schema"],
        report=report,
        validation=json.dumps({"allow_anomalies": allow}),
        baseline_path=str(tmp_path / "baseline"),
        code="",
    ).with_id("ExampleValidator")
    LocalDagRunner().run(
        Pipeline(
            pipeline_name="gate",
            pipeline_root=str(tmp_path / "artifacts"),
            components=[ingest, statistics, schema, validator],
            metadata_connection_config=sqlite_metadata_connection_config(str(tmp_path / "metadata.db")),
            enable_cache=True,
            beam_pipeline_args=["--direct_running_mode=in_memory", "--direct_num_workers=1"],
        )
    )


def test_the_pipeline_stops_at_an_anomaly_and_goes_on_when_it_is_allowed(tmp_path):
    broken = [*balanced(60), (SHORT, None)]
    with pytest.raises(BertlineError, match=r"missing label in 1 of .*rows\.csv:62"):
        run_line(tmp_path, broken, "1")
    assert not (tmp_path / "baseline").exists()

    run_line(tmp_path, broken, "1", allow=True)
    artifacts = tmp_path / "artifacts"
    (schema,) = artifacts.glob("SchemaFromConfig/schema/*/schema.pbtxt")  # the second run took it from the cache
    assert labels_of(str(schema)) == ["neg", "pos"] and len(read_schema(str(schema)).feature) == 3
    (record,) = artifacts.glob("ExampleValidator/anomalies/*/report.json")
    assert json.loads(record.read_text())["allowed"]
    found = {
        split: anomalies_pb2.Anomalies.FromString((record.parent / f"Split-{split}" / "SchemaDiff.pb").read_bytes())
        for split in ("train", "eval")
    }
    assert sorted(name for anomalies in found.values() for name in anomalies.anomaly_info) == ["label"]
    assert set(read_baseline(tmp_path / "baseline")) == {"train", "eval"}


def test_text_alone_has_a_schema_without_labels_and_no_anomaly_for_it():
    data = Data(DATA.model_copy(update={"label": None}), train=[(SHORT, None)] * 40, eval=[(SHORT, None)] * 10)
    assert [feature.name for feature in data.schema.feature] == ["text", "words"]
    assert data.anomalies() == []
