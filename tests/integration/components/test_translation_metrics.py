"""BLEU and chrF of two outputs at once, as TFMA measures them on every slice, are sacreBLEU's; so say the kept rows."""

from __future__ import annotations

import json
import math

import apache_beam as beam
import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
import translations
from click.testing import CliRunner
from made_rows import random_predictions
from recorded_runs import Record

from bertline.components.evaluator.executor import evaluate
from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.evaluator.predictions.scores import scores
from bertline.components.evaluator.verdict import Verdict
from bertline.pipeline.cli import main
from bertline.pipeline.config import EvaluationConfig

WORDS = ["the", "CAT", "sat,", "On", "MAT.", "Café", "北京", "🎬", "it's"]


def made(count):
    """Texts, and references that are them in capitals now and then; some rows have no reference, some no text."""
    chance = np.random.default_rng(7)
    rows = []
    for row in range(count):
        words = list(chance.choice(WORDS, size=chance.integers(1, 25)))
        reference = [word.upper() if chance.random() < 0.4 else word for word in words if chance.random() < 0.9]
        rows.append(("" if row % 17 == 3 else " ".join(words), "" if row % 19 == 4 else " ".join(reference) or "a"))
    return rows


def write_examples(path, rows):
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for text, label in rows:
            texts = {"text": text, "label": label, "source": f"web {len(label) % 2}"}
            feature = {
                key: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()])) for key, value in texts.items()
            }
            feature["words"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[len(text.split())]))
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def expected(rows):
    """What the stand-in's two ways to translate are worth."""
    kept = [(text, reference) for text, reference in rows if reference]
    references = [[reference for _, reference in kept]]
    as_it_is, shouted = [text for text, _ in kept], [text.upper() for text, _ in kept]
    tokens = np.asarray([len(reference.encode()) for _, reference in kept])
    sizes = np.asarray([len(text.encode()) for text in as_it_is])
    loss = float(np.average(sizes / 10, weights=tokens))
    return {
        "bleu": sacrebleu.corpus_bleu(as_it_is, references).score,
        "chrf": sacrebleu.corpus_chrf(as_it_is, references).score,
        "greedy_bleu": sacrebleu.corpus_bleu(shouted, references).score,
        "greedy_chrf": sacrebleu.corpus_chrf(shouted, references).score,
        "cross_entropy": loss,
        "perplexity": math.exp(loss),
        "token_accuracy": float(np.average(1 / (1 + sizes), weights=tokens)),
        "rows": len(kept),
    }


@pytest.mark.parametrize("with_baseline", [False, True])
def test_both_outputs_are_measured_on_every_slice_and_from_the_kept_rows(tmp_path, with_baseline):
    model, rows = translations.push(tmp_path / "model"), made(200)
    for number, part in enumerate((rows[:60], rows[60:])):
        write_examples(tmp_path / f"{number}.gz", part)
    verdict = evaluate(
        beam.Pipeline,
        translations.TASK,
        EvaluationConfig(thresholds={"bleu": 1.0, "perplexity": 1e9}, slices=("source",)),
        model=str(model),
        baseline=str(model) if with_baseline else None,
        examples=[str(tmp_path / "*.gz")],
        output=str(tmp_path / "output"),
        labels=(),
        text_keys=("text",),
    )
    wanted = expected(rows)
    assert verdict.blessed, verdict.reasons
    assert verdict.metrics == pytest.approx(wanted, rel=1e-5) and list(verdict.metrics) == list(wanted)
    for name in ("bleu", "chrf", "greedy_bleu", "greedy_chrf"):
        assert verdict.metrics[name] == pytest.approx(wanted[name], abs=1e-9)
    assert len({round(value, 3) for value in wanted.values()}) == 8
    for odd in (0, 1):
        chosen = [row for row in rows if len(row[1]) % 2 == odd]
        assert verdict.slices[f"source=web {odd}"] == pytest.approx(expected(chosen), rel=1e-5)
    if with_baseline:
        assert verdict.baseline_metrics == pytest.approx(verdict.metrics)
    kept = EvaluationPredictions.read(tmp_path / "output")
    assert scores(kept) == pytest.approx({name: value for name, value in wanted.items() if name != "rows"}, rel=1e-5)
    assert sorted(zip((row["text"] for row in kept.texts), kept.label(), strict=True)) == sorted(rows)


def test_two_runs_are_compared_by_their_translations(tmp_path):
    record = Record(tmp_path)
    one, other = random_predictions("translation", 120), random_predictions("translation", 120, seed=4, skill=0.9)
    params = {"task": "translation", "evaluation.thresholds.bleu": "1"}
    names = []
    for name, rows in (("one", one), ("other", other)):
        measured = {**scores(rows), "rows": float(len(rows))}
        verdict = Verdict(blessed=True, reasons=[], metrics=measured, slices={})
        names.append(record.run(name, params=params, verdict=verdict, rows=rows))
    shown = CliRunner().invoke(main, ["compare", *names, "--workspace", str(tmp_path)])
    assert shown.exit_code == 0 and "greedy_chrf" in shown.output, shown.output
    told = CliRunner().invoke(main, ["compare", *names, "--json", "--workspace", str(tmp_path)])
    found = json.loads(told.stdout)
    assert found["notes"] == [] and found["metrics"]["perplexity"]["better"] == "lower"
    change = found["metrics"]["bleu"]["changes"][1]
    assert 0 < change["low"] <= change["difference"] <= change["high"]
    assert change["value"] == pytest.approx(scores(other)["bleu"], abs=1e-9)
    became = {flip["became"] for flip in found["flips"][1]}
    assert became == {"better", "worse"}  # no translation is right or wrong
