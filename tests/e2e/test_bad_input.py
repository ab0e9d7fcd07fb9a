"""Every mistake in the input ends in one clear sentence, a non-zero exit, and nothing half done."""

import json

import pytest
from crafted_parquet import write_crafted
from lines import ALONE, Line, make_rows, write_config, write_csv


@pytest.fixture
def line(tmp_path):
    return Line(tmp_path)


def refusal(line, *arguments):
    """The error of a run that must fail, after checking that it left nothing behind."""
    result = line.run(*arguments)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output and result.output.count("error: ") == 1
    assert not list(line.workspace.glob("models/*/*"))
    artifacts = line.workspace / "pipelines" / "tiny" / "artifacts"
    finished = {step["name"] for step in line.summary.get("steps", [])}
    files = [path.relative_to(artifacts) for path in artifacts.rglob("*") if path.is_file()]
    assert [path for path in files if path.parts[0] not in finished] == []
    assert line.summary["status"] == "failed" and line.summary["error"]
    return result.output[result.output.index("error: ") :]


def rewrite(line, change, encoding="utf-8"):
    path = line.folder / "reviews.csv"
    path.write_bytes(change(path.read_text(encoding="utf-8")).encode(encoding))


def test_missing_file(line):
    (line.folder / "reviews.csv").unlink()
    assert "reviews.csv" in refusal(line)


def test_empty_file(line):
    (line.folder / "reviews.csv").write_bytes(b"")
    message = refusal(line)
    assert "reviews.csv" in message and "empty" in message


def test_wrong_column_names_the_nearest(line):
    write_config(line.folder, data={"label": "lable"})
    assert "there is no column 'lable'; did you mean 'label'?" in refusal(line)


def test_latin_1_bytes_name_file_line_and_remedy(line):
    rewrite(line, lambda text: "".join(c if ord(c) < 256 else "x" for c in text), "latin-1")
    message = refusal(line)
    assert "reviews.csv" in message and "data.encoding" in message and "line" in message


def test_parquet_that_carries_code_is_refused_and_not_run(line):
    write_crafted(line.folder / "reviews.parquet", line.folder / "it-ran", {"text": ["a b"] * 9, "label": ["x"] * 9})
    write_config(line.folder, data={"path": "reviews.parquet"})
    message = refusal(line)
    assert "reviews.parquet" in message and "pickled Python code" in message
    assert not (line.folder / "it-ran").exists()


def test_one_class_only(line):
    write_csv(line.folder / "reviews.csv", [{**row, "label": "good"} for row in make_rows(50)])
    message = refusal(line)
    assert "good" in message and "class" in message


def test_a_label_typo_stops_the_pipeline_before_training(line):
    write_config(line.folder, data={"labels": ["good", "bad"]})
    rows = make_rows()
    rows[7]["label"] = "godo"
    write_csv(line.folder / "reviews.csv", rows)
    message = refusal(line)
    assert "godo" in message and "good" in message and "--allow-anomalies" in message
    assert "Transform" not in {step["name"] for step in line.summary["steps"]}
    page = (line.workspace / "pipelines" / "tiny" / "data.html").read_text()
    assert "the pipeline stopped here" in page and "class &#39;godo&#39;" in page
    told = line.call("report", "--last", "-o", str(line.folder / "report.html")).output
    assert "failed at ExampleValidator" in told and "class 'godo' in 1 of" in told
    assert "the pipeline stopped here" in (line.folder / "report.html").read_text()


@pytest.mark.full
def test_an_allowed_anomaly_is_recorded_and_its_row_has_no_weight(line):
    write_config(line.folder, data={"labels": ["good", "bad"]}, evaluation={"thresholds": {"accuracy": 0.1}}, **ALONE)
    rows = make_rows()
    for row in rows[:40]:
        row["label"] = "godo"
    write_csv(line.folder / "reviews.csv", rows)
    assert line.run("--allow-anomalies").exit_code == 0
    summary = line.summary
    assert summary["anomalies_allowed"] is True and summary["metrics"]["rows"] < summary["rows"]["eval"]


def test_nan_labels_and_empty_texts_are_told_by_place(line):
    rows = make_rows()
    lines = [json.dumps({"text": r["text"], "label": r["label"], "source": r["source"]}) for r in rows]
    lines[4] = json.dumps({"text": "a film", "label": float("nan"), "source": "web"})
    lines[9] = json.dumps({"text": "  ", "label": "good", "source": "web"})
    (line.folder / "reviews.jsonl").write_text("\n".join(lines) + "\n")
    write_config(line.folder, data={"path": "reviews.jsonl"})
    message = refusal(line)
    assert "reviews.jsonl:5" in message and "reviews.jsonl:10" in message and "data.incomplete" in message


def test_a_fault_of_ours_points_to_the_log(line, monkeypatch):
    from bertline.pipeline.orchestration import runner as engine

    def fail(*_):
        raise ZeroDivisionError("deep inside")

    monkeypatch.setattr(engine, "why_again", fail)
    result = line.run()
    assert result.exit_code == 1 and "ZeroDivisionError: deep inside" in result.output
    (log,) = (line.workspace / "logs").iterdir()
    assert log.name in result.output and "Traceback" in log.read_text()
