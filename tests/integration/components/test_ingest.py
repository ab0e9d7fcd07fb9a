"""Ingestion on Beam: what it writes is what TFX's own steps read, equal for equal input, and its errors stay plain."""

from __future__ import annotations

import bz2
import json
from pathlib import Path

import apache_beam as beam
import pytest
import tensorflow as tf
import tensorflow_data_validation as tfdv
from tfx.components.statistics_gen.component import StatisticsGen
from tfx.orchestration import metadata, pipeline
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.types import standard_artifacts

from bertline.components.ingest import executor as run
from bertline.components.ingest.component import Ingest
from bertline.components.ingest.executor import ingest, make_example
from bertline.components.ingest.files import digest, find_files
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.orchestration.beam import beam_args
from bertline.pipeline.settings.loader import load

BEAM_ARGS = ["--direct_running_mode=in_memory", "--direct_num_workers=1"]


def make_pipeline() -> beam.Pipeline:
    return beam.Pipeline(argv=BEAM_ARGS)


def write_rows(path: Path, count: int = 60, extra: str = "") -> Path:
    """Rows with a line end inside the text, sorted by class as real files often are."""
    labels = ["good" if at < count / 2 else "bad" for at in range(count)]
    rows = [f'"text number {at},\nof {path.stem}",{label},m{at % 3}' for at, label in enumerate(labels)]
    path.write_text("\n".join(["text,label,movie", *rows, extra]))
    return path


@pytest.fixture
def job_service():
    """Beam's own service for jobs, as one of Flink or Spark stands at an endpoint; its workers are in this process."""
    from apache_beam.runners.portability.local_job_service import LocalJobServicer

    service = LocalJobServicer(None)
    port = service.start_grpc_server(0)
    yield f"localhost:{port}"
    service.stop()


def test_workers_behind_a_job_endpoint_write_the_same_files(job_service, tmp_path):
    data = DataConfig(path=str(write_rows(tmp_path / "a.csv").with_name("*.csv")), split={"eval_fraction": 0.3})
    write_rows(tmp_path / "b.csv")
    settings = ["beam.runner=portable", f"beam.endpoint={job_service}", "beam.args=['--environment_type=LOOPBACK']"]
    told = beam_args(load("reviews", settings), None)
    found = {}
    for name, arguments in (("here", BEAM_ARGS), ("there", told)):
        folder = tmp_path / name
        uris = (str(folder / "ex"), str(folder / "report"))
        report = ingest(lambda told=arguments: beam.Pipeline(argv=told), data, ("movie",), *uris)
        found[name] = (report, *(records_of(folder, split) for split in ("train", "eval")))
    assert found["here"] == found["there"] and len(found["here"][1]) > 60


def run_ingest(data: DataConfig, folder: Path, slices=("movie",)) -> dict:
    return ingest(
        make_pipeline, data, slices, str(folder / "ex"), str(folder / "report"), str(folder / "keep" / "bad.jsonl")
    )


def records_of(folder: Path, split: str) -> list[bytes]:
    files = sorted(str(path) for path in (folder / "ex" / f"Split-{split}").iterdir())
    return [record.numpy() for record in tf.data.TFRecordDataset(files, "GZIP")]


def features_of(record: bytes) -> dict:
    features = tf.train.Example.FromString(record).features.feature
    return {name: list(value.bytes_list.value or value.int64_list.value) for name, value in features.items()}


def test_rows_become_examples_and_every_row_is_accounted_for(tmp_path):
    extra = 'too,many,columns,here\n,good,m1\n"no label",,m2\n"spoiler",plot,m1\n'
    path = write_rows(tmp_path / "a.csv", extra=extra)
    data = DataConfig(path=str(path), exclude={"label": ["plot"]}, max_bad_fraction=0.1, split={"eval_fraction": 0.3})
    report = run_ingest(data, tmp_path)
    examples = {split: [features_of(record) for record in records_of(tmp_path, split)] for split in ("train", "eval")}

    assert report == json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["rows"] == 64 and report["excluded"] == 1 and report["quarantined"] == 1
    assert report["kept"] == {split: len(found) for split, found in examples.items()}
    assert sum(report["kept"].values()) == 62
    assert report["reasons"] == {"wrong number of columns": 1}
    assert report["incomplete"] == {
        "empty text": {"rows": 1, "first": [f"{path}:123"]},
        "missing label": {"rows": 1, "first": [f"{path}:124"]},
    }
    everything = examples["train"] + examples["eval"]
    assert {"text": [b"text number 7,\nof a"], "label": [b"good"], "words": [5], "movie": [b"m1"]} in everything
    assert {"label": [b"good"], "words": [0], "movie": [b"m1"]} in everything
    assert {"text": [b"no label"], "words": [2], "movie": [b"m2"]} in everything
    for copy in (tmp_path / "report" / "quarantine.jsonl", tmp_path / "keep" / "bad.jsonl"):
        (bad,) = map(json.loads, copy.read_text().splitlines())
        assert bad["row"] == "too,many,columns,here" and (bad["file"], bad["line"]) == (str(path), 122)


