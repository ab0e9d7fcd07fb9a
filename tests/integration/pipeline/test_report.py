"""`bertline report` over a real store: every kind of run has its page, and what a run lacks is told."""

from __future__ import annotations

import json
import re
import stat
import webbrowser
from pathlib import Path

import pytest
from browser import Browser
from click.testing import CliRunner
from made_rows import TASKS
from pages import HOSTILE, Read, assert_accessible, assert_self_contained
from recorded_runs import answers, judged
from reported_runs import MODEL, Reported, version

from bertline.components.evaluator.predictions.rows import EvaluationPredictions
from bertline.components.evaluator.predictions.scores import bootstrap
from bertline.components.reports.data import Data
from bertline.components.reports.data_page import data_page
from bertline.components.reports.page import Page
from bertline.components.reports.results import Bounds, results_of
from bertline.components.reports.results_page import results_page
from bertline.pipeline.cli import main
from bertline.pipeline.runs.report import report_page
from bertline.pipeline.runs.store import run_store


@pytest.fixture(scope="module")
def reported(tmp_path_factory) -> Reported:
    return Reported(tmp_path_factory.mktemp("reported"))


class Told:
    """What the command says, and the page that it writes."""

    def __init__(self, *arguments: str, workspace: Path) -> None:
        result = CliRunner().invoke(main, ["report", *arguments, "--workspace", str(workspace)])
        self.code, self.output, self.error = result.exit_code, result.stdout, result.stderr
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception


class Asked:
    """A run as JSON and as a page, both of one command."""

    def __init__(self, reported: Reported, run_id: str, folder: Path) -> None:
        path = folder / "report.html"
        told = Told(run_id[:12], "--json", "-o", str(path), workspace=reported.workspace)
        assert told.code == 0, told.error
        self.json = json.loads(told.output, parse_constant=lambda name: pytest.fail(f"JSON has no {name}"))
        self.html = path.read_text()
        self.page = Read(self.html)
        assert_self_contained(self.html)
        assert_accessible(self.html)
        assert "<img" not in self.html

    def notes(self, section: str) -> str:
        return " ".join(self.json["notes"].get(section, ()))


@pytest.fixture
def ask(reported, tmp_path):
    return lambda run_id: Asked(reported, run_id, tmp_path)


@pytest.fixture(scope="module")
def whole(reported, tmp_path_factory):
    return Asked(reported, reported.whole, tmp_path_factory.mktemp("whole"))


def test_a_report_shows_simple_baselines_beside_the_model(whole, reported):
    assert whole.json["results"]["baselines"]["tf-idf"]["accuracy"] == 0.7
    assert ["tf-idf", "0.7000", "0.4000"] in whole.page.rows("tf-idf")
    assert ["majority", "0.5000", "–"] in whole.page.rows("majority")
    told = Told(reported.whole[:12], workspace=reported.workspace)
    assert re.search(r"baseline tf-idf +accuracy 0.7000", told.output)


def test_a_report_tells_the_run_its_data_and_its_model(whole):
    page, found = whole.page, whole.json
    assert found["head"]["blessed"] and found["head"]["pushed_version"] == "2" and found["notes"] == {}
    assert "reviews: blessed, pushed as version 2" in whole.html
    assert page.row("for training")[1] == "300" and page.row("… empty text")[1] == "2"
    assert any(row[1].startswith("200") for row in page.rows("good"))
    assert f"too long {HOSTILE}" in page.row("train")  # an anomaly
    assert page.row("layers")[1] == "2" and page.row("parameters")[1] == f"{MODEL['parameters']:,}"
    assert page.row("started from")[1] == "from scratch, size tiny" and page.row("training.seed")[1] == "42"


def test_metrics_have_the_intervals_of_a_bootstrap_their_bound_and_the_model_before(whole, reported):
    with run_store(str(reported.workspace), "rows") as store:
        rows = EvaluationPredictions.read(store.file(reported.whole, "evaluation/rows.parquet"))
        before = EvaluationPredictions.read(store.file(reported.first, "evaluation/rows.parquet"))
    one, both = bootstrap(rows), bootstrap(before, rows)
    scores = {score["metric"]: score for score in whole.json["results"]["scores"]}
    for name, spread in one.items():
        assert (scores[name]["low"], scores[name]["high"]) == pytest.approx(spread.one[1:])
        change = whole.json["against"]["changes"][name]
        assert (change["difference"], change["low"], change["high"]) == pytest.approx(tuple(both[name].difference))
    assert (scores["accuracy"]["bound"], scores["accuracy"]["keeps"]) == (0.8, True)
    assert whole.json["against"]["run_id"] == reported.first and whole.json["against"]["rows"] == 200
    assert {change["verdict"] for change in whole.json["against"]["changes"].values()} == {"better"}
    row = next(row for row in whole.page.rows("accuracy") if len(row) > 2)
    assert row[1] == f"{scores['accuracy']['value']:.4f}" and "met" in row[3] and "[+" in row[5]


