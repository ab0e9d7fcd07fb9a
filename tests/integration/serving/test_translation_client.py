"""A model of the task translation, served: both clients, the command and MLflow's loader read its answers alike."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
from dataclasses import replace

import numpy as np
import pytest
import translations
from click.testing import CliRunner
from tensorflow_serving.config import model_server_config_pb2
from tiny_models import EVERY, push

from bertline.components.serve_check.executor import serve_check
from bertline.models.responses.translation import Sampling, Translated, Translation
from bertline.pipeline.cli import main
from bertline.pipeline.inference import predictor
from bertline.pipeline.pyfunc import TextModel
from bertline.serving.client.sync import AsyncClient, Client, ServingError
from bertline.serving.contract import WARM_UP
from bertline.serving.embedded.server import Server
from bertline.serving.export.samples import make_samples, write_samples
from bertline.serving.settings import ServerSettings

TEXTS = ["Hello", "", "naïve  café 🎬", "a b c"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return translations.push(tmp_path_factory.mktemp("models") / "english", version=5)


@pytest.fixture(scope="module")
def address(folder, tmp_path_factory):
    other = push(EVERY[0], tmp_path_factory.mktemp("other") / "classes", version=1)
    config = model_server_config_pb2.ModelServerConfig()
    for name, base in (("english", folder.parent), ("classes", other.parent)):
        config.model_config_list.config.add(name=name, base_path=str(base), model_platform="tensorflow")
    server = Server(ServerSettings(models=config, port=0, rest_api_port=None))
    server.start()
    yield f"localhost:{server.port}"
    server.stop()


@pytest.fixture(scope="module")
def client(address):
    with Client(address, "english", timeout=60.0) as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def folders_are_loaded_once():
    load = predictor._load
    kept_open = functools.cache(lambda *given: replace(load(*given), close=lambda: None))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictor, "_load", kept_open)
        yield


def test_a_translation_has_its_score_and_the_best_ones_that_there_are(client):
    found = client.translate(TEXTS)
    assert [one.text for one in found] == ["HELLO", "", "NAÏVE  CAFÉ 🎬", "A B C"]
    score = -0.125 * len("Hello")
    best = (Translation("HELLO", score), Translation("Hello", score - 1))  # the third place is left over
    assert found[0] == Translated("HELLO", score, best, version=5) and best[0] == ("HELLO", score)
    (alone,) = client.translate("Hello")
    assert alone == found[0] and client.translate([]) == []


def test_a_sample_is_asked_with_its_numbers_in_the_types_of_the_signature(client):
    (drawn,) = client.translate("x", sample=Sampling(temperature=0.5, top_k=7, top_p=0.25, seed=2**40))
    assert drawn.text == f"x 0.50 7 0.25 {2**40}" and drawn.n_best == ((drawn.text, drawn.score),) and drawn.version == 5
    (small,) = client.translate("x", sample=Sampling(seed=-3))
    assert small.text == "x 1.00 0 1.00 -3"


def test_a_sample_without_a_seed_draws_one_for_each_text(client):
    found = client.translate(["x"] * 200, sample=Sampling())  # over several requests
    seeds = [int(one.text.split()[-1]) for one in found]
    assert len(set(seeds)) == 200 and min(seeds) >= 0


def test_an_alignment_has_no_padding_whatever_was_asked_beside_it(client):
    texts = [" ".join("abcdefg"[: 1 + number % 7]) for number in range(150)]
    for text, found in zip(texts, client.align(texts), strict=True):
        words = text.split()
        assert found.source == tuple(words) and found.target == tuple(text.upper().split()) and found.version == 5
        np.testing.assert_array_equal(found.weights, 0.75 * np.eye(len(words)))
        assert found.strongest() == [(word.upper(), word, 0.75) for word in words]
    (nothing,) = client.align("")
    assert nothing.source == nothing.target == () and nothing.weights.shape == (0, 0)


def test_both_clients_have_the_same_calls_and_answers(client, address):
    async def ask():
        async with AsyncClient(address, "english", timeout=60.0) as other:
            drawn = other.translate(TEXTS, sample=Sampling(seed=1))
            return await asyncio.gather(other.translate(TEXTS), drawn, other.align(TEXTS))

    best, drawn, aligned = asyncio.run(ask())
    assert best == client.translate(TEXTS) and drawn == client.translate(TEXTS, sample=Sampling(seed=1))
    assert [str(one) for one in aligned] == [str(one) for one in client.align(TEXTS)]
    for name in ("translate", "align"):
        assert inspect.signature(getattr(Client, name)) == inspect.signature(getattr(AsyncClient, name))


def test_a_call_that_the_model_does_not_know_names_the_one_that_it_does(client, address):
    with pytest.raises(ServingError, match="not a response to classify; use translate"):
        client.classify("a")
    with Client(address, "classes", timeout=60.0) as classes:
        with pytest.raises(ServingError, match="not a response to translate; use classify"):
            classes.translate("a")
        with pytest.raises(ServingError, match="sample"):
            classes.translate("a", sample=Sampling())


def predict(*arguments, stdin=None):
    done = CliRunner().invoke(main, ["predict", *arguments], input=stdin)
    return done.exit_code, done.output


@pytest.fixture(params=["folder", "server"])
def where(request, folder, address):
    return ["--model", str(folder)] if request.param == "folder" else ["--server", address, "--name", "english"]


def objects(output):
    """JSON as the standard has it, without what a server adds."""
    lines = [json.loads(line, parse_constant=pytest.fail) for line in output.splitlines()]
    return [{name: value for name, value in line.items() if name != "version"} for line in lines]


def test_the_command_prints_translations_one_a_line(where):
    assert predict(*where, stdin="Hello\n\nnaïve  café\n") == (0, "HELLO\n\nNAÏVE CAFÉ\n")
    code, output = predict(*where, "--json", "Hello")
    assert code == 0 and objects(output) == [{"text": "Hello", "translation": "HELLO", "score": -0.625}]


def test_the_command_shows_more_of_the_best_and_no_more_than_there_are(where):
    assert predict(*where, "--n-best", "3", "Hello") == (0, "  -0.625  HELLO\n  -1.625  Hello\n")
    assert predict(*where, "--n-best", "1", "Hello") == (0, "  -0.625  HELLO\n")
    (found,) = objects(predict(*where, "--n-best", "3", "--json", "Hello")[1])
    assert found["n_best"] == ["HELLO", "Hello"] and found["n_best_scores"] == [-0.625, -1.625]
    code, output = predict(*where, "--n-best", "9", "Hello")
    assert code == 1 and "--n-best 9: this model gives its 3 best" in output


def test_the_command_draws_translations(where):
    given = ["--temperature", "0.5", "--top-k", "4", "--top-p", "0.75", "--seed", "-8"]
    assert predict(*where, "--sample", *given, "x", "y") == (0, "x 0.50 4 0.75 -8\ny 0.50 4 0.75 -8\n")
    code, output = predict(*where, "--sample", "--json", "x", "x")
    first, second = objects(output)
    assert code == 0 and set(first) == {"text", "translation", "score"} and first["translation"] != second["translation"]


def test_the_command_says_what_each_token_looked_at(where):
    assert predict(*where, "--align", "a bcd") == (0, "A BCD\n  A    a  0.750\n  BCD  bcd  0.750\n")
    (found,) = objects(predict(*where, "--align", "--json", "a bcd")[1])
    assert found == {
        "text": "a bcd",
        "translation": "A BCD",
        "source_pieces": ["a", "bcd"],
        "target_pieces": ["A", "BCD"],
        "alignment": [[0.75, 0.0], [0.0, 0.75]],
    }


@pytest.mark.parametrize("way", ["", "--sample", "--align"])
def test_a_file_has_translations_as_fields_in_its_order(where, tmp_path, way):
    rows = [{"id": number, "text": "ab " * (number * 7 % 11), "score": "mine"} for number in range(150)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, output = predict(*where, *filter(None, [way]), "--file", str(tmp_path / "in.jsonl"))
    found = objects(output)
    assert code == 0 and [line["id"] for line in found] == list(range(150))
    for row, line in zip(rows, found, strict=True):
        if way == "--sample":
            assert line["translation"].startswith(row["text"]) and line["given_score"] == "mine"
        else:
            assert line["translation"] == row["text"].upper()
        if way == "--align":
            assert line["source_pieces"] == row["text"].split() and line["score"] == "mine"
        else:
            assert line["score"] == -0.125 * len(row["text"]) and line["given_score"] == "mine"


def test_a_file_is_found_by_the_column_of_the_training_files(folder, tmp_path):
    (tmp_path / "in.csv").write_text("english,id\nhello,1\n")
    code, output = predict("--model", str(folder), "--file", str(tmp_path / "in.csv"))
    assert code == 0 and objects(output) == [{"english": "hello", "id": "1", "translation": "HELLO", "score": -0.625}]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--sample", "--align"], "--align and --sample exclude each other"),
        (["--n-best", "2", "--mask"], "--mask and --n-best exclude each other"),
        (["--temperature", "0.5"], "--temperature goes with --sample"),
        (["--align", "--top-k", "3"], "--top-k goes with --sample"),
        (["--sample", "--temperature", "0"], "temperature is above 0"),
        (["--sample", "--temperature", "inf"], "temperature is above 0"),
        (["--sample", "--top-p", "1.5"], "top_p above 0 and 1 at most"),
        (["--sample", "--top-k", str(2**31)], "top_k 0 or more"),
        (["--sample", "--seed", str(2**63)], "a seed has 64 bits"),
        (["--second", "b"], "the model reads one text"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_sentence(where, arguments, part):
    code, output = predict(*where, "a", *arguments)
    assert code == 1 and output.startswith("error: ") and part in output and "Traceback" not in output


@pytest.mark.parametrize("way", [["--sample"], ["--align"], ["--n-best", "2"]])
def test_a_model_of_another_task_is_refused_in_one_sentence(address, tmp_path, way):
    other = push(EVERY[0], tmp_path / "classes")
    for where in (["--model", str(other)], ["--server", address, "--name", "classes"]):
        code, output = predict(*where, "a", *way)
        assert code == 1 and output.startswith("error: ") and len(output.splitlines()) == 1
        assert way[0].strip("-") in output or "its task is classification, not translation" in output


def test_a_model_of_an_unknown_task_is_refused_in_one_sentence(folder, tmp_path):
    (tmp_path / "assets.extra").mkdir()
    (tmp_path / "saved_model.pb").touch()
    (tmp_path / "assets.extra" / "bertline.json").write_text('{"task": "summaries"}')
    code, output = predict("--model", str(tmp_path), "a")
    assert code == 1 and "its task is summaries, which this version of Bertline does not know" in output


def test_mlflow_gets_a_table_of_translations_and_scores(folder):
    table = TextModel(folder).predict(["Hello", "a"])
    assert table.to_dict("records") == [
        {"translation": "HELLO", "score": -0.625},
        {"translation": "A", "score": -0.125},
    ]


def test_the_serve_check_compares_translations_and_places_left_over(tmp_path):
    model, shouting = translations.push(tmp_path / "checked"), translations.Shouting()
    rows = [{"text": "naïve 🎬".encode()}, {"text": b""}]
    samples = make_samples(shouting.translate, rows, "english")
    write_samples(samples, model)
    report = serve_check(model, name="english", max_ms=60_000)
    assert report.blessed and report.samples == 2 and report.difference == 0, report.reasons
    samples[0].predict_log.response.outputs["n_best_scores"].float_val[1] = -np.inf
    samples[0].predict_log.response.outputs["n_best"].string_val[1] = b"other"
    (model / WARM_UP).unlink()
    write_samples(samples, model)
    report = serve_check(model, name="english", max_ms=60_000)
    assert not report.blessed and len(report.reasons) == 2
    assert "n_best is 'naïve 🎬' instead of 'other'" in report.reasons[0] + report.reasons[1]