def test_equal_input_gives_equal_files_in_a_shuffled_order(tmp_path):
    for name in ("a", "b", "c"):
        write_rows(tmp_path / f"{name}.csv")
    data = DataConfig(path=str(tmp_path / "*.csv"))
    for attempt in ("one", "two"):
        run_ingest(data, tmp_path / attempt)
    for split in ("train", "eval"):
        (one,), (two,) = ((tmp_path / attempt / "ex" / f"Split-{split}").iterdir() for attempt in ("one", "two"))
        assert one.name == two.name == "data_tfrecord-00000-of-00001.gz"
        assert one.read_bytes() == two.read_bytes()
    labels = [features_of(record)["label"][0] for record in records_of(tmp_path / "one", "train")]
    changes = sum(before != after for before, after in zip(labels, labels[1:], strict=False))
    assert changes > len(labels) / 4  # in the order of the files there would be five


def test_larger_input_is_spread_over_shards_with_the_same_rows(tmp_path, monkeypatch):
    data = DataConfig(path=str(write_rows(tmp_path / "a.csv", 200)))
    run_ingest(data, tmp_path / "one")
    monkeypatch.setattr(run, "SHARD_BYTES", 2000)
    run_ingest(data, tmp_path / "many")
    names = sorted(path.name for path in (tmp_path / "many" / "ex" / "Split-train").iterdir())
    assert len(names) > 2 and all(name.endswith(f"-of-{len(names):05d}.gz") for name in names)
    for split in ("train", "eval"):
        assert sorted(records_of(tmp_path / "many", split)) == sorted(records_of(tmp_path / "one", split))


def test_the_quarantine_is_bounded_and_the_counts_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "MAX_QUARANTINED", 5)
    path = write_rows(tmp_path / "a.csv", extra="bad\n" * 30)
    report = run_ingest(DataConfig(path=str(path), max_bad_fraction=1), tmp_path)
    lines = [json.loads(line)["line"] for line in (tmp_path / "keep" / "bad.jsonl").read_text().splitlines()]
    assert report["quarantined"] == 30 and lines == [122, 123, 124, 125, 126]


def test_too_many_bad_rows_leave_the_quarantine_where_the_error_says(tmp_path):
    path = write_rows(tmp_path / "a.csv", extra="bad\n" * 30)
    with pytest.raises(BertlineError) as error:
        run_ingest(DataConfig(path=str(path)), tmp_path)
    kept = tmp_path / "keep" / "bad.jsonl"
    assert f"{path}:122: 1 columns where 3 belong" in str(error.value) and str(kept) in str(error.value)
    assert len(kept.read_text().splitlines()) == 30
    write_rows(path)
    run_ingest(DataConfig(path=str(path)), tmp_path)
    assert not kept.exists()  # the mended run must not seem to have bad rows


def test_a_file_that_breaks_off_stops_the_pipeline_though_few_rows_are_bad(tmp_path):
    whole = bz2.compress(write_rows(tmp_path / "a.csv", 60_000).read_bytes(), 1)
    path = tmp_path / "a.csv.bz2"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BertlineError, match="a.csv.bz2: cannot be read to its end"):
        run_ingest(DataConfig(path=str(path)), tmp_path)


def test_equal_features_give_equal_bytes():
    assert make_example({"a": "x", "b": 1}) == make_example({"b": 1, "a": "x"})


def run_line(data: DataConfig, folder: Path) -> None:
    step = Ingest(
        data=data.model_dump_json(),
        slices=json.dumps(["movie"]),
        inputs=digest(data),
        code="fingerprint",
        quarantine_path=str(folder / "keep" / "bad.jsonl"),
    )
    line = pipeline.Pipeline(
        pipeline_name="ingest-test",
        pipeline_root=str(folder / "artifacts"),
        components=[step, StatisticsGen(examples=step.outputs["examples"])],
        metadata_connection_config=metadata.sqlite_metadata_connection_config(str(folder / "metadata.db")),
        beam_pipeline_args=BEAM_ARGS,
        enable_cache=True,
    )
    LocalDagRunner().run(line)


def executions(folder: Path) -> dict[str, list[int]]:
    config = metadata.sqlite_metadata_connection_config(str(folder / "metadata.db"))
    with metadata.Metadata(config) as handle:
        found: dict[str, list[int]] = {}
        for execution in handle.store.get_executions():
            step = handle.store.get_execution_types_by_id([execution.type_id])[0].name
            found.setdefault(step.rpartition(".")[2], []).append(execution.last_known_state)
        return found