def test_slices_and_mistakes_are_those_of_the_evaluator_and_of_the_rows(whole):
    found = whole.json["results"]
    slices = {part["name"]: part for part in found["slices"]}
    assert set(slices) == {"0-9 words", "10+ words", "source=web", "source=Zürich <b>"}
    assert slices["source=web"]["scores"][0]["bound"] == 0.95 and not slices["source=Zürich <b>"]["judged"]
    assert all(
        part["scores"][0]["low"] <= part["scores"][0]["value"] <= part["scores"][0]["high"] for part in slices.values()
    )
    wrong = sum(sum(row) for row in found["confusion"]["counts"]) - sum(
        found["confusion"]["counts"][at][at] for at in range(2)
    )
    assert len(found["errors"]) == wrong
    assert any(HOSTILE in cell for table in whole.page.tables for row in table for cell in row)


def test_the_verdict_and_the_results_come_before_everything_else(whole, reported):
    cards, score = whole.page.cards, whole.json["results"]["scores"][0]
    assert cards[0] == "Verdict ✓ Pushed as version 2 The model meets its threshold."
    interval = f"95% interval [{score['low']:.4f}, {score['high']:.4f}]"
    assert cards[1].startswith(f"accuracy ✓ {score['value']:.4f}") and interval in cards[1] and "better)" in cards[1]
    order = ['id="baseline-chart"', 'id="results"', 'id="slices"', 'id="data"', reported.whole, "c0ffee"]
    places = [whole.html.index(what) for what in order]
    assert places == sorted(places)


def test_cost_and_lineage_are_told(whole, reported):
    page, cost, lineage = whole.page, whole.json["cost"], whole.json["lineage"]
    assert [(step["name"], step["cached"], step["execution"]) for step in cost["steps"]] == [
        ("Ingest", True, 1),
        ("Trainer", False, 7),
    ]
    assert cost["steps"][1]["artifacts"] == {"model": 12} and cost["peak_megabytes"] == 1200
    assert page.row("training")[1] == "200 tokens/s on average" and "median 3.5 ms" in page.row("latency")[1]
    assert page.row("size of the exported model")[1] == "17.6 MB" and page.row("machine")[1] == "2 cores"
    assert lineage["commit"] == "c0ffee" and lineage["pushed_digest"] == version(reported.workspace, 2)["pushed_digest"]
    assert page.row("MLflow run")[1] == reported.whole and page.row("evaluation.min_slice_examples")[1] == "50"
    assert page.row("page of the data")[1].startswith("data/page.html")


def test_a_registered_model_is_named_with_its_aliases(reported, ask):
    client, digest = reported.record.client, version(reported.workspace, 1)["pushed_digest"]
    client.create_registered_model("reviews")
    made = client.create_model_version("reviews", str(reported.workspace), run_id=reported.first, tags={"digest": digest})
    client.set_registered_model_alias("reviews", "champion", made.version)
    assert ask(reported.first).json["lineage"]["registered"] == [
        {"name": "reviews", "version": "1", "aliases": ["champion"]}
    ]


@pytest.mark.parametrize("task", TASKS)
def test_runs_of_every_task_have_a_report(reported, ask, task):
    found = ask(reported.tasks[task])
    assert found.json["head"]["task"] == task and found.page.row("task")[1] == task
    assert all(score["low"] <= score["value"] <= score["high"] for score in found.json["results"]["scores"])
    assert len(found.json["results"]["errors"]) > 0


def test_a_refused_run_says_why(reported, ask):
    found = ask(reported.refused)
    assert (
        found.page.cards[0].startswith("Verdict ✗ Refused")
        and f"below its threshold 0.8 on {HOSTILE}" in found.page.cards[0]
    )
    assert "reviews: refused" in found.html and found.json["head"]["reasons"] == [
        f"accuracy 0.6000 is below its threshold 0.8 on {HOSTILE}"
    ]
    assert "is below its threshold 0.8" in Told(reported.refused, workspace=reported.workspace).output
    assert "The evaluation examples are not recorded" in found.html  # and so there are no intervals


def test_a_failed_run_says_where_and_why_and_what_it_has_not_come_to(reported, ask):
    found = ask(reported.failed)
    assert found.page.cards[0].startswith("Verdict ✗ Failed at Trainer The loss is not finite")
    assert "reviews: failed at Trainer" in found.html and "Lower training.learning_rate." in found.html
    for section in ("data", "results", "curves"):
        assert "the run failed at the step Trainer" in found.notes(section)
    assert found.json["results"] is None and "The duration of its steps is not recorded" in found.notes("cost")
    assert "Lower training.learning_rate." in Told(reported.failed, workspace=reported.workspace).output


