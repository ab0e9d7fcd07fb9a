"""A model of every task, exported and served: the client and the command answer as its folder does."""

from __future__ import annotations

import asyncio
import functools
import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from graph_ops import ops, unknown_ops
from learned import VERSION
from tensorflow_serving.config import model_server_config_pb2
from tiny_models import CLASSES, EVERY

from bertline.pipeline.cli import main
from bertline.pipeline.config import task_names
from bertline.pipeline.inference import predictor
from bertline.serving.client.sync import AsyncClient, Client, ServingError
from bertline.serving.embedded.server import Server
from bertline.serving.settings import ServerSettings

MODELS = {tiny.task: tiny for tiny in EVERY}
"""One of each task; where a row may have one text or two, it has two."""
PAIR = ["the cafe", "--second", "un abc"]
ASKED = {
    "classification": PAIR,
    "multilabel": PAIR,
    "regression": PAIR,
    "similarity": PAIR,
    "matching": PAIR,
    "choice": [*PAIR, "--choice", "abc", "--choice", "the un a", "--choice", "cafe"],
    "tagging": ["the café, un abc"],
    "answering": ["the cafe?", "--second", "un abc the 🎬 cafe a b c"],
    "pretraining": ["the [MASK] abc [MASK]"],
}


@pytest.fixture(scope="module")
def folders(every_model):
    return every_model()


def test_the_graphs_hold_only_ops_that_the_stock_server_links(folders):
    assert set(folders) == set(task_names())
    assert all(len(ops(folder)) > 20 for folder in folders.values()) and unknown_ops(folders.values()) == {}


