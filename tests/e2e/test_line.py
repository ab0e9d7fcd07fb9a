"""What one run leaves behind: the model, the numbers and the record agree with each other."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
import tensorflow_text  # noqa: F401
import tensorflow_transform as tft
from click.testing import CliRunner
from mlflow.tracking import MlflowClient
from pages import Read, assert_accessible, assert_self_contained
from sklearn import metrics as sklearn_metrics

from bertline.components.serve_check.executor import read_samples
from bertline.components.tracking.encoder_run import find_pushing_run
from bertline.pipeline.cli import main
from bertline.serving.contract import read_metadata


@pytest.fixture(scope="module")
def served(finished_line):
    return tf.saved_model.load(finished_line.summary["pushed_path"]).signatures


def records(folder):
    files = tf.io.gfile.glob(f"{folder}/*")
    return [record.numpy() for record in tf.data.TFRecordDataset(files, compression_type="GZIP")]


def raw_rows(line, split):
    """(text, label) of the raw Examples of a split."""
    spec = {name: tf.io.FixedLenFeature([], tf.string) for name in ("text", "label")}
    parsed = tf.io.parse_example(records(line.artifact("Ingest", "examples") / f"Split-{split}"), spec)
    return parsed["text"].numpy().tolist(), parsed["label"].numpy().tolist()


def test_the_summary_tells_everything(finished_line):
    summary = finished_line.summary
    assert summary["status"] == "succeeded" and summary["task"] == "classification" and summary["blessed"] is True
    assert summary["rows"]["read"] == 300 == summary["rows"]["train"] + summary["rows"]["eval"]
    assert summary["metrics"]["accuracy"] > 0.8 > summary["baseline"]["majority"]["accuracy"]
    assert summary["baselines"]["majority"]["accuracy"] <= summary["baseline"]["majority"]["accuracy"]
    assert summary["baselines"]["tf-idf"]["accuracy"] > 0.9 and summary["baseline_seconds"] > 0
    assert "tf-idf: accuracy" in finished_line.printed
    assert summary["pushed_version"] == 1 and summary["mlflow_run_id"] and summary["reasons"] == []
    assert [step["cached"] for step in summary["steps"]] == [False] * 10
    assert summary["serve_check"]["blessed"] and summary["serve_check"]["samples"] == 4
    assert {"source=web", "source=paper", "0-7 words", "8+ words"} == set(summary["slices"])


def test_transform_gives_the_ids_that_the_served_model_gives(finished_line, served):
    """On text with accents, Chinese, emoji, full-width letters and a combining mark."""
    output = tft.TFTransformOutput(str(finished_line.artifact("Transform", "transform_graph")))
    seen = set()
    for split in ("train", "eval"):
        folder = finished_line.artifact("Transform", "transformed_examples") / f"Split-{split}"
        parsed = tf.io.parse_example(records(folder), output.transformed_feature_spec())
        texts, _ = raw_rows(finished_line, split)
        by_text = served["tokenize"](text=tf.constant(texts))
        asked = sorted(
            ids[:length].tolist()
            for ids, length in zip(by_text["token_ids"].numpy(), by_text["lengths"].numpy(), strict=True)
        )
        assert asked == sorted(parsed["token_ids"].to_list())
        seen.update(character for text in texts for character in text.decode())
    assert {"é", "好", "🎬", "Ａ", "\u0301", "\u3000"} <= seen


def test_metrics_are_the_served_models_own(finished_line, served):
    texts, labels = raw_rows(finished_line, "eval")
    answers = served["serving_default"](text=tf.constant(texts))
    accuracy = np.mean(answers["label"].numpy() == np.asarray(labels))
    classes = answers["classes"].numpy()[0].tolist()
    chosen = answers["probabilities"].numpy()[range(len(labels)), [classes.index(label) for label in labels]]
    metrics = finished_line.summary["metrics"]
    assert metrics["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert metrics["cross_entropy"] == pytest.approx(-np.log(chosen).mean(), abs=1e-5)
    given, true = ([label.decode() for label in names] for names in (answers["label"].numpy(), labels))
    assert metrics["matthews"] == pytest.approx(sklearn_metrics.matthews_corrcoef(true, given), abs=1e-6)
    assert metrics["f1"] == pytest.approx(sklearn_metrics.f1_score(true, given, pos_label=classes[1].decode()), abs=1e-6)
    for average in ("macro", "micro"):
        expected = sklearn_metrics.f1_score(true, given, average=average)
        assert metrics[f"{average}_f1"] == pytest.approx(expected, abs=1e-6)
    report = sklearn_metrics.classification_report(true, given, output_dict=True)
    for name, scores in finished_line.summary["classes"].items():
        expected = dict(zip(("precision", "recall", "f1", "rows"), report[name].values(), strict=True))
        assert scores == pytest.approx(expected, abs=1e-6)


def test_company_in_a_batch_never_changes_an_answer(finished_line, served):
    texts, _ = raw_rows(finished_line, "eval")
    together = served["serving_default"](text=tf.constant(texts))["probabilities"].numpy()
    for text, probabilities in zip(texts[:10], together, strict=False):
        alone = served["serving_default"](text=tf.constant([text]))["probabilities"].numpy()[0]
        np.testing.assert_allclose(alone, probabilities, atol=1e-5)


@pytest.mark.parametrize("text", ["", " ", "\x00", "a" * 1_000_000, "好" * 5000])
def test_odd_requests_are_answered(served, text):
    answer = served["serving_default"](text=tf.constant([text, "a plain one"]))
    assert np.isfinite(answer["probabilities"].numpy()).all()
    assert served["serving_default"](text=tf.constant([], tf.string))["label"].shape == (0,)


def test_mlflow_shows_config_curves_slices_and_confusion_matrix(finished_line):
    summary = finished_line.summary
    client = MlflowClient(f"sqlite:///{finished_line.workspace}/mlflow.db")
    run = client.get_run(summary["mlflow_run_id"])
    assert run.info.status == "FINISHED" and run.data.tags["blessed"] == "true" and run.data.tags["pushed_version"] == "1"
    assert run.data.params["training.learning_rate"] == "0.005" and run.data.params["model.num_layers"] == "1"
    losses = client.get_metric_history(run.info.run_id, "train/loss")
    assert [metric.step for metric in losses] == list(range(1, len(losses) + 1)) and len(losses) > 120
    assert len(client.get_metric_history(run.info.run_id, "train/learning_rate")) == len(losses)
    assert len(client.get_metric_history(run.info.run_id, "eval_epoch/accuracy")) == 10
    assert run.data.metrics["eval/accuracy"] == pytest.approx(summary["metrics"]["accuracy"])
    for name, values in summary["slices"].items():
        key = f"slice/{name}/accuracy".replace("=", "_").replace("+", "_")
        assert run.data.metrics[key] == pytest.approx(values["accuracy"])
    assert run.data.metrics["class/good/f1"] == pytest.approx(summary["classes"]["good"]["f1"])
    assert run.data.metrics["baseline/tf-idf/accuracy"] == pytest.approx(summary["baselines"]["tf-idf"]["accuracy"])
    artifacts = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert {"config.json", "verdict.json", "confusion_matrix.png", "learning_curves.png"} <= artifacts


def test_the_page_of_the_data_is_named_before_the_training_and_kept_with_the_run(finished_line):
    path, printed = finished_line.workspace / "pipelines" / "tiny" / "data.html", finished_line.printed
    assert 0 < printed.index(str(path)) < printed.index("epoch 1: evaluation loss")
    page = Read(path.read_text())
    texts, labels = raw_rows(finished_line, "train")
    assert page.row("good")[1].split()[0] == str(labels.count(b"good")) and page.row("for training")[1] == str(len(texts))
    assert page.row("web")[2].split()[0].isdigit()  # of a column that is sliced by
    client = MlflowClient(f"sqlite:///{finished_line.workspace}/mlflow.db")
    tags = client.get_run(finished_line.summary["mlflow_run_id"]).data.tags
    assert (tags["page.data"], tags["page.evaluation"]) == ("data/page.html", "evaluation/page.html")
    assert "/artifacts/data/page.html)" in tags["mlflow.note.content"]


def test_the_report_of_a_run_is_whole_and_agrees_with_what_the_run_left(finished_line, tmp_path):
    told = finished_line.call("report", "--last", "--json", "-o", str(tmp_path / "report.html"))
    found, summary = json.JSONDecoder().raw_decode(told.output)[0], finished_line.summary
    assert found["notes"] == {} and found["head"]["run_id"] == summary["mlflow_run_id"]
    assert {score["metric"]: score["value"] for score in found["results"]["scores"]} == pytest.approx(
        {name: value for name, value in summary["metrics"].items() if name != "rows"}
    )
    assert {part["name"] for part in found["results"]["slices"]} == set(summary["slices"])
    assert found["data"]["kept"] == {split: summary["rows"][split] for split in ("train", "eval")}
    assert [step["name"] for step in found["cost"]["steps"]] == [step["name"] for step in summary["steps"]]
    assert found["cost"]["served"]["median_ms"] == summary["serve_check"]["median_ms"]
    folder = Path(summary["pushed_path"])
    weights = tf.train.load_checkpoint(str(folder / "variables" / "variables"))
    learned = [name for name, kind in weights.get_variable_to_dtype_map().items() if kind.is_floating]
    assert found["model"]["parameters"] == sum(weights.get_tensor(name).size for name in learned)
    assert (found["model"]["sizes"]["layers"], found["model"]["sizes"]["hidden"]) == (1, 32)
    assert found["lineage"]["pushed_digest"] == summary["pushed_digest"]
    assert found["lineage"]["registered"] == [{"name": "tiny", "version": "1", "aliases": ["candidate", "champion"]}]
    page = (tmp_path / "report.html").read_text()
    assert_self_contained(page)
    assert_accessible(page)
    assert Read(page).row("pushed version")[1].startswith("1 ")


def test_the_rarer_class_is_the_positive_one_and_the_answers_are_calibrated(finished_line):
    _, labels = raw_rows(finished_line, "train")
    summary = finished_line.summary
    assert summary["positive"].encode() == min(set(labels), key=labels.count) and "rarer" in summary["positive_why"]
    found = MlflowClient(f"sqlite:///{finished_line.workspace}/mlflow.db").get_run(summary["mlflow_run_id"]).data
    assert found.tags["positive_class"] == summary["positive"] == read_metadata(summary["pushed_path"])["positive"]
    assert found.metrics["decision/ece_before"] == summary["decided"]["ece_before"]
    assert summary["decided_how"]["calibration"][:40] in finished_line.printed


def measured(shares, labels, classes, positive):
    """The numbers of a classifier, by scikit-learn."""
    given = [classes[at] for at in shares.argmax(axis=1)]
    of_positive = {"pos_label": positive, "zero_division": 0}
    return {"accuracy": sklearn_metrics.accuracy_score(labels, given),
             "macro_f1": sklearn_metrics.f1_score(labels, given, average="macro", zero_division=0),
             "micro_f1": sklearn_metrics.f1_score(labels, given, average="micro", zero_division=0),
             "matthews": sklearn_metrics.matthews_corrcoef(labels, given),
             "f1": sklearn_metrics.f1_score(labels, given, **of_positive),
             "precision": sklearn_metrics.precision_score(labels, given, **of_positive),
             "recall": sklearn_metrics.recall_score(labels, given, **of_positive),
             "cross_entropy": sklearn_metrics.log_loss(labels, shares.astype(float), labels=list(classes)),
             "rows": len(labels)}  # fmt: skip


def test_every_metric_in_mlflow_is_tfmas_and_the_pushed_models_own(finished_line, served):
    run = MlflowClient(f"sqlite:///{finished_line.workspace}/mlflow.db").get_run(finished_line.summary["mlflow_run_id"])
    spec = {name: tf.io.FixedLenFeature([], tf.string) for name in ("text", "label", "source")}
    rows = tf.io.parse_example(records(finished_line.artifact("Ingest", "examples") / "Split-eval"), spec)
    shares = served["serving_default"](text=rows["text"])["probabilities"].numpy()
    labels = np.array([label.decode() for label in rows["label"].numpy()])
    words = np.array([len(text.decode().split()) for text in rows["text"].numpy()])
    source = rows["source"].numpy()
    slices = {
        "source_web": source == b"web",
        "source_paper": source == b"paper",
        "0-7 words": words < 8,
        "8_ words": words > 7,
    }
    positive = finished_line.summary["positive"]
    groups = {"eval": words > 0, **{f"slice/{name}": which for name, which in slices.items()}}
    expected = {
        f"{group}/{name}": value
        for group, which in groups.items()
        for name, value in measured(shares[which], labels[which], ("bad", "good"), positive).items()
    }
    scores = sklearn_metrics.precision_recall_fscore_support(
        labels, np.array(["bad", "good"])[shares.argmax(axis=1)], labels=["bad", "good"]
    )
    for name, values in zip(("precision", "recall", "f1", "rows"), scores, strict=True):
        expected |= {f"class/bad/{name}": values[0], f"class/good/{name}": values[1]}
    found = {name: value for name, value in run.data.metrics.items() if name.startswith(("eval/", "slice/", "class/"))}
    assert found == pytest.approx(expected, abs=1e-5)
    by_tfma = tfma.load_eval_result(str(finished_line.artifact("Evaluator", "evaluation"))).slicing_metrics
    overall = next(outputs for key, outputs in by_tfma if key == ())[""][""]
    for name in ("accuracy", "macro_f1", "micro_f1", "matthews", "f1", "cross_entropy", "rows"):
        assert run.data.metrics[f"eval/{name}"] == overall[name]["doubleValue"]


def test_the_run_has_its_data_its_steps_and_a_registered_model(finished_line):
    client, summary = MlflowClient(f"sqlite:///{finished_line.workspace}/mlflow.db"), finished_line.summary
    run = client.get_run(summary["mlflow_run_id"])
    splits = {found.dataset.name: json.loads(found.dataset.profile)["num_rows"] for found in run.inputs.dataset_inputs}
    assert splits == {"tiny train": summary["rows"]["train"], "tiny eval": summary["rows"]["eval"]}
    (trace,) = client.search_traces(locations=[run.info.experiment_id])
    assert sorted(span.name for span in trace.data.spans[1:]) == sorted(step["name"] for step in summary["steps"])
    executions = [run.data.tags[f"mlmd.execution.{step['name']}"] for step in summary["steps"]]
    assert len(set(executions)) == 10
    (version,) = client.search_model_versions("name = 'tiny'")
    assert version.tags["path"] == summary["pushed_path"] and version.run_id == run.info.run_id
    assert client.get_registered_model("tiny").aliases == {"candidate": version.version, "champion": version.version}
    assert not list(finished_line.workspace.glob("tracking/*/journal.jsonl"))


def test_the_pushed_model_brings_evaluation_texts_to_warm_up_with(finished_line):
    evaluation, _ = raw_rows(finished_line, "eval")
    asked = [sample.inputs["text"].item() for sample in read_samples(finished_line.summary["pushed_path"])]
    assert len(asked) == 4 and set(asked) <= set(evaluation) and sorted(asked, key=len) == asked


def test_everything_is_written_under_the_workspace(finished_line):
    assert {path.name for path in finished_line.folder.iterdir()} == {"reviews.csv", "tiny.yaml", "workspace"}


def ask(line, *arguments, stdin=None):
    return CliRunner().invoke(main, ["predict", "--workspace", str(line.workspace), *arguments], input=stdin)


def test_predict_answers_for_a_person_and_for_a_program(finished_line):
    person = ask(finished_line, "a wonderful film", "a dreadful film")
    assert person.exit_code == 0
    first, second = person.output.splitlines()
    assert first.startswith("good ") and second.startswith("bad ")
    program = ask(finished_line, "--json", stdin="a wonderful film 🎬\n\n")
    answers = [json.loads(answer) for answer in program.output.splitlines()]
    assert [answer["text"] for answer in answers] == ["a wonderful film 🎬", ""]
    assert answers[0]["label"] == "good" and sum(answers[0]["probabilities"]) == pytest.approx(1, abs=1e-5)


def test_mask_asks_for_a_pretrained_model(finished_line):
    done = finished_line.call("predict", "--mask", "The [MASK].")
    assert done.exit_code == 1 and "its task is classification, not pretraining" in done.output


def test_predict_without_a_model_says_what_to_do(tmp_path):
    nothing = CliRunner().invoke(main, ["predict", "--workspace", str(tmp_path), "text"])
    assert nothing.exit_code == 1 and "run `bertline run`" in nothing.output
    wrong = CliRunner().invoke(main, ["predict", "--model", str(tmp_path), "text"])
    assert wrong.exit_code == 1 and "no SavedModel here" in wrong.output


def test_lineage_leads_from_a_version_to_all_that_made_it(finished_line):
    summary, workspace = finished_line.summary, str(finished_line.workspace)
    told = CliRunner().invoke(main, ["lineage", "1", "--workspace", workspace])
    assert told.exit_code == 0 and summary["mlflow_run_id"] in told.output and summary["pushed_digest"] in told.output
    found = json.loads(CliRunner().invoke(main, ["lineage", "1", "tiny", "--workspace", workspace, "--json"]).output)
    assert found["card"]["task"] == "classification" and found["card"]["mlflow_run_id"] == summary["mlflow_run_id"]
    assert found["params"]["training.learning_rate"] == "0.005" and len(found["card"]["data_digest"]) == 64
    assert found["metrics"]["accuracy"] == pytest.approx(summary["metrics"]["accuracy"])
    nothing = CliRunner().invoke(main, ["lineage", "7", "--workspace", workspace])
    assert nothing.exit_code == 1 and "there is no version 7; there are 1." in nothing.output
    metadata = found["card"]
    run, problem = find_pushing_run(found["mlflow_uri"], None, metadata["digest"])  # of metadata without a run
    assert run.info.run_id == summary["mlflow_run_id"] and problem is None
    assert find_pushing_run(found["mlflow_uri"], None, "another")[0] is None
    assert "no MLflow store" in find_pushing_run("sqlite:////nowhere/mlflow.db", None, metadata["digest"])[1]


def test_the_scores_while_training_are_the_evaluators(finished_line):
    pairs = finished_line.scores_while_training()
    assert set({"accuracy", "f1", "macro_f1", "micro_f1", "matthews"}) <= set(pairs)
    assert all(one == pytest.approx(other, abs=1e-6) for one, other in pairs.values()), pairs


def test_the_kept_rows_give_the_evaluators_metrics(finished_line):
    assert finished_line.rows_agree()
