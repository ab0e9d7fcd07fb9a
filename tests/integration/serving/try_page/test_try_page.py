"""The page in a real browser, before real models: what it shows is what the REST API answers."""

from __future__ import annotations

import json
import time

import pytest
from browser import Browser
from page_server import EXPLAINER, Served, opened
from pages import HOSTILE
from tiny_models import Tiny, push

from bertline.serving.settings import TryPage

TASKS = ("classification", "answering", "matching")
QUESTION = {"question": "what colour ?", "context": "🙂 the cat un red abc"}
PATIENCE = 120.0


@pytest.fixture(scope="module")
def served(learned_model, tmp_path_factory):
    folders = {task: learned_model(task) / task for task in TASKS}
    tagger = tmp_path_factory.mktemp("tagger")
    push(Tiny("tagging", ("text",)), tagger)
    with opened({**folders, "tagging": tagger}, TryPage(EXPLAINER)) as found:
        yield found


class Page:
    """The page of a server, used as a person does."""

    def __init__(self, browser: Browser, served: Served) -> None:
        self.browser, self.served = browser, served
        browser.open(served.address)
        self.wait("document.documentElement.dataset.ready")

    def wait(self, script: str) -> None:
        end = time.monotonic() + PATIENCE
        while not self.browser.ask(f"Boolean({script})"):
            assert time.monotonic() < end, (script, self.text("body"))
            time.sleep(0.03)

    def text(self, selector: str) -> str:
        return self.browser.ask(f"document.querySelector({json.dumps(selector)})?.textContent ?? ''")

    def texts(self, selector: str) -> list[str]:
        return self.browser.ask(f"[...document.querySelectorAll({json.dumps(selector)})].map(found => found.textContent)")

    def choose(self, model: str) -> None:
        self.browser.ask(
            "(picker => { picker.value = [...picker.options].find(option => option.value.startsWith('"
            f"{model}/')).value; picker.dispatchEvent(new Event('change')); }})(document.getElementById('model'))"
        )

    def mode(self, value: str) -> None:
        self.browser.ask(f"document.querySelector('[name=mode][value={value}]').click()")

    def fill(self, selector: str, text: str) -> None:
        self.browser.ask(f"document.querySelector({json.dumps(selector)}).focus()")
        self.browser.write(text)

    def send(self) -> None:
        self.browser.click("#submit")
        self.wait(
            "document.getElementById('status').textContent.startsWith('Answered')"
            " || document.getElementById('problem').textContent"
        )


@pytest.fixture
def page(browser, served):
    """Opened anew; nothing may go wrong in it, and no other host is asked, whatever a test does."""
    browser.errors.clear()
    browser.requests.clear()
    browser.look(1280)
    found = Page(browser, served)
    yield found
    browser.settle()
    assert browser.errors == []
    assert browser.requests and all(address.startswith((served.address, "blob:")) for address in browser.requests)
    assert browser.ask("document.images.length") == 0 and "taken over" not in browser.ask("document.title")


def percent(share: float) -> str:
    if 0.999 < share < 1:
        return "> 99.9 %"
    return "< 0.1 %" if 0 < share < 0.001 else f"{100 * share:.1f} %"


def test_classes_are_shown_as_rest_answers_and_a_click_tells_why(page, served):
    row = {"text": f"a {HOSTILE}", "text_2": "superb"}
    page.choose("classification")
    for name, text in row.items():
        page.fill(f"textarea[name={name}]", text)
    page.browser.key("Enter", 13)  # a new line, and no request
    page.browser.do(
        "Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, modifiers=2
    )
    page.wait("document.querySelector('.headline')")
    found = served.predicted("classification", row)
    pairs = sorted(zip(found["probabilities"], found["classes"], strict=True), reverse=True)
    assert page.text(".headline") == found["label"]
    assert page.texts(".shares .name") == [name for _, name in pairs]
    assert page.texts(".shares .number") == [percent(share) for share, _ in pairs]
    assert page.text("#status").startswith("Answered by classification, version 3, in ")
    widths = page.browser.ask("[...document.querySelectorAll('.shares .bar > span')].map(bar => bar.style.inlineSize)")
    assert [float(width.rstrip("%")) for width in widths] == pytest.approx([100 * share for share, _ in pairs], abs=0.01)

    page.browser.click(".shares li:nth-child(2) .why-button")
    page.wait("document.querySelector('.reasons h4')")
    told = served.explained({"model": "classification", "texts": row, "label": pairs[1][1]})[1]["attributions"][0]
    assert page.text(".reasons h4") == f"Why: {pairs[1][1]}" == f"Why: {told['of']}"
    assert page.texts(".shaded") == [row["text"], row["text_2"]]
    strongest = max(told["words"], key=lambda word: abs(word["added"]))
    assert strongest["shown"] == "superb"
    assert (
        page.text(".reasons tbody th") == "superb"
        and page.text(".reasons tbody td")[1:] == f"{abs(strongest['added']):.3f}"
    )
    side = "pro" if strongest["added"] > 0 else "contra"
    assert page.texts(f".shaded .{side}").count("superb") == 1


