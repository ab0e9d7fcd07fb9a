"""What differs between runs, and how it is told: pure functions of what was recorded."""

import io
import math
import re

import pytest
from rich.console import Console

from bertline.pipeline.runs.compare.comparison import Comparison, Measured, Slice
from bertline.pipeline.runs.compare.curves import Curve, Point, bounds, sparkline, thinned
from bertline.pipeline.runs.compare.page import render
from bertline.pipeline.runs.compare.rows import Change, Flip, Shared
from bertline.pipeline.runs.compare.tables import letter, show
from bertline.pipeline.runs.diff import Difference, differing_settings, in_short
from bertline.pipeline.runs.listing import as_json, compared_with_before, number, plain, show_runs, shown_metrics
from bertline.pipeline.runs.store import Run

HOSTILE = "</script><img src=x onerror=alert(1)>"


def run(number: int, name: str = "reviews", **values) -> Run:
    given = {
        "params": {"task": "classification", "evaluation.thresholds.accuracy": "0.8"},
        "metrics": {"eval/accuracy": 0.8, "eval/matthews": math.nan, "eval/rows": 200},
        "tags": {"pipeline": "reviews", "blessed": "true", "pushed_version": str(number)},
    }
    return Run(run_id=f"{number:032x}", name=name, started=1.76e9, seconds=30.0, status="succeeded", **{**given, **values})


def comparison(*runs: Run, **values) -> Comparison:
    count = len(runs)
    nothing: dict = dict.fromkeys(("settings", "metrics", "slices", "curves", "notes"), ())
    of_each = {"confusions": (None,) * count, "shared": (None,) * count, "flips": ((),) * count}
    return Comparison(runs=runs, **{**nothing, **of_each, "level": 0.95, **values})


def printed(show_it, *arguments) -> str:
    console = Console(width=160, highlight=False, file=io.StringIO())
    show_it(console, *arguments)
    return console.file.getvalue()


def test_only_what_differs_is_told_and_what_a_run_did_not_record_comes_last():
    found = differing_settings([{"a": "1", "b": "2", "z": "1"}, {"b": "2", "z": "2"}])
    assert found == [Difference("z", ("1", "2")), Difference("a", ("1", None))]
    assert differing_settings([{"a": "1"}, {"a": "1"}]) == []


def test_a_change_in_short_leaves_out_where_the_run_was_at_work():
    before = {"training.epochs": "2", "workspace": "/a", "version.python": "3.11.1", "push.destination": "x"}
    after = {"training.epochs": "3", "workspace": "/b", "version.python": "3.11.2", "push.destination": "y"}
    assert in_short(before, after) == "training.epochs 2 → 3"
    assert in_short(before, before) == "nothing"
    assert in_short({}, {f"p{at}": "1" for at in range(500)}).endswith("; and 497 more")


def test_each_run_is_held_against_the_one_before_of_its_own_pipeline():
    other = run(2, params={"x": "9"}, tags={"pipeline": "tickets"})
    listed = compared_with_before([run(3, params={"x": "2"}), other, run(1, params={"x": "1"})])
    assert [changed for _, changed in listed] == ["x 1 → 2", None, None]


def test_runs_are_listed_by_the_metrics_that_have_a_bound():
    assert shown_metrics([run(1)]) == ["accuracy"]
    unbounded = run(1, params={}, metrics={"eval/f1": 0.5, "eval/rows": 9})
    assert shown_metrics([unbounded]) == ["f1"]
    table = printed(show_runs, compared_with_before([run(7, name="🚀 [red]not markup[/]")]))
    assert "🚀 [red]not markup[/]" in table and "0.8000" in table and "v7" in table and "matthews" not in table
    assert as_json(compared_with_before([run(7)]))[0]["metrics"] == {"accuracy": 0.8, "matthews": None, "rows": 200}


def test_a_name_cannot_speak_to_the_terminal():
    assert plain("a\x1b[31mb\r\n\u202ec").plain == "a [31mb c"
    assert plain("x" * 100, 10).plain == "xxxxxxxxx…"


