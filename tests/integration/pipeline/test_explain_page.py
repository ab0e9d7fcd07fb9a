"""The page of an explanation in a real browser. The pictures stay in pytest's folder: why-1280-light.png and so on."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from browser import Browser
from pages import HOSTILE, assert_accessible, assert_self_contained

from bertline.models.explain.explanation import Attention, Attribution, Explanation
from bertline.models.explain.gradients import Integrated
from bertline.models.explain.reading import Reading, Word
from bertline.pipeline.inference.explain import page

WORDS = 198  # with [CLS] and [SEP], 200 tokens
LAYERS, HEADS = 6, 12
PIXELS = """(canvas => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", {willReadFrequently: true});
  copy.drawImage(canvas, 0, 0);
  return copy.getImageData(0, 0, canvas.width, canvas.height).data;
})"""


@cache
def explanation() -> Explanation:
    """As large as half of BERT-base on a long text: 72 maps of 200 by 200."""
    random = np.random.default_rng(0)
    names = [f"word{number}" for number in range(WORDS - 1)] + [HOSTILE]
    text = " ".join(names)
    starts = np.cumsum([0, *(len(name) + 1 for name in names[:-1])]).tolist()
    words = tuple(Word(0, start, start + len(name), name) for start, name in zip(starts, names, strict=True))
    tokens = ("[CLS]", *names, "[SEP]")
    reading = Reading(tokens, words, np.asarray([-1, *range(WORDS), -1]))
    added = random.normal(size=len(tokens)) * (reading.word_of >= 0)
    added[6], added[8] = 9.0, -6.0  # word5 and word7
    found = Integrated(added, float(added.sum()) + 1, 1.0, 1e-5, 37)
    weights = random.random((LAYERS, HEADS, len(tokens), len(tokens))) ** 30  # a few of each row are large
    layers = tuple(weights / weights.sum(-1, keepdims=True))
    layers[2][3, 10] = np.eye(len(tokens))[20]  # in layer 3, head 4 sees nothing from word9 but word19
    attention = Attention("encoder", layers, (tuple(range(HEADS)),) * LAYERS, tokens, tokens)
    attributions = (Attribution(f"good {HOSTILE}", "log-odds", reading, found),)
    return Explanation("classification", "good 0.9", {"text": text}, attributions, {"encoder": attention}, (HOSTILE,))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "why.html"
    page(explanation()).write(path)
    return path


@pytest.fixture
def shown(browser, written):
    """The page, opened anew and drawn; nothing may go wrong in it, whatever a test does."""
    browser.errors.clear()
    browser.requests.clear()
    browser.look(1280)
    browser.open(written.as_uri())
    browser.ask(
        "new Promise(done => { const look = () => document.documentElement.dataset.drawn ? done()"
        " : requestAnimationFrame(look); look(); })"
    )
    yield browser
    browser.settle()
    assert browser.errors == []
    assert browser.requests == [written.as_uri()]
    assert browser.ask("document.title") == f"Why: good {HOSTILE}" and browser.ask("document.images.length") == 0


def readout(browser: Browser) -> str:
    return browser.ask("document.getElementById('readout').textContent")


def focused(browser: Browser) -> str:
    return browser.ask("document.activeElement.getAttribute('aria-label') ?? document.activeElement.id")


def test_words_are_shaded_by_what_they_add_and_marked_without_colour_too(shown):
    style = "getComputedStyle([...document.querySelectorAll('.shaded .word')].find(e => e.textContent === '{}')).{}"
    strong, against, weak = (shown.ask(style.format(word, "backgroundColor")) for word in ("word5", "word7", "word100"))
    assert strong == "rgba(0, 114, 178, 0.5)" and against.startswith("rgba(213, 94, 0, 0.33")
    assert weak != strong
    lines = [shown.ask(style.format(word, "textDecorationStyle")) for word in ("word5", "word7")]
    assert lines == ["solid", "wavy"]
    assert shown.ask("document.querySelector('.shaded').textContent").strip() == explanation().texts["text"]
    assert shown.ask("document.querySelector('#words-0 tbody th').textContent") == "word5"


def test_the_page_is_whole_in_itself_and_for_readers_who_do_not_see_it(written):
    html = written.read_text(encoding="utf-8")
    assert_self_contained(html)
    assert_accessible(html)


def test_the_map_has_tokens_on_both_axes_and_the_small_ones_their_layer_and_head(shown):
    for axis in ("map-rows", "map-columns"):
        labels = shown.ask(f"[...document.querySelectorAll('#{axis} text')].map(e => e.textContent)")
        # As many as have room, and that which is read.
        assert 10 < len(set(labels)) == len(labels) < WORDS
        assert shown.ask(f"document.querySelectorAll('#{axis} .chosen').length") == 1
    shown.hover("#map", across=0.1)
    chosen = [shown.ask(f"document.querySelector('#{axis} .chosen').textContent") for axis in ("map-rows", "map-columns")]
    assert readout(shown).startswith(f"{chosen[0]} attends to {chosen[1]}")
    # A label stands beside the line that it is the name of.
    line, label = (
        shown.ask(f"(b => b.top + b.height / 2)(document.querySelector('{of}').getBoundingClientRect())")
        for of in ("#map-row", "#map-rows .chosen")
    )
    assert abs(line - label) < 3
    names = shown.ask("[...document.querySelectorAll('.head-name')].map(e => e.textContent)")
    assert names[:2] == ["all", "L1 H1"] and names[-1] == f"L{LAYERS} H{HEADS}"


def test_every_head_has_its_small_map_with_a_name(shown):
    names = shown.ask("[...document.querySelectorAll('.heads button')].map(e => e.getAttribute('aria-label'))")
    assert len(names) == LAYERS * HEADS + 1 == len(set(names))
    assert names[0] == "All layers together (rollout)" and names[-1].endswith("layer 6, head 12")
    assert shown.ask(f"[...document.querySelectorAll('canvas')].filter(c => !{PIXELS}(c).some(p => p === 255)).length") == 0


def test_the_arrow_keys_go_through_the_heads_and_enter_looks_closely(shown):
    shown.ask("document.querySelector('#grids > :last-child button').focus()")
    for name, code in (("ArrowDown", 40), ("ArrowDown", 40), ("ArrowRight", 39), ("ArrowRight", 39), ("ArrowRight", 39)):
        shown.key(name, code)
    assert focused(shown).endswith("layer 3, head 4")
    assert shown.ask("getComputedStyle(document.activeElement).outlineStyle") == "solid"  # one sees where one is
    assert shown.ask("document.querySelectorAll('#grids > :last-child [tabindex=\"0\"]').length") == 1
    shown.key("Enter", 13, "\r")
    assert focused(shown) == "map"
    assert shown.ask("document.getElementById('map-title').textContent").endswith("layer 3, head 4")
    for _ in range(10):
        shown.key("ArrowDown", 40)
    assert readout(shown).startswith("word9 attends to ") and "Most: word19 1.00" in readout(shown)
    shown.key("Home", 36)
    assert readout(shown).startswith("[CLS] attends to [CLS]")
    shown.key("Escape", 27)
    assert focused(shown).endswith("layer 3, head 4")


def test_pointing_at_the_map_or_at_a_piece_tells_where_it_looks(shown):
    shown.click("#grids > :last-child tbody tr:nth-child(3) td:nth-of-type(4) button")
    shown.hover("#map", across=0.1)
    across, down = readout(shown), shown.ask("document.querySelector('#looking .chosen').textContent")
    assert across.startswith(f"{down} attends to word1") and down == "word99"
    shown.hover("#looking li:nth-child(11)")
    assert readout(shown).startswith("word9 attends to word19: 1.00")
    assert shown.ask("document.querySelector('#looked-at .chosen').textContent") == "word19"
    assert shown.ask("document.querySelectorAll('#strands path').length") == 1


def test_the_page_is_readable_light_and_dark_wide_and_narrow(shown, written):
    grounds, drawn = [], []
    for width, dark in ((400, False), (400, True), (1280, False), (1280, True)):
        shown.look(width, dark=dark)
        shown.picture(written.with_name(f"why-{width}-{'dark' if dark else 'light'}.png"))
        grounds.append(shown.ask("getComputedStyle(document.body).backgroundColor"))
        drawn.append(shown.ask(f"[...{PIXELS}(document.querySelector('.heads canvas')).slice(0, 3)]"))
        # Maps and lists scroll in themselves; the page itself never goes sideways.
        assert shown.ask("document.documentElement.scrollWidth") <= width
        assert shown.ask("parseFloat(getComputedStyle(document.querySelector('#looking li')).fontSize)") >= 12
    assert grounds[0] == grounds[2] == "rgb(255, 255, 255)" and grounds[1] == grounds[3] != grounds[0]
    assert drawn[0] == drawn[2] != drawn[1]  # the maps follow the colours


def test_maps_that_are_too_many_are_left_out_and_that_is_said(monkeypatch):
    monkeypatch.setattr("bertline.pipeline.inference.explain.page._MAX_WEIGHTS", 1000)
    html = page(explanation()).html
    assert 'id="attention"' not in html and "too long for the maps of all heads" in html