def test_a_run_that_goes_on_says_so(reported, ask):
    found = ask(reported.running)
    assert "still running" in found.html and found.page.row("took")[1] == "has not ended"
    assert "has not reached it yet" in found.notes("results")


def test_a_run_of_an_older_version_shows_what_it_has(reported, ask):
    found = ask(reported.older)
    assert found.json["data"]["judged"] == "accepted" and "Words in the texts of an example" in found.html
    assert found.json["results"]["rows"] == 200 and found.json["against"] is None
    assert "not recorded" in found.notes("model") and found.page.row("parameters")[1] == "not recorded"


def test_files_that_cannot_be_read_are_told_and_the_rest_is_shown(reported, ask):
    found = ask(reported.torn)
    assert "cannot be read" in found.notes("data") and "cannot be read" in found.notes("results")
    assert "model.json of the run cannot be read" in found.notes("model")
    assert "blessed, not pushed" in found.html


def test_of_seeds_all_stand_side_by_side_and_the_rest_is_of_the_best(reported, ask):
    found = ask(reported.seeds)
    study = found.json["study"]
    assert [(part["title"], bool(part["collapsed"])) for part in study["parts"]] == [
        ("seed 1", False),
        ("seed 2", False),
        ("seed 3", True),
    ]
    assert study["best"] == reported.part and study["mean"] == {"accuracy": 0.8}
    scores = {score["metric"]: score["value"] for score in found.json["results"]["scores"]}
    assert scores["accuracy"] == study["parts"][1]["scores"]["accuracy"]
    assert found.page.row("mean ± std")[1] == "0.8000 ± 0.0500" and "collapsed: its loss did not fall" in found.html
    assert len(found.json["drawn"]) == 3 and "those of seed 2, the best of them" in found.html
    assert f"MLflow run of the best{reported.part}" in "".join(
        map("".join, (row for table in found.page.tables for row in table))
    )


def test_one_seed_names_its_study(reported, ask):
    found = ask(reported.part)
    assert found.json["study"] is None and found.page.row("one of the runs of")[1] == reported.seeds


def test_a_study_that_broke_off_has_a_report(reported, ask):
    found = ask(reported.broken)
    assert "interrupted" in found.html and "No run of this study is recorded as its best" in found.notes("run")


def test_the_newest_run_is_reported_to_the_workspace_and_summed_up(reported):
    told = Told("--last", "--name", "reviews", workspace=reported.workspace)
    newest = reported.tasks[TASKS[-1]]
    path = reported.workspace / "reports" / f"reviews-{newest[:8]}.html"
    assert told.code == 0 and path.is_file() and str(path) in told.error
    assert newest[:8] in told.output and "blessed, not pushed" in told.output and "\x1b" not in told.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "give one run, or --last"),
        (("abcd", "--last"), "give one run, or --last"),
        (("the-best",), "is not the id of a run"),
        (("ffffffffff",), "there is no run ffffffffff"),
        (("--last", "--name", "nothing"), "no run of nothing is recorded yet"),
    ],
)
def test_a_mistake_is_one_sentence(reported, arguments, sentence):
    told = Told(*arguments, workspace=reported.workspace)
    assert told.code == 1 and sentence in told.error and told.error.count("\n") == 1


def test_a_page_that_cannot_be_written_is_one_sentence(reported, tmp_path):
    told = Told(reported.failed, "-o", str(tmp_path / "none" / "page.html"), workspace=reported.workspace)
    assert told.code == 1 and "-o " in told.error and "name a file in a folder that can be written to" in told.error


def test_open_hands_the_page_to_a_browser(reported, tmp_path, monkeypatch):
    browser, seen, page = tmp_path / "browser", tmp_path / "seen", tmp_path / "page.html"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setattr(webbrowser, "_tryorder", None)  # which Python remembers once it has looked for one
    assert Told(reported.failed, "-o", str(page), "--open", workspace=reported.workspace).code == 0
    assert seen.read_text().strip() == page.as_uri()


def test_a_notebook_has_a_door_of_its_own(reported, ask):
    page = report_page(reported.failed[:10], workspace=str(reported.workspace))
    assert page.html == ask(reported.failed).html and page._repr_html_().startswith("<iframe")
    newest = Read(report_page(workspace=str(reported.workspace)).html)
    assert newest.row("MLflow run")[1] == reported.tasks[TASKS[-1]]


# In a browser; the pictures stay in pytest's folder: report-1280-light.png and so on