@pytest.mark.parametrize(
    ("value", "signed", "told"),
    [(0.5, False, "0.5000"), (0.5, True, "+0.5000"), (math.nan, True, "undefined"), (None, True, "–")],
)
def test_what_is_no_number_is_told_as_such(value, signed, told):
    assert number(value, signed) == told


def test_a_long_curve_is_thinned_to_its_means_and_leaves_out_what_is_not_finite():
    measured = [(step, 100.0 + step, float(step)) for step in range(1, 1001)]
    points = thinned([*measured, (1001, 1101.0, math.nan)], limit=10)
    assert len(points) == 10 and points[0] == Point(50.5, 49.5, 50.5)
    assert thinned([(1, 0.0, math.inf)]) == ()


def test_curves_are_drawn_between_common_bounds():
    short = tuple(Point(step, 0, value) for step, value in ((1, 4.0), (2, 2.0)))
    long = tuple(Point(step, 0, value) for step, value in ((1, 4.0), (4, 0.0)))
    steps, values = bounds(Curve("loss", (short, long)))
    assert (steps, values) == ((1, 4), (0.0, 4.0))
    assert sparkline(short, steps, values, 4) == "█▅"
    assert sparkline(long, steps, values, 4) == "█▆▃▁"
    assert sparkline((Point(1, 0, 1.0),), (1, 1), (1.0, 1.0), 4) == "▁"


def test_a_change_is_clear_only_where_its_interval_leaves_out_nothing():
    assert Change(0.8, 0.9, 0.1, 0.05, 0.15).is_clear and Change(0.9, 0.8, -0.1, -0.15, -0.05).is_clear
    assert not Change(0.8, 0.9, 0.1, -0.01, 0.2).is_clear and not Change(0.8, 0.8, 0.0, math.nan, math.nan).is_clear


def test_the_terminal_marks_what_is_sure_and_tells_the_rest():
    found = comparison(
        run(1),
        run(2),
        metrics=(
            Measured(name="accuracy", better="higher", values=(0.8, 0.9), changes=(None, Change(0.8, 0.9, 0.1, 0.02, 0.2))),
            Measured(name="matthews", better="", values=(math.nan, None), changes=(None, None)),
        ),
        shared=(None, Shared(150, 200, 180)),
        flips=((), (Flip({"text": "[bold]x"}, "good", "bad 0.7", "good 0.9", "right"),)),
        notes=("a sentence.",),
    )
    table = printed(show, found)
    assert "+0.1000 [+0.0200, +0.2000] *" in table and "150 of its 180" in table and "note a sentence." in table
    assert "1 became right" in table and "[bold]x" in table and "all settings are equal" in table


def test_every_run_has_a_letter_of_its_own():
    assert [letter(at) for at in (0, 25, 26, 53)] == ["A", "Z", "A1", "B2"]


def test_whatever_a_run_says_stays_text_in_the_page():
    found = comparison(
        run(1, name=HOSTILE),
        run(2, name="🚀"),
        settings=(Difference(HOSTILE, (HOSTILE, None)),),
        metrics=(Measured(name=HOSTILE, better="", values=(0.1, 0.2), changes=(None, None)),),
        slices=(
            Slice(
                name=HOSTILE,
                rows=(1, 2),
                measured=(Measured(name="a", better="", values=(0.1, 0.2), changes=(None, None)),),
            ),
        ),
        curves=(Curve(HOSTILE, ((Point(1, 0, 1.0),), ())),),
        flips=((), (Flip({"text": HOSTILE}, HOSTILE, HOSTILE, HOSTILE, "right"),)),
        notes=(HOSTILE,),
    )
    page = render(found).html
    assert "<img" not in page and page.count("</script") == 2
    assert "&lt;img src=x" in page and r"\u003cimg" in page


def test_the_page_names_no_other_place():
    page = render(comparison(run(1), run(2))).html
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#|data:)|@import|url\(""", page)
    assert set(re.findall(r"https?://[^\"'\s]*", page)) == {"http://www.w3.org/2000/svg"}  # the name of SVG, not a place
