"""The Evaluator's rows without TFX: every evaluation example with the candidate's answer, from TFMA's own pipeline."""

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
from tiny_models import CLASSES, Tiny, make

from bertline.components.evaluator.executor import evaluate
from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.evaluator.predictions.scores import scores
from bertline.components.evaluator.predictions.writer import MAX_CHARACTERS
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import EvaluationConfig
from bertline.serving.export.saved_model import ServedModel, export

LONG = "é" * (MAX_CHARACTERS + 1)
ROWS = [(f"a film {row} 🎬", CLASSES[row % 3]) for row in range(150)] + [("bad", "good")] * 2
ODD = [("bad", "bad"), ("no label", None), (LONG, "bad"), (LONG + "!", "bad")]


def write_examples(path, rows):
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for text, label in rows:
            texts = {"text": text, "source": f"naïve {len(text) % 2}", **({"label": label} if label else {})}
            feature = {
                key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()])) for key, value in texts.items()
            }
            feature["words"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[len(text.split())]))
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Two that differ."""
    folder = tmp_path_factory.mktemp("models")
    served = make(Tiny("classification", ("text",)), folder)
    export(served, str(folder / "one"), {})
    kernel = served._model().head.kernel
    kernel.assign(-3 * kernel)
    export(ServedModel(served._task, served._context, served._model()), str(folder / "other"), {})
    return str(folder / "one"), str(folder / "other")


def run(folder, parts, model, baseline=None, **settings):
    """The verdict, and the rows; `parts` are the rows of each file."""
    folder.mkdir()
    for number, part in enumerate(parts):
        write_examples(folder / f"{number}.gz", part)
    verdict = evaluate(
        beam.Pipeline,
        get_task("classification"),
        EvaluationConfig(thresholds={"accuracy": 0.0}, slices=("source",), **settings),
        model=model,
        baseline=baseline,
        examples=[str(folder / "*.gz")],
        output=str(folder / "output"),
        labels=CLASSES,
        text_keys=("text",),
    )
    assert not list((folder / "output").glob("rows-parts*"))
    return verdict, EvaluationPredictions.read(folder / "output")


def test_the_candidates_rows_are_kept_whatever_the_files_and_whether_there_is_a_baseline(models, tmp_path):
    one, other = models
    verdict, rows = run(tmp_path / "alone", [[*ROWS, *ODD]], one, abstain={"precision": 0.99})
    beside, again = run(tmp_path / "beside", [ODD, ROWS[::-1]], one, baseline=other)

    assert len(rows) == len(ROWS) + len(ODD) and rows.ids == again.ids == sorted(set(rows.ids))
    assert rows.texts == again.texts
    np.testing.assert_allclose(rows.prediction(), again.prediction(), atol=1e-5)
    for measured, kept in ((verdict, rows), (beside, again)):
        metrics = {name: value for name, value in measured.metrics.items() if name != "rows"}
        assert scores(kept) == pytest.approx(metrics, rel=1e-6, abs=1e-6)
        assert kept.weight().sum() == measured.metrics["rows"] == len(rows) - 1  # one has no label
        assert set(kept.slices) == set(measured.slices) == {"0-9 words", "source=naïve 0", "source=naïve 1"}
        for name, places in kept.slices.items():
            sliced = {metric: value for metric, value in measured.slices[name].items() if metric != "rows"}
            assert scores(kept.take(places)) == pytest.approx(sliced, rel=1e-6, abs=1e-6)
    assert beside.baseline_metrics["cross_entropy"] != pytest.approx(beside.metrics["cross_entropy"], abs=0.1)

    assert not verdict.blessed and not any("abstain" in reason for reason in beside.reasons)
    assert verdict.reasons[-1].startswith("evaluation.abstain: no confidence reaches a precision of 0.99")

    texts = [row["text"] for row in rows.texts]
    twice = sorted(name for name, text in zip(rows.ids, texts, strict=True) if text == "bad")
    assert len(twice) == 3 and sum(name.endswith("-2") for name in twice) == 1  # with another label it is another row
    assert texts.count(LONG[:MAX_CHARACTERS]) == 2  # told apart by what is not kept
    labels = {row["text"]: CLASSES[label] for row, label in zip(rows.texts, rows.label(), strict=True)}
    assert all(labels[text] == label for text, label in ROWS[:150])


def test_each_model_is_measured_by_its_own_threshold(tmp_path):
    served = make(Tiny("multilabel", ("text",)), tmp_path)
    export(served, str(tmp_path / "low"), {"tuned": {"threshold": 0.4999}})
    export(
        ServedModel(served._task, served._context, served._model()),
        str(tmp_path / "high"),
        {"tuned": {"threshold": 0.9999}},
    )
    write_examples(tmp_path / "rows.gz", ROWS[:9])
    verdict = evaluate(
        beam.Pipeline,
        get_task("multilabel"),
        EvaluationConfig(thresholds={"micro_f1": 0.0}, length_slices=(), decision="tuned"),
        model=str(tmp_path / "low"),
        baseline=str(tmp_path / "high"),
        examples=[str(tmp_path / "rows.gz")],
        output=str(tmp_path / "output"),
        labels=CLASSES,
        text_keys=("text",),
    )
    rows = EvaluationPredictions.read(tmp_path / "output")
    assert rows.description.decision.threshold == 0.4999
    assert verdict.metrics["micro_f1"] == pytest.approx(scores(rows)["micro_f1"]) and verdict.metrics["micro_f1"] > 0
    assert verdict.baseline_metrics["micro_f1"] == 0
    assert verdict.metrics["cross_entropy"] == pytest.approx(verdict.baseline_metrics["cross_entropy"])
    assert verdict.decided["micro_f1_at_threshold"] == pytest.approx(verdict.metrics["micro_f1"])
