"""Plots and tables of evaluation examples: what they say is scikit-learn's, and they are drawn for every task."""

import io
import json
from xml.etree import ElementTree

import numpy as np
import pytest
from made_rows import CLASSES, TASKS, make, random_predictions
from sacrebleu import corpus_bleu, corpus_chrf
from sklearn import metrics as sklearn_metrics

from bertline.components.evaluator.predictions.curves import calibration, mean_curve, precision_recall, roc
from bertline.components.evaluator.predictions.error_records import MAX_CHARACTERS, error_json
from bertline.components.evaluator.predictions.outcomes import worst
from bertline.components.evaluator.predictions.plots import draw_plots, roc_curves
from bertline.components.evaluator.predictions.translation_plots import groups_by_length
from bertline.components.reports.timeline import timeline

CURVES = {"precision_recall.png", "roc.png", "reliability.png"}
NUMBERS = {"predicted_and_true.png"}
TRANSLATIONS = {"scores_by_length.png", "lengths_of_translations.png"}


@pytest.mark.parametrize("digits", [1, 9])
def test_areas_and_lines_are_scikit_learns_also_where_shares_are_equal(digits):
    chance = np.random.default_rng(digits)
    true = chance.random(300) < 0.3
    shares = np.round(np.clip(0.3 * true + chance.random(300) * 0.7, 0, 1), digits)
    found = roc(true, shares)
    assert found.area == pytest.approx(sklearn_metrics.roc_auc_score(true, shares))
    expected = sklearn_metrics.roc_curve(true, shares, drop_intermediate=False)
    np.testing.assert_allclose((found.x, found.y), expected[:2])
    found = precision_recall(true, shares)
    assert found.area == pytest.approx(sklearn_metrics.average_precision_score(true, shares))
    precision, recall, _ = sklearn_metrics.precision_recall_curve(true, shares)
    np.testing.assert_allclose((found.x, found.y), (recall[::-1], precision[::-1]))


def test_the_mean_of_curves_has_the_macro_area():
    rows = random_predictions("multilabel", 300)
    curves = [roc(rows.label()[:, at], rows.prediction()[:, at]) for at in range(3)]
    expected = sklearn_metrics.roc_auc_score(rows.label(), rows.prediction(), average="macro")
    assert mean_curve(curves).area == pytest.approx(expected)


def test_calibration_is_counted_in_bins():
    found = calibration(np.asarray([0.05, 0.75, 0.8, 1.0, 1.0]), np.asarray([0, 1, 0, 1, 1]))
    assert found.counts.tolist() == [1, 0, 0, 0, 0, 0, 0, 2, 0, 2]
    assert found.confidence[7] == pytest.approx(0.775) and found.accuracy[7] == 0.5 and np.isnan(found.accuracy[1])
    assert found.error == pytest.approx((0.05 + 2 * 0.275 + 0) / 5)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_the_pictures_that_make_sense_for_it(task):
    found = draw_plots(random_predictions(task, 80))
    expected = {
        "classification": CURVES | {"coverage_precision.png"},
        "multilabel": CURVES,
        "regression": NUMBERS,
        "similarity": NUMBERS,
        "translation": TRANSLATIONS,
    }.get(task, set())
    assert set(found) == expected | ({"lengths.png"} if task != "pretraining" else set())
    for figure in found.values():
        file = io.BytesIO()
        figure.savefig(file)
        assert file.getvalue().startswith(b"\x89PNG")


