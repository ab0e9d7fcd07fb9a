"""The page of a comparison in a real browser. The pictures stay in pytest's folder: page-1280-light.png and so on."""

from __future__ import annotations

import math

import pytest
from browser import Browser
from recorded_runs import LABELS, Record, answers, falling, judged

from bertline.pipeline.runs.compare.comparison import compare
from bertline.pipeline.runs.compare.page import render
from bertline.pipeline.runs.store import run_store

HOSTILE = "</script><img src=x onerror=\"document.title='taken over'\">"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Three runs: a short training, a longer one, and one whose training came from the cache."""
    folder = tmp_path_factory.mktemp("page")
    record = Record(folder / "workspace")
    texts = {number: f"{HOSTILE} {number}" for number in range(0, 200, 3)}
    for at, (right, steps) in enumerate(((0.7, 60), (0.9, 90), (0.92, 900))):
        rows = answers(200, right=right, seed=at, texts=texts)
        record.run(
            f"reviews 🚀 {at} {HOSTILE if at == 1 else ''}",
            params={"training.epochs": 1 + at, **{f"long.{n}": f"{n} {at}" for n in range(500 if at == 2 else 3)}},
            verdict=judged(rows),
            rows=rows,
            curves={
                "train/loss": [*falling(0.7, 0.3 - at / 20, steps), math.nan],
                "eval_epoch/loss": [0.5, 0.45, 0.4 - at / 50],
                "eval_epoch/accuracy": [0.5, 0.6, right],
            },
            tags={"step.Trainer": "cached"} if at == 2 else {},
        )
    with run_store(str(record.workspace), "the runs") as store:
        render(compare(store, store.newest(3)[::-1])).write(folder / "compare.html")
    return folder / "compare.html"


@pytest.fixture
def shown(browser, page):
    """The page, opened anew; nothing may go wrong in it, whatever a test does."""
    browser.errors.clear()
    browser.requests.clear()
    browser.look(1280)
    browser.open(page.as_uri())
    yield browser
    browser.settle()
    assert browser.errors == []
    assert browser.ask("document.title") == "3 runs of reviews"


def visible(browser: Browser, selector: str) -> int:
    return browser.ask(f"[...document.querySelectorAll('{selector}')].filter(e => e.getClientRects().length).length")


def readout(browser: Browser) -> str:
    return browser.ask("document.querySelector('.readout').textContent")


def test_the_page_asks_for_nothing_but_itself_and_runs_no_text(shown, page):
    shown.settle()
    assert shown.requests == [page.as_uri()]
    assert shown.ask("document.images.length") == 0
    assert HOSTILE in shown.ask("document.querySelector('#flip-table').textContent")


def test_pointing_at_a_curve_tells_the_value_of_each_run(shown):
    shown.hover("#charts svg", 0.5)
    told = readout(shown)
    assert told.startswith("step ") and all(run in told for run in "ABC")
    assert "(step 60)" in told and told.count("(") == 2  # where the two shorter trainings ended
    shown.hover("h1")
    assert readout(shown) == ""


def test_the_keyboard_goes_along_a_curve(shown):
    shown.ask("document.querySelector('#charts svg').focus()")
    shown.key("ArrowRight", 39)
    assert readout(shown).startswith("step 1")
    begin = readout(shown)
    shown.key("ArrowRight", 39)
    assert readout(shown) != begin
    shown.key("End", 35)
    assert readout(shown).startswith("step 90") or readout(shown).startswith("step 89")
    shown.key("Escape", 27)
    assert readout(shown) == ""


def test_the_legend_hides_a_run_by_mouse_and_keyboard(shown):
    assert visible(shown, "#charts path.run-1") == 3
    shown.click("#legend button[data-run='1']")
    assert visible(shown, "#charts path.run-1") == 0 and visible(shown, "#charts path.run-0") == 3
    shown.hover("#charts svg", 0.5)
    assert "B" not in readout(shown)
    shown.ask("document.querySelector(\"#legend button[data-run='1']\").focus()")
    shown.key("Enter", 13, "\r")
    assert visible(shown, "#charts path.run-1") == 3


def test_curves_are_drawn_over_time_but_for_a_training_that_was_cached(shown):
    before = shown.ask("document.querySelector('#charts path.curve').getAttribute('d')")
    shown.click("input[value=time]")
    assert visible(shown, "#charts path.run-2") == 0 and visible(shown, "#charts path.run-0") == 3
    assert "C: the training came from the cache" in readout(shown)
    shown.hover("#charts svg", 0.5)
    assert " s" in readout(shown)
    shown.click("input[value=step]")
    assert shown.ask("document.querySelector('#charts path.curve').getAttribute('d')") == before


def test_flipped_answers_are_filtered_by_run_direction_and_text(shown):
    rows = "#flip-table tbody tr"
    everything = visible(shown, rows)
    shown.ask("document.querySelector('#flip-filter [name=became]').focus()")
    shown.key("ArrowDown", 40)
    some = visible(shown, f"{rows}[data-became=right]")
    assert 0 < some < everything and visible(shown, rows) == some
    shown.click("#flip-filter [name=text]")
    shown.write("ONERROR")
    few = visible(shown, rows)
    assert 0 < few < some
    assert shown.ask("document.getElementById('flip-count').textContent") == f"{few} shown"


def test_slices_are_shown_by_the_metric_that_is_chosen(shown):
    assert visible(shown, ".slice-table") == 1 and visible(shown, ".slice-table .whisker") == 8
    shown.ask("document.querySelector('#slice-metric').focus()")
    shown.key("ArrowDown", 40)
    assert visible(shown, ".slice-table") == 1
    assert shown.ask("document.querySelector('.slice-table[data-metric=\"0\"]').hidden")


def test_each_run_has_a_card_with_its_difference_and_interval(shown):
    cards = shown.ask("[...document.querySelectorAll('.card')].map(card => card.textContent.replace(/\\s+/g, ' '))")
    assert len(cards) == 3 and "the reference" in cards[0] and all("accuracy" in card for card in cards)
    assert "▲ +0." in cards[1] and "[+0." in cards[1] and ", better" in cards[1]


def test_confusion_matrices_stand_side_by_side(shown):
    assert visible(shown, "table.confusion") == 3
    assert all(label in shown.ask("document.querySelector('.confusion').textContent") for label in LABELS)


def test_on_paper_tables_are_whole_and_flips_are_few(shown, page):
    shown.look(794)
    shown.do("Emulation.setEmulatedMedia", media="print")
    assert visible(shown, "#flip-table tbody tr") == 60 and visible(shown, "#flip-filter") == 0
    assert shown.ask("(box => box.scrollHeight === box.clientHeight)(document.querySelector('.tall'))")
    shown.picture(page.with_name("page-paper.png"))
    shown.do("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_is_readable_light_and_dark_wide_and_narrow(shown, width, page):
    grounds = []
    for dark in (False, True):
        shown.look(width, dark=dark)
        shown.picture(page.with_name(f"page-{width}-{'dark' if dark else 'light'}.png"))
        grounds.append(shown.ask("getComputedStyle(document.body).backgroundColor"))
        # Tables scroll in themselves; the page itself never goes sideways.
        assert shown.ask("document.documentElement.scrollWidth") <= width
    assert grounds[0] == "rgb(255, 255, 255)" and grounds[1] != grounds[0]