@pytest.fixture(scope="module")
def written(whole, reported, tmp_path_factory):
    """Every kind of page by its name, as a file."""
    folder, rows = tmp_path_factory.mktemp("pages"), answers(right=0.9, texts={row: HOSTILE for row in range(0, 200, 3)})
    results = results_of(judged(rows), rows, Bounds(thresholds={"accuracy": 0.8}))
    seeds = report_page(reported.seeds, workspace=str(reported.workspace))
    made = {
        "report": Page(whole.html),
        "seeds": seeds,
        "failed": report_page(reported.failed, workspace=str(reported.workspace)),
        "data": data_page(Data.model_validate(whole.json["data"]), HOSTILE),
        "results": results_page(results, HOSTILE),
    }
    for name, page in made.items():
        page.write(folder / f"{name}.html")
    (folder / "notebook.html").write_text(
        f"<!doctype html><meta charset=utf-8><link rel=icon href=data:,>{seeds._repr_html_()}"
    )
    return {name: folder / f"{name}.html" for name in (*made, "notebook")}


def opened(browser: Browser, page: Path) -> Browser:
    browser.errors.clear()
    browser.requests.clear()
    browser.look(1280)
    browser.open(page.as_uri())
    return browser


def visible(browser: Browser, selector: str) -> int:
    return browser.ask(f"[...document.querySelectorAll('{selector}')].filter(e => e.getClientRects().length).length")


@pytest.mark.parametrize("name", ["report", "seeds", "failed", "data", "results"])
def test_a_page_asks_for_nothing_but_itself_and_is_readable_light_dark_wide_and_narrow(browser, written, name):
    page = written[name]
    opened(browser, page)
    title = browser.ask("document.title")
    grounds = set()
    for width, dark in ((1280, False), (400, True)):
        browser.look(width, dark=dark)
        browser.picture(page.with_name(f"{name}-{width}-{'dark' if dark else 'light'}.png"))
        grounds.add(browser.ask("getComputedStyle(document.body).backgroundColor"))
        # Tables scroll in themselves; the page itself never goes sideways.
        assert browser.ask("document.documentElement.scrollWidth") <= width
    assert len(grounds) == 2
    assert visible(browser, "li.card") >= 1 and visible(browser, "nav a[aria-current]") == 1
    assert browser.errors == [] and browser.requests == [page.as_uri()]
    assert browser.ask("document.images.length") == 0 and browser.ask("document.title") == title != "taken over"


def test_parts_are_reached_by_their_links_and_curves_by_the_keyboard(browser, written):
    opened(browser, written["report"])
    browser.click("nav a[href='#cost']")
    assert browser.ask("Math.abs(document.getElementById('cost').getBoundingClientRect().top) < innerHeight")
    assert browser.ask("document.querySelector('nav').getBoundingClientRect().top") >= 0  # it has come along
    for part, name in (("curves", "Learning curves"), ("overview", "Overview")):
        browser.ask(f"document.getElementById('{part}').scrollIntoView()")
        browser.settle()
        assert browser.ask("document.querySelector('nav [aria-current]').textContent") == name
    assert browser.ask("document.querySelectorAll('#charts svg').length") == 3
    browser.ask("document.querySelector('#charts svg').focus()")
    for name, code in (("ArrowRight", 39), ("End", 35)):
        browser.key(name, code)
    assert browser.ask("document.querySelector('.readout').textContent").startswith("step 90")
    assert visible(browser, "#legend") == 0  # of a single run
    assert browser.errors == []


def test_slices_are_shown_by_the_metric_that_is_chosen(browser, written):
    opened(browser, written["results"])
    assert visible(browser, ".slice-table") == 1 and visible(browser, ".slice-table .whisker") == 4
    browser.ask("document.querySelector('#slice-metric').focus()")
    browser.key("ArrowDown", 40)
    assert visible(browser, ".slice-table") == 1
    assert browser.ask("document.querySelector('.slice-table[data-metric=\"0\"]').hidden") and browser.errors == []


def test_the_curves_of_seeds_can_be_told_apart(browser, written):
    opened(browser, written["seeds"])
    assert visible(browser, "#charts path.curve") == 3
    browser.click("#legend button[data-run='1']")
    assert visible(browser, "#charts path.curve") == 2 and browser.errors == []


def test_on_paper_tables_are_whole(browser, written):
    opened(browser, written["report"])
    browser.look(794)
    browser.do("Emulation.setEmulatedMedia", media="print")
    assert browser.ask("[...document.querySelectorAll('.tall')].every(box => box.scrollHeight === box.clientHeight)")
    assert visible(browser, "nav") == 0 and visible(browser, "#error-table tr") > 10
    assert browser.ask("document.getElementById('baseline-table').getBoundingClientRect().height") > 0  # what was folded
    browser.picture(written["report"].with_name("report-paper.png"))
    browser.do("Emulation.setEmulatedMedia", media="")
    assert browser.errors == []


def test_a_notebook_shows_the_page_in_a_frame_without_errors(browser, written):
    opened(browser, written["notebook"])
    browser.settle()
    page, frame = browser.requests
    assert page == written["notebook"].as_uri() and frame.startswith("data:text/html")
    assert browser.errors == []