def test_entities_are_coloured_where_rest_says_that_they_are(page, served):
    text = "🙂 the café, un abc the un"
    page.choose("tagging")
    page.fill("textarea[name=text]", text)
    page.send()
    found = served.predicted("tagging", {"text": text})
    count = found["count"]
    assert count > 0
    marks = page.browser.ask("[...document.querySelectorAll('.entity')].map(mark => mark.firstChild.textContent)")
    assert marks == found["entities"][:count]
    assert marks == [text[start:end] for start, end in zip(found["starts"], found["ends"], strict=True)][:count]
    assert page.texts(".entity .type") == found["types"][:count]
    assert page.texts(".shares .number") == [percent(share) for share in found["probabilities"][:count]]
    shown = "(() => { const p = document.querySelector('.tagged').cloneNode(true);"
    assert (
        page.browser.ask(f"{shown} p.querySelectorAll('.type').forEach(t => t.remove()); return p.textContent; }})()")
        == text
    )


def test_an_answer_is_highlighted_in_its_passage_by_characters(page, served):
    page.choose("answering")
    for name, text in QUESTION.items():
        page.fill(f"textarea[name={name}]", text)
    page.send()
    found = served.predicted("answering", QUESTION)
    assert page.text(".headline") == found["answer"] == "red"
    assert page.text(".passage") == QUESTION["context"]
    assert page.text(".passage mark") == QUESTION["context"][found["start"] : found["end"]] == "red"
    given = [text for text, score in zip(found["n_best"], found["n_best_scores"], strict=True) if score > 0]
    assert page.texts(".span-button") == [text or "no answer" for text in given]


def test_a_table_is_answered_row_by_row_and_opened(page, served):
    page.choose("classification")
    page.mode("many")
    cells = [("id", "second", "text"), ("1", "superb, moving", "a"), ("2", "boring", "the a"), ("3", "", "a")]
    table = "\n".join(",".join(f'"{cell}"' for cell in row) for row in cells)
    page.browser.ask(
        f"(input => {{ const given = new DataTransfer(); given.items.add(new File([{json.dumps(table)}], 'rows.csv'));"
        " input.files = given.files; input.dispatchEvent(new Event('change')); })(document.querySelector('[type=file]'))"
    )
    page.wait("document.querySelector('.columns select')")
    chosen = page.browser.ask("[...document.querySelectorAll('.columns select')].map(one => one.selectedOptions[0].text)")
    assert chosen == ["text", "second"] and page.text(".columns .note") == "3 rows."
    page.send()
    rows = [{"text": "a", "text_2": "superb, moving"}, {"text": "the a", "text_2": "boring"}]
    labels = [served.predicted("classification", row)["label"] for row in rows]
    assert page.texts(".rows .short > span:first-child") == labels
    assert "1 row without text left out." in page.text("#status")
    page.browser.click(".rows button")
    assert page.text(".opened .headline") == labels[0]
    assert page.browser.ask("document.querySelector('.rows button').getAttribute('aria-expanded')") == "true"