def test_stock_statistics_read_the_examples_and_new_content_is_read_anew(tmp_path):
    path = write_rows(tmp_path / "a.csv")
    data = DataConfig(path=str(path))
    run_line(data, tmp_path)
    (statistics,) = (tmp_path / "artifacts" / "StatisticsGen" / "statistics").iterdir()
    found = tfdv.load_stats_binary(str(statistics / "Split-train" / "FeatureStats.pb")).datasets[0]
    assert {feature.path.step[0] for feature in found.features} == {"text", "label", "words", "movie"}
    config = metadata.sqlite_metadata_connection_config(str(tmp_path / "metadata.db"))
    with metadata.Metadata(config) as handle:
        (examples,) = handle.store.get_artifacts_by_type(standard_artifacts.Examples.TYPE_NAME)
    assert json.loads(examples.properties["split_names"].string_value) == ["train", "eval"]
    assert examples.custom_properties["payload_format"].string_value == "FORMAT_TF_EXAMPLE"
    assert examples.custom_properties["file_format"].string_value == "tfrecords_gzip"

    run_line(data, tmp_path)
    write_rows(path, 80)
    run_line(data, tmp_path)
    complete, cached = 3, 5
    assert executions(tmp_path)["Ingest"] == [complete, cached, complete]


def test_the_caller_of_the_pipeline_gets_a_plain_error_and_the_quarantine(tmp_path):
    path = write_rows(tmp_path / "a.csv", extra="bad\n" * 30)
    with pytest.raises(BertlineError, match="30 of 90 examples"):
        run_line(DataConfig(path=str(path)), tmp_path)
    assert len((tmp_path / "keep" / "bad.jsonl").read_text().splitlines()) == 30


def test_a_list_is_a_feature_of_as_many_values(tmp_path):
    made = features_of(make_example({"text": "a", "answers": ("é", "b"), "answer_starts": (0, 7), "none": ()}))
    assert made == {"text": [b"a"], "answers": ["é".encode(), b"b"], "answer_starts": [0, 7]}


def test_questions_are_split_by_their_article_and_keep_their_answers(tmp_path):
    text = "Ana left 北京."
    asked = [{"id": f"q{at}", "question": f"Who {at}?", "answers": [{"text": "Ana", "answer_start": 0}]} for at in range(3)]
    articles = [{"title": f"T{at}", "paragraphs": [{"context": f"{text} {at}", "qas": asked}]} for at in range(40)]
    (tmp_path / "a.json").write_text(json.dumps({"data": articles}))
    split = {"group": "title", "eval_fraction": 0.3}
    data = DataConfig(path=str(tmp_path / "a.json"), format="squad", text=("question", "context"), label=None, split=split)
    lists = ("answers", "answer_starts")
    report = ingest(make_pipeline, data, ("title",), str(tmp_path / "ex"), str(tmp_path / "report"), lists=lists)
    sides = [{features_of(record)["title"][0] for record in records_of(tmp_path, split)} for split in ("train", "eval")]
    assert sum(map(len, sides)) == 40 and not sides[0] & sides[1] and report["kept"]["eval"] == 3 * len(sides[1])
    one = features_of(records_of(tmp_path, "eval")[0])
    assert one["answers"] == [b"Ana"] and one["text_2"][0].startswith(text.encode())


def test_parallel_files_become_examples_of_two_texts_and_long_ones_are_left_out_of_training(tmp_path):
    for split, numbers in (("train", range(30)), ("val", range(30, 36))):
        sides = {"en": "a dog of number {}", "de": "ein Hund der Nummer {}"}
        for language, text in sides.items():
            lines = [text.format(at) + " und" * (at % 3 == 0) * (language == "de") * 50 for at in numbers]
            (tmp_path / f"{split}.{language}.bz2").write_bytes(bz2.compress("\n".join(lines).encode()))
    data = DataConfig(
        train=str(tmp_path / "train.en.bz2"),
        eval=str(tmp_path / "val.en.bz2"),
        format="parallel",
        text="en",
        label="de",
        max_word_ratio=9,
    )
    report = ingest(make_pipeline, data, (), str(tmp_path / "ex"), str(tmp_path / "report"), label="text")
    assert report["kept"] == {"train": 20, "eval": 6} and report["left_out"] == {"data.max_word_ratio": 10}
    assert report["labels"] == {"train": {}, "eval": {}} and report["quarantined"] == 0
    assert [Path(path).name for path in report["files"]] == [
        "train.en.bz2", "train.de.bz2", "val.en.bz2", "val.de.bz2"
    ]  # fmt: skip
    found = [features_of(record) for record in records_of(tmp_path, "train")]
    expected = {"text": [b"a dog of number 7"], "label": [b"ein Hund der Nummer 7"], "words": [5], "label_words": [5]}
    assert expected in found


def test_the_size_of_both_parallel_files_counts(tmp_path, monkeypatch):
    (tmp_path / "a.en").write_text("a\n" * 50)
    (tmp_path / "a.de").write_text("b\n" * 50)
    monkeypatch.setattr(run, "SHARD_BYTES", 100)
    data = DataConfig(path=str(tmp_path / "a.en"), format="parallel", text="en", label="de")
    assert run.count_shards(find_files(data)) == 2