def test_translations_of_like_length_are_measured_together():
    rows = random_predictions("translation", 200)
    kept = np.flatnonzero(rows.weight() > 0)
    found = groups_by_length(rows)
    assert len(found) > 3 and sum(group.rows for group in found) == len(kept)
    assert all(one.last < other.first for one, other in zip(found, found[1:], strict=False))
    words = np.asarray([len(text.split()) for text in rows.label()])
    for group in found:
        chosen = [row for row in kept if group.first <= words[row] <= group.last]
        pair = [rows.prediction()[row] for row in chosen], [[rows.label()[row] for row in chosen]]
        assert group.scores == pytest.approx({"Bleu": corpus_bleu(*pair).score, "Chrf": corpus_chrf(*pair).score}, abs=1e-9)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_few_translations_or_none_have_pictures_too(count):
    texts = ["a b", "", "北京"][:count]
    outputs = {name: (texts, texts, [1.0] * count) for name in ("", "greedy")}
    numbers = {name: ([0.0] * count, [0.5] * count, [1.0] * count) for name in ("token_loss", "token_right")}
    rows = make("translation", {**outputs, **numbers}).take(range(count))
    drawn = draw_plots(rows)
    assert set(drawn) == {"scores_by_length.png", "lengths_of_translations.png", "lengths.png"}
    for figure in drawn.values():
        figure.savefig(io.BytesIO())


def legend(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_legends_tell_the_areas_of_each_class_and_of_many_the_mean():
    rows = random_predictions("classification", 200)
    kept = rows.weight() > 0
    flags, shares = np.eye(3)[rows.label()[kept]], rows.prediction()[kept]
    areas = [sklearn_metrics.roc_auc_score(flags[:, at], shares[:, at]) for at in range(3)]
    assert legend(draw_plots(rows)["roc.png"]) == [
        f"AUC {area:.3f}  {name}" for area, name in zip(areas, CLASSES, strict=True)
    ]
    names = [f"class {at}" for at in range(12)]
    (only,) = legend(roc_curves(np.tile(flags, 4), np.tile(shares, 4), names))
    assert only == f"AUC {np.mean(areas):.3f}  mean of 12 classes"
    odd = roc_curves(flags * [1, 1, 0], shares, ["_a", "$b$", "never"])  # a class that no row has gets no line
    odd.savefig(io.BytesIO())
    assert [text.split("  ")[1] for text in legend(odd)] == ["_a", r"\$b\$"]


def test_mistakes_are_recorded_with_their_texts_as_they_are_and_no_more_than_fits():
    texts = {"text": ["<script>alert('&')</script>", "é" * 600, "right"]}
    shares = [[0.1, 0.9], [0.2, 0.8], [0.9, 0.1]]
    rows = make("classification", {"": ([0, 0, 0], shares, [1, 1, 1])}, texts, ("<b>", "b"))
    records = json.loads(error_json(rows))
    assert [record["text"] for record in records] == ["<script>alert('&')</script>", "é" * (MAX_CHARACTERS - 1) + "…"]
    assert (records[0]["expected"], records[0]["answered"]) == ("<b>", "b 0.90")
    assert records[0]["right"] is False and records[0]["badness"] == pytest.approx(0.9)


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_records_of_errors(task):
    rows = random_predictions(task, 60)
    records, mistakes = json.loads(error_json(rows, 5)), worst(rows, 5)
    assert [record["id"] for record in records] == [mistake.id for mistake in mistakes]


def test_the_timeline_has_a_bar_for_each_step_where_it_was_and_cached_ones_are_hatched():
    steps = [
        {"name": "Ingest", "seconds": 2.0, "cached": False},
        {"name": "Trainer", "seconds": 0.5, "cached": True},
        {"name": "Evaluator", "seconds": 4.0, "cached": False, "start": 3.0},
    ]
    picture = ElementTree.fromstring(timeline(steps))
    bars = [each.attrib for each in picture.findall("{*}rect") if "x" in each.attrib]
    zero, second = float(bars[0]["x"]), float(bars[0]["width"]) / 2.0
    assert [(round((float(bar["x"]) - zero) / second, 2), round(float(bar["width"]) / second, 2)) for bar in bars] == [
        (0.0, 2.0),
        (2.0, 0.5),
        (3.0, 4.0),
    ]
    assert ["cached" in bar["fill"] for bar in bars] == [False, True, False]
    texts = [each.text for each in picture.findall("{*}text")]
    assert texts[1::2] == ["Ingest", "Trainer", "Evaluator"] and texts[2::2] == ["2.0 s", "0.5 s, cached", "4.0 s"]
