"""Simple baselines through the Evaluator's own function: beside the model, on the rows that TFMA has measured."""

import apache_beam as beam
import numpy as np
import pytest
from test_rows_of_evaluator import write_examples
from tiny_models import CLASSES, Tiny, make

from bertline.components.baselines.data import ids_of, read_examples
from bertline.components.evaluator.executor import evaluate
from bertline.components.evaluator.verdict import Verdict
from bertline.models.tasks.base.task import get_task, raw_features
from bertline.pipeline.config import EvaluationConfig
from bertline.serving.export.saved_model import export


def rows(count):
    return [(f"the film is {CLASSES[row % 3]} {row}", CLASSES[row % 3]) for row in range(count)]


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """(settings) -> the verdict on a model that has learned nothing."""
    folder = tmp_path_factory.mktemp("evaluator")
    export(make(Tiny("classification", ("text",)), folder), str(folder / "model"), {})
    write_examples(folder / "train.gz", rows(90))
    write_examples(folder / "eval.gz", [*rows(150), *rows(3), ("no label", None)])
    raw = raw_features(get_task("classification"), ("text",))
    ids = ids_of(read_examples([str(folder / "eval.gz")], raw), raw)
    np.savez(folder / "probe.npz", ids=np.asarray(ids), predictions=np.full((len(ids), 3), 1 / 3, np.float32))

    def evaluated(**settings):
        return evaluate(
            beam.Pipeline,
            get_task("classification"),
            EvaluationConfig(thresholds={"macro_f1": 0.0}, length_slices=(), **settings),
            model=str(folder / "model"),
            baseline=None,
            examples=[str(folder / "eval.gz")],
            output=str(tmp_path_factory.mktemp("output")),
            labels=CLASSES,
            text_keys=("text",),
            train=[str(folder / "train.gz")],
            probed=str(folder / "probe.npz"),
        )

    return evaluated


def test_a_model_that_counts_no_better_than_words_is_refused(judge):
    verdict = judge()
    assert set(verdict.baselines) == {"majority", "tf-idf", "probe"} and verdict.baseline_seconds > 0
    assert verdict.baseline_notes == []  # every example has met the row that TFMA made of it
    assert next(iter(verdict.baselines["tf-idf"])) == "macro_f1"  # it has a threshold
    assert verdict.baselines["probe"]["accuracy"] == 51 / 153  # it finds all classes alike: the first is its answer
    assert verdict.baselines["tf-idf"]["accuracy"] == 1.0 and verdict.baselines["majority"]["accuracy"] == 51 / 153
    (reason,) = verdict.reasons
    assert (
        not verdict.blessed and "macro_f1" in reason and "1.0000 of the baseline tf-idf on the same 153 examples" in reason
    )
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_baselines_may_be_shown_without_judging_or_not_be_measured(judge):
    shown = judge(must_beat_baselines=False)
    assert shown.blessed and shown.baselines["tf-idf"]["accuracy"] == 1.0
    without = judge(baselines=False)
    assert without.blessed and without.baselines == {} and without.baseline_seconds == 0
