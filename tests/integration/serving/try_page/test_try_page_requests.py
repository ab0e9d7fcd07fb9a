"""What the page's paths answer, and to whom: headers, names of the host, the flag and the bounds. No browser is needed."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from contextlib import nullcontext

import pytest
from page_server import opened
from served_models import save

from bertline.models.responses.types import KINDS
from bertline.models.tasks.base.task import tasks_with
from bertline.pipeline.inference.explain.lines import explained
from bertline.serving.contract import write_metadata
from bertline.serving.embedded.errors import Call, RequestError
from bertline.serving.embedded.lifecycle.known import Lease
from bertline.serving.embedded.try_page.explainer import Explaining
from bertline.serving.embedded.try_page.routes import _HERE, FILES
from bertline.serving.settings import TryPage

ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
SILENT = "import sys, time\nfor line in sys.stdin: time.sleep(600)"
FAILING = "import sys\nsys.stdin.readline()\nsys.exit(3)"


def page(script: str = ECHO, seconds: float = 60.0) -> TryPage:
    """A page whose explanations a script makes up."""
    return TryPage((sys.executable, "-c", script), explain_seconds=seconds)


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    """A model of no task of ours."""
    base = tmp_path_factory.mktemp("halves")
    save(base / "1", default="halves")
    save(base / "2", default="halves")
    return base


@pytest.fixture(scope="module")
def served(halves):
    with opened({"m": halves}, page()) as found:
        yield found


QUESTION = {"model": "m", "texts": {"text": "a"}}


def test_the_page_brings_a_policy_that_lets_it_ask_this_server_alone(served):
    for path, kind in [("/", "text/html"), ("/page/page.js", "text/javascript"), ("/page/page.css", "text/css")]:
        status, headers, body = served.ask("GET", path)
        assert status == 200 and headers["content-type"].startswith(kind) and body
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
        assert "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers


def test_the_files_name_no_other_host_and_no_script_within_the_page():
    assert {path.name for path in _HERE.iterdir() if path.suffix in (".html", ".css", ".js")} == set(FILES)
    for name in FILES:
        text = (_HERE / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://|@import|url\(|innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text), (
            name
        )
    html = (_HERE / "page.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|style=|\son\w+=|<script(?! type=\"module\" src=)", html)
    named = [re.findall(r'from "\./([\w.]+)"', (_HERE / name).read_text(encoding="utf-8")) for name in FILES]
    assert {name for names in named for name in names} <= set(FILES)


def test_every_kind_of_answer_can_be_shown():
    known = re.search(r"KINDS = \{ (.+?) \}", (_HERE / "answers.js").read_text(encoding="utf-8"))
    assert known and set(known[1].split(", ")) == {kind.call for kind in KINDS if tasks_with(kind)}


@pytest.mark.parametrize("host", ["localhost", "localhost:8501", "127.0.0.1", "127.0.0.1:9", "[::1]:8501"])
def test_this_machine_is_answered_under_its_own_names(served, host):
    assert served.ask("GET", "/", Host=host)[0] == 200
    assert served.explained(QUESTION, Host=host)[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example:8501", "10.0.0.1", "", "[", "127.0.0.1.evil.example"]
)
@pytest.mark.parametrize("path", ["/", "/page/page.js", "/page/models"])
def test_a_name_that_was_led_here_is_refused(served, host, path):
    assert served.ask("GET", path, Host=host)[0] == 403
    assert served.explained(QUESTION, Host=host)[0] == 403


def test_the_rest_api_is_as_open_as_it_was(served):
    asked = {"instances": [2.0]}
    assert served.json("POST", "/v1/models/m:predict", asked, Host="evil.example") == (200, {"predictions": [3.0]})
    assert served.ask("GET", "/v2/models/m")[0] == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_a_script_of_another_site_cannot_have_answers_explained(served, headers):
    status, said = served.explained(QUESTION, **headers)
    assert status == 403 and said == {"error": "Only the page of this server may send this, as JSON."}


def test_the_page_itself_may(served):
    own = served.address.rstrip("/")
    status, found = served.explained(QUESTION, Origin=own, Sec_Fetch_Site="same-origin")
    assert status == 200 and (found["model"], found["version"]) == ("m", 2) and found["texts"] == {"text": "a"}


def test_what_is_no_path_of_the_page_is_not_found(served):
    for path in ("/page/", "/page/page.html", "/page/routes.py", "/page/../settings.py", "/page/%2e%2e/x", "/pages"):
        assert served.ask("GET", path)[0] == 404, path
    assert [served.ask(method, "/")[0] for method in ("POST", "HEAD", "OPTIONS")] == [405] * 3
    assert served.ask("GET", "/page/explain")[0] == 405


@pytest.mark.parametrize(
    "question",
    [
        b"", b"[", b"[" * 100_000, b"{}", [], {"model": "m"}, {**QUESTION, "texts": {"text": 1}}, {**QUESTION, "start": -1},
        {**QUESTION, "version": "1"}, {**QUESTION, "version": True}, {**QUESTION, "label": 1},
        {**QUESTION, "texts": {"a": [1]}},
    ],
)  # fmt: skip
def test_a_question_that_is_none_is_refused(served, question):
    status, said = served.explained(question)
    assert status == 400 and said["error"].startswith('A question is {"model": NAME')


def test_a_question_that_is_too_large_or_of_no_model_is_refused(served):
    assert served.explained({**QUESTION, "texts": {"text": "a" * (1 << 20)}})[0] == 413
    assert served.explained({**QUESTION, "model": "other"})[0] == 404
    assert served.explained({**QUESTION, "version": 7})[0] == 404


def test_a_model_that_the_page_cannot_show_says_why(served):
    status, found = served.json("GET", "/page/models")
    (model,) = found["models"]
    assert status == 200 and [version["version"] for version in model["versions"]] == [2]
    assert "takes x and gives y" in model["versions"][0]["problem"]


def test_models_that_do_not_answer_are_told_with_the_reason(tmp_path, halves):
    (tmp_path / "1").mkdir()
    with opened({"broken": tmp_path, "m": halves}, page()) as found:
        broken, model = found.json("GET", "/page/models")[1]["models"]
    assert broken["versions"] == [] and broken["problem"].startswith("version 1 could not be loaded: ")
    assert model["versions"]


def test_without_the_page_nothing_is_there(halves):
    with opened({"m": halves}, None) as found:
        for path in ("/", "/page/page.js", "/page/models"):
            assert found.json("GET", path) == (404, {"error": f"Not found: {path}"})
        assert found.explained(QUESTION)[0] == 404


def test_a_page_for_others_answers_to_any_name_and_shows_no_texts_of_the_data(learned_model):
    base = learned_model("classification") / "classification"
    shown = {}
    for host in ("0.0.0.0", "127.0.0.1"):
        with opened({"c": base}, page(), host=host) as found:
            assert found.ask("GET", "/", Host="models.example")[0] == (200 if host == "0.0.0.0" else 403)
            (shown[host],) = found.json("GET", "/page/models")[1]["models"][0]["versions"]
    assert shown["0.0.0.0"]["examples"] == [] and len(shown["127.0.0.1"]["examples"]) == 2
    example = shown["127.0.0.1"]["examples"][0]
    assert list(example) == shown["127.0.0.1"]["texts"] == ["text", "text_2"] and all(example.values())


class Leased:
    """A manager of one version."""

    def lease(self, spec):
        return nullcontext(Lease(spec.name, 1, None))


def explaining(script: str, **settings) -> Explaining:
    return Explaining(TryPage((sys.executable, "-c", script), **settings))


def test_a_version_without_what_explains_it_says_so_in_a_sentence(halves):
    write_metadata(halves / "1", {"task": "classification", "text": {"seq_len": 8}})
    said = json.loads(explained({"folder": str(halves / "1"), "texts": {"text": "a"}}))
    assert said["error"].startswith("this version was pushed by an older Bertline")
    assert "halves" not in said["error"] and said["error"].count(".") == 1
    given = json.loads(explained({"folder": str(halves / "1"), "texts": {"text": ["a"]}}))
    assert given["error"] == "the model reads text; give exactly these texts, and the choices as a list."


def test_one_answer_is_explained_at_a_time():
    made, gone, found = explaining(SILENT), threading.Event(), []

    def wait() -> None:
        try:
            made.ask(Leased(), QUESTION, Call(is_cancelled=gone.is_set))
        except RequestError as error:
            found.append(error.code)

    thread = threading.Thread(target=wait)
    thread.start()
    while not made._turn.locked():
        pass
    with pytest.raises(RequestError, match="RESOURCE_EXHAUSTED: Another prediction is being explained"):
        made.ask(Leased(), QUESTION, Call())
    gone.set()  # the browser was closed
    thread.join()
    assert found == ["CANCELLED"] and made._process is None
    made.stop()


def test_what_takes_too_long_is_given_up_and_the_next_is_explained_again():
    made = explaining(SILENT)
    with pytest.raises(RequestError, match="DEADLINE_EXCEEDED: This takes more than 120 s"):
        made.ask(Leased(), QUESTION, Call(deadline=time.monotonic() + 0.3))
    assert made._process is None
    made._settings = TryPage((sys.executable, "-c", ECHO))
    assert made.ask(Leased(), QUESTION, Call())["version"] == 1
    made.stop()


def test_a_process_that_ends_or_refuses_is_told():
    with pytest.raises(RequestError, match="INTERNAL: The process that explains predictions exited"):
        explaining(FAILING).ask(Leased(), QUESTION, Call())
    refusing = explaining('print(\'{"error": "this version was pushed before"}\')\nimport time; time.sleep(600)')
    with pytest.raises(RequestError, match="FAILED_PRECONDITION: this version was pushed before"):
        refusing.ask(Leased(), QUESTION, Call())
    process = refusing._process
    refusing.stop()
    assert process.poll() is not None
    with pytest.raises(RequestError, match="UNAVAILABLE: The server is shutting down"):
        refusing.ask(Leased(), QUESTION, Call())


def test_a_process_that_nobody_asks_is_ended():
    made = explaining(ECHO, idle_seconds=0.05)
    made.ask(Leased(), QUESTION, Call())
    process = made._process
    assert process.wait(60) is not None
    assert made.ask(Leased(), QUESTION, Call())["version"] == 1  # and another one is started
    made.stop()
