"""Data and results as values and as pages: the numbers are those of the rows, and texts stay texts."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from made_data import report_of, reviews, statistics_of
from made_rows import TASKS, make, random_predictions
from pages import HOSTILE, Read, assert_accessible, assert_self_contained

from bertline.components.evaluator.predictions.scores import scores
from bertline.components.evaluator.verdict import Verdict, judge
from bertline.components.reports import page as page_module
from bertline.components.reports.charts import class_chart, slice_charts
from bertline.components.reports.confusion import Confusion, majority, matrix, most_mixed
from bertline.components.reports.data import Data, look
from bertline.components.reports.data_page import data_page
from bertline.components.reports.drawing import WIDTH, Scale, histogram, joined, percents
from bertline.components.reports.page import Page
from bertline.components.reports.results import Bounds, results_of
from bertline.components.reports.results_page import results_page
from bertline.components.reports.statistics import Bucket, Numbers
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.config import EvaluationConfig
from bertline.pipeline.core.errors import BertlineError

SPLITS = {"train": reviews(300, texts={0: HOSTILE, 1: HOSTILE}), "eval": reviews(40, seed=1)}
DRIFT = {"split": "train", "feature": "words", "measure": "Jensen-Shannon divergence", "value": 0.3, "bound": 0.1}
ANOMALY = {"split": "eval", "feature": "words", "what": f"moved {HOSTILE}", "remedy": "Raise it."}


def looked(splits=SPLITS, judgement=None, **how):
    statistics = {split: statistics_of(rows) for split, rows in splits.items()}
    return look(report_of(splits), statistics, judgement, slices=["source"], **how)


@pytest.fixture(scope="module")
def data():
    return looked(judgement={"anomalies": [ANOMALY], "allowed": True, "drift": [DRIFT]})


# Data


def test_data_is_what_the_rows_are(data):
    assert data.read == 345 and data.kept == {"train": 300, "eval": 40}
    assert data.labels == {"train": {"good": 200, "bad": 100}, "eval": {"good": 26, "bad": 14}}
    words = data.numbers("words")["train"].numbers
    counted = [row["words"] for row in SPLITS["train"]]
    assert (words.least, words.most, words.median) == (min(counted), max(counted), np.median(counted))
    source = next(feature for feature in data.features["train"] if feature.name == "source")
    assert (source.present, source.missing, source.different) == (270, 30, 2)
    assert dict(source.most_frequent) == {"web": 120, "paper": 150}


def test_notes_and_rows_that_changed_sides_are_on_the_page_of_data():
    notes = ["1 class has fewer than 10 evaluation examples, so that metrics of it are uncertain: <b> (1)."]
    data = look(report_of(SPLITS, notes=notes, moved={"eval": 4}), {}, None)
    html = data_page(data, "reviews").html
    assert "metrics of it are uncertain: &lt;b&gt; (1)." in html
    assert Read(html).row("moved for evaluation, to split classes alike")[1] == "4"


def test_what_is_recorded_of_data_is_read_back_as_it_was(data):
    assert Data.model_validate_json(data.model_dump_json()) == data
    with pytest.raises(ValueError):
        Data.model_validate_json('{"read": "many"}')


@pytest.mark.parametrize("texts", [True, False])
def test_texts_are_values_only_where_they_repeat_and_may_be_kept(texts):
    found = looked(texts=texts)
    (text,) = (feature for feature in found.features["train"] if feature.name == "text")
    assert text.most_frequent == (((HOSTILE, 2),) if texts else ())
    assert "text 0 5" not in found.model_dump_json()
    label = next(feature for feature in found.features["train"] if feature.name == "label")
    assert dict(label.most_frequent) == {"good": 200, "bad": 100}  # names of classes are no texts


def test_a_text_that_is_to_be_written_is_no_name():
    rows = [{"text": f"a {row}", "label": "ein Satz", "label_words": 2} for row in range(20)]
    found = look(report_of({"train": rows}), {"train": statistics_of(rows)}, None, texts=False)
    assert "ein Satz" not in "".join(str(feature.most_frequent) for feature in found.features["train"])


def test_the_page_of_data_shows_rows_labels_lengths_and_anomalies(data):
    html = data_page(data, "reviews").html
    page = Read(html)
    assert page.row("read") == ["read", "345"] and page.row("… data.exclude")[1] == "3"
    assert page.row("good")[1].split() == ["200", "66.7%"] and page.row("good")[2].split() == ["26", "65.0%"]
    assert page.row("eval")[2] == f"moved {HOSTILE}" and page.row("train")[3].startswith("0.3000")
    assert page.row("source")[3:5] == ["270", "30 (10.00%)"]
    assert "Words in the texts of an example, train: from 3 to 400" in html
    assert "1 anomaly, allowed by --allow-anomalies" in html


@pytest.mark.parametrize(
    ("judgement", "sentence"),
    [
        (None, "was not checked for anomalies"),
        ({"anomalies": []}, "No anomalies."),
        ({"anomalies": [ANOMALY, ANOMALY], "refused": True}, "2 anomalies: the pipeline stopped here"),
    ],
)
def test_the_page_of_data_says_what_became_of_it(judgement, sentence):
    assert sentence in data_page(looked(judgement=judgement), "reviews").html


def test_pages_ask_for_nothing_run_no_text_and_can_be_read_by_all(data):
    rows = random_predictions("classification", 60)
    for page in (data_page(data, HOSTILE), results_page(results_of(verdict_of(rows), rows, Bounds()), HOSTILE)):
        assert_self_contained(page.html)
        assert_accessible(page.html)
        assert "<img" not in page.html and "&lt;img src=x" in page.html
    # The script of a page that only shows reads nothing of the run.
    assert 'id="page-data">{"runs": [], "curves": []}<' in data_page(data, HOSTILE).html


def test_many_labels_are_shown_by_the_most_frequent():
    rows = [{"text": "x", "label": f"class {row % 500}", "words": 1} for row in range(1500)]
    found = looked({"train": [*rows, *[{"text": "x", "label": "often", "words": 1}] * 50], "eval": rows[:3]})
    assert found.labels_in_all == 501 and len(found.labels["train"]) == 200
    html = data_page(found, "reviews").html
    assert Read(html).row("often")[1].split() == ["50", "3.2%"] and "461 rarer labels are not shown" in html


def test_data_without_statistics_has_a_page_too():
    html = data_page(look(report_of(SPLITS), {}, None), "reviews").html
    assert Read(html).row("read") == ["read", "345"] and 'id="features"' not in html and 'id="lengths"' not in html


# Pictures


def numbers(*buckets, whole=True):
    made = [Bucket(low=low, high=high, count=count) for low, high, count in buckets]
    return Numbers(
        mean=1, deviation=1, zeros=0, least=made[0].low, median=1, most=made[-1].high, buckets=tuple(made)
    )  # fmt: skip


def test_the_area_of_a_bar_is_its_share_of_the_rows():
    found = histogram({"train": numbers((0, 10, 30), (10, 40, 30), (40, 60, 60))}, whole=False)
    areas = [bar["height"] * 10 * [1, 3, 2][at] for at, bar in enumerate(found["splits"][0]["bars"])]
    np.testing.assert_allclose(np.asarray(areas) / sum(areas), [0.25, 0.25, 0.5], atol=0.01)
    assert found["note"] == ""


def test_a_long_tail_does_not_squeeze_the_rest_of_a_picture():
    found = histogram({"train": numbers(*((at, at + 1, 10) for at in range(9)), (9, 5000, 10))}, whole=True)
    bars = found["splits"][0]["bars"]
    assert bars[8]["x"] < WIDTH * 0.6 and all(bar["x"] + bar["width"] <= WIDTH for bar in bars)
    assert "ends before the largest, 5,000" in found["note"]


@pytest.mark.parametrize("values", [(7, 7, 10), (0, 0, 1), (-3, -3, 5)])
@pytest.mark.parametrize("whole", [True, False])
def test_one_value_alone_is_one_bar_in_the_middle(values, whole):
    (split,) = histogram({"train": numbers(values)}, whole=whole)["splits"]
    (bar,) = split["bars"]
    assert bar["x"] + bar["width"] / 2 == pytest.approx(WIDTH / 2, abs=1) and bar["height"] > 0


def test_buckets_of_no_width_are_joined_and_no_row_is_lost():
    buckets = [Bucket(low=low, high=high, count=5) for low, high in ((1, 1), (1, 1), (1, 4), (4, 9), (9, 9))]
    assert joined(buckets, 1.0) == [(1, 4, 15), (4, 9, 10)]


# Results


def verdict_of(rows, **changes):
    values = {**scores(rows), "rows": float((rows.weight(next(iter(rows.description.outputs))) > 0).sum())}
    less = [name for name, metric in rows.description.metrics.items() if metric.better == "lower"]
    given = {"blessed": True, "reasons": [], "metrics": values, "slices": {}, "less_is_better": less}
    return Verdict(**{**given, **changes})


@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_a_page_of_results_with_intervals_around_its_values(task):
    rows = random_predictions(task, 80)
    found = results_of(verdict_of(rows), rows, Bounds())
    for score in found.scores:
        assert score.low <= score.value <= score.high, score
    html = results_page(found, task).html
    assert_self_contained(html)
    assert_accessible(html)
    first = found.scores[0]
    assert Read(html).row(first.metric + (" (less is better)" if first.metric in found.less_is_better else ""))[1:3] == [
        f"{first.value:.4f}", f"[{first.low:.4f}, {first.high:.4f}]"
    ]  # fmt: skip


def test_what_is_undefined_is_called_so_and_is_not_judged_on_a_slice():
    rows = random_predictions("classification", 80)
    values = {**scores(rows), "rows": 80.0}
    undefined = {**values, "macro_f1": np.nan}
    verdict = verdict_of(rows, metrics=undefined, slices={"web": undefined}, confusion=[[80, 0], [0, 0]], labels=["a", "b"])
    bounds = Bounds(thresholds={"macro_f1": 0.5}, slice_thresholds={"macro_f1": 0.5})
    found = results_of(verdict, rows, bounds)
    assert (found.scores[0].value, found.scores[0].keeps) == (None, False)
    score = next(score for score in found.slices[0].scores if score.metric == "macro_f1")
    assert (score.value, score.keeps) == (None, None)
    page = Read(results_page(found, "reviews").html)
    assert page.row("macro_f1")[1] == "undefined" and page.row("b")[1:] == ["undefined"] * 3 + ["0", ""]


def test_the_verdict_and_what_it_hangs_on_are_read_first_with_intervals():
    rows = random_predictions("classification", 80)
    asked = Bounds(thresholds={"accuracy": 0.1, "cross_entropy": 1e-6})
    simple = {"majority": {"accuracy": 0.05}, "tf-idf": {"accuracy": 0.4}}
    reasons = [f"{HOSTILE} {number}" for number in range(5)]
    found = results_of(verdict_of(rows, blessed=False, reasons=reasons, baselines=simple), rows, asked)
    html = results_page(found, "x").html
    page, score = Read(html), found.scores[0]
    verdict, accuracy, entropy = page.cards
    assert verdict.startswith("Verdict ✗ Refused") and HOSTILE in verdict and "2 more" in verdict
    assert accuracy.startswith(f"accuracy ✓ {score.value:.4f}") and "threshold: at least 0.1, met" in accuracy
    assert f"95% interval [{score.low:.4f}, {score.high:.4f}]" in accuracy
    assert entropy.startswith("cross_entropy ✗") and "threshold: at most 1e-06, not met" in entropy
    assert html.index('class="card') < html.index('id="baseline-chart"') < html.index('id="metric-table"')
    assert [row[0] for row in page.tables[0][1:-1]] == ["this model", "tf-idf", "majority"]  # the best first
    blessed = Read(results_page(results_of(verdict_of(rows), rows, Bounds(thresholds={"accuracy": 0.1})), "x").html)
    assert blessed.cards[0] == "Verdict ✓ Blessed The model meets its threshold."


def test_charts_show_the_worst_ten_and_fold_the_rest():
    rows = random_predictions("classification", 40)
    values = {f"source={at}": {"accuracy": at / 30, "rows": 99.0 if at else 1.0} for at in range(25)}
    classes = {
        f"class {at}": {"precision": 0.5, "recall": 0.5, "f1": (at * 7 % 24) / 24, "rows": float(at)} for at in range(24)
    }
    found = results_of(verdict_of(rows, slices=values, per_class=classes), rows, Bounds(min_slice_examples=50))
    slices, of_classes = next(slice_charts(found)), class_chart(found)
    names = [row["name"] for row in (*slices["seen"], *slices["folded"])]
    assert names == [*(f"source={at}" for at in range(1, 25)), "source=0"]  # which is too small to be judged
    scores = [float(row["cells"][2]) for row in (*of_classes["seen"], *of_classes["folded"])]
    assert scores[:-1] == sorted(scores[:-1]) and of_classes["folded"][-1]["name"] == "class 0"  # that no example is of
    assert len(slices["seen"]) == len(of_classes["seen"]) == 10
    html = results_page(found, "x").html
    assert "<summary>15 more slices</summary>" in html and "<summary>14 more classes</summary>" in html


@pytest.mark.parametrize(("begin", "end"), [(0.0, 1.0), (-0.031, 0.029), (0.8, 0.92), (0.0, 3e-7), (-5e6, 1.0)])
def test_an_axis_has_a_few_round_numbers_at_their_places(begin, end):
    found = percents(Scale(begin, end))
    assert 2 <= len(found) <= 7
    for tick in found:
        assert tick["x"] == pytest.approx(100 * (float(tick["text"]) - begin) / (end - begin), abs=0.6)


def test_texts_can_be_read_on_their_grounds_in_both_colour_schemes():
    """Contrast by WCAG 2.2: 4.5 for text, 3 for what is drawn."""
    css = (Path(page_module.__file__).parent / "static" / "page.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    schemes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks]

    def luminance(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one, other):
        low, high = sorted((luminance(one), luminance(other)))
        return (high + 0.05) / (low + 0.05)

    grounds = {
        "ink": ("ground", "raised", "good-ground", "bad-ground"),
        "faint": ("ground", "raised"),
        "better": ("ground", "raised", "good-ground"),
        "worse": ("ground", "raised", "bad-ground"),
    }
    assert len(schemes) == 2
    for colours in schemes:
        for text, names in grounds.items():
            assert all(contrast(colours[text], colours[ground]) >= 4.5 for ground in names), text
        assert all(contrast(colours[f"run-{run}"], colours["ground"]) >= 3 for run in (0, 1, 7))


def test_bounds_are_kept_or_not_as_the_evaluator_judges():
    rows = random_predictions("classification", 80)
    values = {**scores(rows), "rows": 80.0}
    small, large = {**values, "rows": 10.0}, {**values, "accuracy": 0.1, "rows": 60.0}
    settings = EvaluationConfig(
        thresholds={"accuracy": 0.1, "cross_entropy": 1e-6}, slice_thresholds={"accuracy": 0.2}, min_slice_examples=50
    )
    slices = {"all rows": values, "small": {**small, "accuracy": 0.0}, "large": large}
    reasons = judge(slices, {}, settings, get_task("classification"))
    bounds = Bounds(**settings.model_dump(include={"thresholds", "slice_thresholds", "min_slice_examples"}))
    found = results_of(
        verdict_of(rows, slices={name: slices[name] for name in ("small", "large")}, reasons=reasons), rows, bounds
    )
    assert [(score.metric, score.keeps) for score in found.scores[:2]] == [("accuracy", True), ("cross_entropy", False)]
    assert [(part.judged, part.scores[0].keeps) for part in found.slices] == [(False, None), (True, False)]
    assert len(reasons) == 2
    html = results_page(found, "reviews").html
    assert "too few to be judged" in html and "not met" in html and "threshold of slices, 0.2" in html


def test_of_very_many_slices_and_classes_the_largest_are_shown():
    rows = random_predictions("classification", 40)
    names = [f"source={at}" for at in range(300)]
    slices = {name: {"accuracy": 0.5, "rows": 400.0 if at == 299 else 1.0} for at, name in enumerate(names)}
    classes = {f"class {at}": {"precision": 0.1, "recall": 0.2, "f1": 0.3, "rows": float(at)} for at in range(300)}
    found = results_of(verdict_of(rows, slices=slices, per_class=classes), rows, Bounds())
    assert len(found.slices) == len(found.classes) == 300
    html = results_page(found, "x").html
    assert "200 smaller slices are not shown" in html and "100 rarer classes are not shown" in html
    page = Read(html)
    assert page.row("source=299") and page.row("class 299") and not page.rows("class 0") and not page.rows("source=150")


def test_results_without_rows_say_so_and_have_no_intervals():
    rows = random_predictions("classification", 40)
    found = results_of(
        verdict_of(rows, metrics={"accuracy": float("nan"), "rows": 0}), None, Bounds(thresholds={"accuracy": 0.5})
    )
    assert found.scores[0].value is None and found.scores[0].keeps is False and found.errors == ()
    assert "tracking.texts: false" in found.notes[0] and "tracking.texts: false" in results_page(found, "x").html
    assert "NaN" not in found.model_dump_json()


def test_simple_baselines_stand_beside_the_model_and_the_best_is_marked():
    rows = random_predictions("classification", 80)
    simple = {"majority": {"accuracy": 0.1, "cross_entropy": 9.0}, "tf-idf": {"accuracy": 1.0}}
    found = results_of(
        verdict_of(rows, baselines=simple, baseline_seconds=2.0, baseline_notes=["Of a sample."]), rows, Bounds()
    )
    html = results_page(found, "x").html
    model = {score.metric: f"{score.value:.4f}" for score in found.scores}
    assert ["this model", model["accuracy"], model["cross_entropy"]] in Read(html).rows("this model")
    assert ["tf-idf", "1.0000", "–"] in Read(html).rows("tf-idf")
    assert "<strong>1.0000</strong>" in html and f"<strong>{model['cross_entropy']}</strong>" in html
    assert "Of a sample. They took 2.0 s." in html
    assert "baseline-table" not in results_page(results_of(verdict_of(rows), rows, Bounds()), "x").html


def test_test_metrics_stand_beside_those_of_the_evaluation_examples_with_their_interval():
    rows = random_predictions("classification", 80)
    test = {
        "accuracy": {"value": 0.5, "low": 0.25, "high": 0.75},
        "cross_entropy": dict.fromkeys(("value", "low", "high"), math.nan),
    }
    found = results_of(verdict_of(rows, test=test, test_rows=1234), rows, Bounds())
    html = results_page(found, "x").html
    assert Read(html).row("accuracy")[3:5] == ["0.5000", "[0.2500, 0.7500]"]
    assert Read(html).row("cross_entropy (less is better)")[3:5] == ["undefined", ""] and "on 1,234 test examples" in html
    assert "test interval" not in results_page(results_of(verdict_of(rows), rows, Bounds()), "x").html


def test_mistakes_are_in_the_page_with_their_texts_escaped():
    rows = make(
        "classification", {"": ([0, 1], [[0.1, 0.9], [0.2, 0.8]], [1, 1])}, {"text": [HOSTILE, "fine"]}, ("<b>", "b")
    )
    html = results_page(
        results_of(verdict_of(rows, confusion=[[0, 1], [0, 1]], labels=["<b>", "b"]), rows, Bounds()), "x"
    ).html
    assert Read(html).row("<b>")  # of the matrix
    assert ["<b>", "b 0.90", HOSTILE, "0.900"] in [row for table in Read(html).tables for row in table]


def test_classes_that_are_taken_for_each_other_are_counted():
    found = Confusion(labels=("a", "b", "c"), counts=((5, 3, 0), (1, 4, 0), (0, 0, 9)))
    assert [(pair.true, pair.answered, pair.rows) for pair in most_mixed(found, 5)] == [("a", "b", 3), ("b", "a", 1)]
    assert majority(found) == ("c", 9 / 22)
    assert majority(Confusion(labels=("a",), counts=((0,),))) is None
    wide = Confusion(labels=tuple(map(str, range(60))), counts=tuple((0,) * 60 for _ in range(60)))
    assert matrix(wide) is None and most_mixed(wide, 5) == []


# Pages


def test_a_page_is_written_in_one_go_or_not_at_all(tmp_path):
    Page("é\udc80").write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == "é?" and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(BertlineError, match="^-o .*none/page.html: .*name a file in a folder"):
        Page("x").write(tmp_path / "none" / "page.html", "-o")


def test_a_notebook_shows_a_page_in_a_frame():
    shown = Page("<p>é</p>")._repr_html_()
    assert re.search(r'^<iframe title="[^"]+" src="data:text/html;charset=utf-8;base64,[A-Za-z0-9+/=]+"', shown)
