"""The page of the data: made of what TFDV really counts, recorded in a real MLflow store, and there before the training."""

import json

import pandas as pd
import pytest
import tensorflow_data_validation as tfdv
from made_data import report_of, reviews
from mlflow import MlflowClient
from pages import Read, assert_accessible, assert_self_contained
from recording import VERDICT, config_in, evaluation, make_store, only_run_of, send, tracked

from bertline.components.reports.data import Data, look
from bertline.pipeline.runs.data_report import DataReport

SPLITS = {"train": reviews(400, texts={row: "a private text" for row in range(5)}), "eval": reviews(60, seed=1)}
CLEAN = {"anomalies": [], "allowed": False, "drift": []}
REFUSED = {
    "anomalies": [
        {"split": "train", "feature": "label", "what": "class 'godo' is unknown", "remedy": "Correct the examples."}
    ],
    "allowed": False,
    "drift": [],
    "refused": True,
}


@pytest.fixture(scope="module")
def statistics():
    return {split: tfdv.generate_statistics_from_dataframe(pd.DataFrame(rows)) for split, rows in SPLITS.items()}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("store"))


class Line:
    """The data steps of a pipeline, as the engine tells of them."""

    def __init__(self, folder, store, statistics, **settings):
        self.config = config_in(folder, store, **settings)
        self.tracker, self.said = tracked(self.config), []
        self.config.home.mkdir(parents=True)
        self.sight = DataReport(self.config, self.said.append)
        self.folder = folder / "artifacts"
        for split, found in statistics.items():
            (self.folder / "statistics" / f"Split-{split}").mkdir(parents=True)
            (self.folder / "statistics" / f"Split-{split}" / "FeatureStats.pb").write_bytes(found.SerializeToString())
        for name, value in (("report", report_of(SPLITS)), ("anomalies", CLEAN)):
            (self.folder / name).mkdir()
            (self.folder / name / "report.json").write_text(json.dumps(value))

    def step(self, name, *outputs):
        folders = {output: str(self.folder / output) for output in outputs}
        self.tracker.keep_outputs(name, folders)
        self.sight.learn_from(name, folders, self.tracker)

    def end(self):
        """The run as MLflow has it, and a way to its files."""
        self.tracker.finish("FINISHED", {})
        assert not any("refused" in line for line in send(self.config))
        run, client = only_run_of(self.config), MlflowClient(self.config.tracking_uri)
        return run, lambda name: open(client.download_artifacts(run.info.run_id, name), "rb").read()


def test_what_is_shown_of_features_is_what_pandas_counts(statistics):
    found = look(report_of(SPLITS), statistics, CLEAN, slices=["source"])
    for split, rows in SPLITS.items():
        frame = pd.DataFrame(rows)
        features = {feature.name: feature for feature in found.features[split]}
        assert set(features) == set(frame)
        for name, column in frame.items():
            assert (features[name].present, features[name].missing) == (column.count(), column.isna().sum())
        assert features["text"].different == frame.text.nunique()
        assert dict(features["source"].most_frequent) == frame.source.value_counts().to_dict()
        words = features["words"].numbers
        assert (words.least, words.most) == (frame.words.min(), frame.words.max())
        assert (words.mean, words.deviation) == pytest.approx((frame.words.mean(), frame.words.std(ddof=0)))
        assert sum(bucket.count for bucket in words.buckets) == pytest.approx(len(frame), rel=0.05)
        assert words.median == pytest.approx(frame.words.median(), abs=1)


def test_the_page_is_there_when_the_data_steps_are_done_and_linked_from_the_run(tmp_path, store, statistics):
    line = Line(tmp_path, store, statistics)
    line.step("Ingest", "report")
    line.step("StatisticsGen", "statistics")
    assert line.said == [] and not (line.config.home / "data.html").exists()
    line.step("ExampleValidator", "anomalies")
    page = (line.config.home / "data.html").read_text()  # before anything is trained, and before MLflow has it
    assert "pipelines/reviews/data.html" in line.said[0]
    assert Read(page).row("good")[1].split() == ["266", "66.5%"] and "Words in the texts of an example, eval" in page
    assert_self_contained(page)
    assert_accessible(page)
    line.step("Evaluator", *evaluation(line.folder / "evaluation"))
    run, file = line.end()
    assert file("data/page.html").decode() == page
    assert Data.model_validate_json(file("data/page.json")).kept == {"train": 400, "eval": 60}
    assert "a private text" in page and b"a private text" in file("data/statistics/train.pb")
    results = file("evaluation/page.html").decode()
    assert_self_contained(results)
    assert "naïve=☕ +" in results and Read(results).row("accuracy")[1] == f"{VERDICT.metrics['accuracy']:.4f}"
    tags, place = run.data.tags, f"#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}/artifacts"
    assert (tags["page.data"], tags["page.evaluation"]) == ("data/page.html", "evaluation/page.html")
    assert tags["mlflow.note.content"] == (
        f"Pages: [data]({place}/data/page.html), [evaluation]({place}/evaluation/page.html)"
    )


def test_data_that_is_refused_has_its_page_with_the_reasons(tmp_path, store, statistics):
    line = Line(tmp_path, store, statistics)
    line.step("Ingest", "report")
    line.step("StatisticsGen", "statistics")
    line.sight.refused(REFUSED, line.tracker)
    _, file = line.end()
    for page in (file("data/page.html").decode(), (line.config.home / "data.html").read_text()):
        assert "the pipeline stopped here" in page and "class &#39;godo&#39; is unknown" in page
    assert Data.model_validate_json(file("data/page.json")).judged == "refused"


def test_no_text_of_the_users_is_in_the_record_of_one_who_does_not_want_it(tmp_path, store, statistics):
    line = Line(tmp_path, store, statistics, **{"tracking.texts": "false"})
    for name, output in (("Ingest", "report"), ("StatisticsGen", "statistics"), ("ExampleValidator", "anomalies")):
        line.step(name, output)
    run, file = line.end()
    assert b"private" not in file("data/page.html") and b"private" not in file("data/page.json")
    files = list((tmp_path / "mlflow-artifacts").rglob("*"))
    assert not any(path.suffix == ".pb" for path in files) and len(files) > 3
    assert "Words in the texts of an example" in file("data/page.html").decode()


def test_a_page_that_cannot_be_made_fails_no_run(tmp_path, store, statistics, caplog):
    line = Line(tmp_path, store, statistics)
    line.step("Ingest", "report")
    line.step("StatisticsGen", "statistics")
    (line.folder / "report" / "report.json").write_text("{")
    line.step("ExampleValidator", "anomalies")
    run, _ = line.end()
    assert line.said == [] and run.info.status == "FINISHED" and "the page of the data" in caplog.text


def test_a_description_that_somebody_wrote_is_left_alone(tmp_path, store, statistics):
    line = Line(tmp_path, store, statistics)
    send(line.config)
    client, run_id = MlflowClient(line.config.tracking_uri), only_run_of(line.config).info.run_id
    client.set_tag(run_id, "mlflow.note.content", "my best one")
    line.tracker.keep_page("data/page.html", "data", "<p>a page</p>")
    run, _ = line.end()
    assert (run.data.tags["mlflow.note.content"], run.data.tags["page.data"]) == ("my best one", "data/page.html")