@pytest.mark.parametrize("task", ["answering", "translation"])
def test_an_exported_graph_explains_its_answers(folders, task):
    result = CliRunner().invoke(main, ["explain", str(folders[task]), *ASKED.get(task, ["the cafe abc"]), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    for attribution in found["attributions"]:
        change = attribution["score"] - attribution["baseline"]
        assert abs(sum(word["added"] for word in attribution["words"]) - change) < 1e-3 and attribution["complete"]
    np.testing.assert_allclose(np.sum(found["rollout"], axis=1), 1, atol=1e-4)
    if task == "translation":
        assert np.shape(found["alignment"])[1] == len(found["attributions"][0]["pieces"])


@pytest.fixture(scope="module")
def address(folders):
    config = model_server_config_pb2.ModelServerConfig()
    for task, folder in folders.items():
        config.model_config_list.config.add(name=task, base_path=str(folder.parent), model_platform="tensorflow")
    server = Server(ServerSettings(models=config, port=0, rest_api_port=None))
    server.start()
    yield f"localhost:{server.port}"
    server.stop()


@pytest.fixture
def client(address):
    """Makes a client of one of the models."""
    made = []

    def make(task):
        made.append(Client(address, task, timeout=60.0))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="module", autouse=True)
def folders_are_loaded_once():
    load = predictor._load
    kept_open = functools.cache(lambda *given: replace(load(*given), close=lambda: None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictor, "_load", kept_open)
        yield


def predict(*arguments):
    done = CliRunner().invoke(main, ["predict", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


def nearly(value):
    """Floats may differ in their last digits between two ways to run a graph."""
    if isinstance(value, dict):
        return {name: nearly(item) for name, item in value.items()}
    if isinstance(value, list):
        return [nearly(item) for item in value]
    return pytest.approx(value, abs=1e-5) if isinstance(value, float) else value


@pytest.mark.parametrize("task", sorted(ASKED))
def test_the_command_answers_by_a_server_as_by_a_folder(folders, address, task):
    here, there = ("--model", str(folders[task])), ("--server", address, "--name", task)
    assert predict(*there, *ASKED[task]) == predict(*here, *ASKED[task])
    wanted, found = (json.loads(predict(*where, "--json", *ASKED[task])) for where in (here, there))
    assert found == nearly({**wanted, "version": VERSION})


def test_masks_are_filled_and_texts_are_embedded_by_their_options(folders, address):
    for task, arguments in (("pretraining", ["--mask", "the [MASK]"]), ("matching", ["--embed", "the cafe"])):
        by_server = predict("--server", address, "--name", task, *arguments)
        assert by_server == predict("--model", str(folders[task]), *arguments)


@pytest.mark.parametrize(
    ("task", "columns"),
    [
        ("tagging", {"text": lambda n: "the cafe un " * (n % 7)}),
        ("choice", {"text": lambda n: "a " * (n % 5), "text_2": lambda n: "b", "choices": lambda n: ["abc"] * (1 + n % 4)}),
        ("answering", {"question": lambda n: "the?", "context": lambda n: "un abc the cafe " * (1 + n % 9)}),
    ],
)
def test_a_file_is_answered_by_a_server_as_by_a_folder(folders, address, tmp_path, task, columns):
    """Rows whose answers differ in length, over several requests."""
    rows = [{"id": n, **{name: make(n) for name, make in columns.items()}} for n in range(150)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    by_folder, by_server = (
        [json.loads(line) for line in predict(*where, "--file", str(tmp_path / "in.jsonl")).splitlines()]
        for where in (("--model", str(folders[task])), ("--server", address, "--name", task))
    )
    assert [row["id"] for row in by_server] == list(range(150))
    for wanted, found in zip(by_folder, by_server, strict=True):
        assert found == nearly({**wanted, "version": VERSION})


def test_classes_are_named_with_their_probabilities(client):
    first, second = client("classification").classify(["the cafe", "abc"], ["un", "the un"])
    assert first.version == second.version == VERSION
    assert tuple(first.probabilities) == CLASSES and sum(first.probabilities.values()) == pytest.approx(1, abs=1e-5)
    assert first.label == max(first.probabilities, key=first.probabilities.get)
    (found,) = client("multilabel").classes("the cafe", "un")
    assert tuple(found.probabilities) == CLASSES
    assert set(found.labels) == {name for name, share in found.probabilities.items() if share > 0.5}


def test_numbers_and_vectors_fit_each_other(client):
    assert np.isfinite(client("regression").regress("the cafe", "un")[0].value)
    for task in ("similarity", "matching"):
        one, other = (found.vector for found in client(task).embed(["the cafe", "un abc"]))
        (found,) = client(task).similarity("the cafe", "un abc")
        assert found.similarity == pytest.approx(float(one @ other), abs=1e-5) and found.version == VERSION


def test_a_choice_is_one_of_those_given(client):
    choices = ["abc", "très", "cafe"]
    found = client("choice").choose("the", choices, "un")
    assert found.choice == choices[found.index] and len(found.probabilities) == 3
    assert found.probabilities[found.index] == max(found.probabilities)


def test_entities_answers_and_fillings_have_their_places(client):
    text = "the café 🎬 un abc"
    (tagged,) = client("tagging").tag(text)
    assert all(text[entity.start : entity.end] == entity.text for entity in tagged.entities)
    context = "un 🎬 abc the cafe a b c"
    found = client("answering").answer("the cafe?", context)
    assert found.text == context[found.start : found.end] and 0 < found.score <= 1
    assert found.n_best and all(context[span.start : span.end] == span.text for span in found.n_best)
    none, two = client("pretraining").fill_mask(["the cafe", "[MASK] abc [MASK]"])
    assert none.masks == () and len(two.masks) == 2
    assert all(mask[0].probability == max(filling.probability for filling in mask) for mask in two.masks)


def test_more_rows_than_a_batch_are_answered_as_they_are_one_by_one(client):
    asked = client("classification")
    texts = ["the cafe " * (1 + number % 5) + "abc" * (number % 3) for number in range(150)]
    together = asked.classify(texts, ["un"] * len(texts))
    for text, found in list(zip(texts, together, strict=True))[::10]:
        (alone,) = asked.classify(text, "un")
        assert found.probabilities == pytest.approx(dict(alone.probabilities), abs=1e-5)


def test_a_call_of_another_task_names_the_right_one(client):
    with pytest.raises(ServingError, match="not a response to classes; use classify"):
        client("classification").classes("the", "cafe")


def test_many_tasks_of_one_loop_are_answered_each_with_its_own(address):
    async def ask():
        async with AsyncClient(address, "similarity", timeout=60.0) as client:
            return await asyncio.gather(*(client.similarity("the cafe", text) for text in ("the cafe", "un", "abc")))

    (same,), (one,), (other,) = asyncio.run(ask())
    assert same.similarity == pytest.approx(1, abs=1e-5) and one.similarity != other.similarity