def test_pasted_pairs_are_answered_line_by_line(page, served):
    page.choose("classification")
    page.mode("many")
    page.fill("textarea", "a\tsuperb\nthe un\tboring\n")
    page.send()
    rows = [{"text": "a", "text_2": "superb"}, {"text": "the un", "text_2": "boring"}]
    assert page.texts(".rows td.text") == [text for row in rows for text in row.values()]
    labels = [served.predicted("classification", row)["label"] for row in rows]
    assert page.texts(".rows .short > span:first-child") == labels
    assert page.texts(".counts li") == [f"{label} 1" for label in labels]


def test_the_nearest_of_a_list_are_found_by_the_vectors(page, served):
    texts = ["meows", "barks", "sings the un", "moos"]
    page.choose("matching")
    page.mode("nearest")
    page.fill("textarea", "the cat")
    page.fill(".among textarea", "\n".join(texts))
    page.send()
    asked = {"signature_name": "embed", "instances": [{"text": text} for text in ["the cat", *texts]]}
    first, *others = served.json("POST", "/v1/models/matching:predict", asked)[1]["predictions"]
    alike = {text: sum(map(float.__mul__, first, vector)) for text, vector in zip(texts, others, strict=True)}
    ranked = sorted(texts, key=lambda text: -alike[text])
    assert page.texts(".shares .name") == ranked
    assert [float(number) for number in page.texts(".shares .number")] == pytest.approx(
        [alike[t] for t in ranked], abs=6e-4
    )


def test_what_goes_wrong_is_said_in_a_sentence(page, served):
    page.choose("classification")
    page.send()
    assert page.text("#problem") == "First text is empty: write or paste something."
    assert page.browser.ask("document.activeElement.name") == "text"
    page.browser.ask('fetch = async () => new Response(\'{"error": "the disk is on fire"}\', {status: 500})')
    for name in ("text", "text_2"):
        page.fill(f"textarea[name={name}]", "a")
    page.send()
    assert page.text("#problem") == "The server refused this (HTTP 500): the disk is on fire"
    page.browser.ask("fetch = async () => { throw new TypeError('Failed to fetch'); }")
    page.send()
    page.wait("document.getElementById('problem').textContent.startsWith('The server does not respond.')")


def test_tables_are_read_as_people_write_them(page):
    def run(module: str, names: str, script: str):
        return page.browser.ask(f"import('/page/{module}').then(({{{names}}}) => {script})")

    def table(text: str, name: str):
        given = f"{json.dumps(text)}, {json.dumps(name)}"
        seen = f"[columnsOf(tableOf({given}))].map(seen => [seen.names, seen.rows, seen.isCut])[0]"
        return run("tables.js", "tableOf, columnsOf", seen)

    quoted = 'text;label\r\n"a; ""b""\nc";x\r\nd;y\r\n'
    assert table(quoted, "a.csv") == [["text", "label"], [['a; "b"\nc', "x"], ["d", "y"]], False]
    assert table("One, two.\nThree, four, five.\n", "a.txt") == [
        ["column 1"],
        [["One, two."], ["Three, four, five."]],
        False,
    ]
    assert table("text\na\nb\n", "a.csv") == [["text"], [["a"], ["b"]], False]
    names, rows, is_cut = table("1\tb\n" * 700, "many.tsv")
    assert names == ["column 1", "column 2"] and len(rows) == 500 and is_cut
    cells = run("tables.js", "csvOf", 'csvOf([["=1+1", -0.5, "a,\\"b\\""]])')
    assert cells == '\'=1+1,-0.5,"a,""b"""\r\n'
    told = json.dumps('{"a": [-Infinity, NaN, "NaN \\" Infinity"]}')
    assert run("asking.js", "parsed", f"parsed({told})") == {"a": [None, None, 'NaN " Infinity']}


@pytest.mark.parametrize("width", [1280, 800, 400])
def test_nothing_is_wider_than_the_window(page, width):
    page.browser.look(width)
    page.choose("classification")
    page.fill("textarea[name=text]", "a" * 300)
    page.fill("textarea[name=text_2]", "superb " * 30)
    page.send()
    assert page.browser.ask("document.documentElement.scrollWidth <= innerWidth")
    names = "[...document.querySelectorAll('button, input, select, textarea')].filter(one => one.checkVisibility() && !("
    assert page.browser.ask(f"{names} one.labels?.length || one.ariaLabel || one.textContent.trim())).length") == 0
