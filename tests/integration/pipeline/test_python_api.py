"""The public Python API on models that have learned: `load`, `predict`, `predict_file` and `explain`."""

from __future__ import annotations

import json
import shutil

import pytest
from learned import VERSION

import bertline
from bertline.models.responses.types import Chosen, Classified, Embedded, Similar

GOOD, BAD = "superb", "dreadful"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, learned_model):
    """One in which pipelines have pushed models."""
    folder = tmp_path_factory.mktemp("workspace")
    for task in ("classification", "choice", "similarity"):
        shutil.copytree(learned_model(task) / task, folder / "models" / task)
    return folder


@pytest.fixture(scope="module")
def classifier(workspace):
    with bertline.load("classification", workspace=workspace) as model:
        yield model


def test_a_loaded_model_predicts_with_the_responses_of_the_client(classifier, workspace):
    assert (classifier.version, classifier.text_keys) == (VERSION, ("text", "text_2"))
    assert classifier.path == str(workspace / "models" / "classification" / str(VERSION))
    first, second = classifier.predict(["a", "a"], [f"the {BAD} un", f"{GOOD} un a the cafe"])
    assert isinstance(first, Classified) and first.version == VERSION
    assert first.label != second.label and first.probabilities[first.label] > 0.5
    (alone,) = classifier.predict("a", f"the {BAD} un")
    assert alone.label == first.label and str(alone).startswith(first.label)
    assert classifier.predict([], []) == []


def test_texts_of_many_lengths_are_answered_in_their_order(classifier):
    signs = [GOOD if number % 3 else BAD for number in range(150)]
    texts = [f"{sign}{' the' * (number % 7)}" for number, sign in enumerate(signs)]
    bad, good = (classifier.predict("a", sign)[0].label for sign in (BAD, GOOD))
    found = [response.label for response in classifier.predict(["a"] * 150, texts)]
    assert found == [good if sign == GOOD else bad for sign in signs]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ((["a"],), "the model reads text, text_2; give texts and second, and no more"),
        ((["a", "b"], ["c"]), "each text has its second one; these are 2 and 1"),
    ],
)
def test_texts_that_the_model_does_not_read_are_refused_in_the_words_of_the_call(classifier, given, what):
    with pytest.raises(bertline.BertlineError, match=what):
        classifier.predict(*given)
    with pytest.raises(bertline.BertlineError, match="and no more"):
        classifier.predict("a", "b", choices=["c"])


def test_a_file_is_predicted_and_the_model_stays_open(classifier, tmp_path):
    (tmp_path / "in.csv").write_text(f"text,text_2,id\na,{GOOD},7\n")
    assert classifier.predict_file(tmp_path / "in.csv", tmp_path / "out.jsonl") == 1
    (line,) = map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())
    assert line["id"] == "7" and line["label"] == classifier.predict("a", GOOD)[0].label


def test_endings_are_for_all_texts_or_for_each(workspace):
    with bertline.load("choice", workspace=workspace) as model:
        both = model.predict(["the", "the"], ["un", "un"], choices=[BAD, GOOD])
        each = model.predict(["the", "the"], ["un", "un"], choices=[[BAD, GOOD], [GOOD, BAD, BAD]])
        with pytest.raises(bertline.BertlineError, match="one list for all 2 texts"):
            model.predict(["the", "the"], ["un", "un"], choices=[[BAD]])
    assert all(isinstance(response, Chosen) for response in both) and [one.index for one in both] == [1, 1]
    assert [one.index for one in each] == [1, 0]


def test_a_model_may_have_further_signatures(workspace):
    with bertline.load("similarity", workspace=workspace) as model:
        assert isinstance(model.predict("cat", "meows")[0], Similar)
    with bertline.load("similarity", workspace=workspace, signature="embed") as model:
        (found,) = model.predict("cat")
        assert isinstance(found, Embedded) and found.vector.ndim == 1
    with pytest.raises(bertline.BertlineError, match="its task is classification, not one with the signature embed"):
        bertline.load("classification", workspace=workspace, signature="embed")


def test_a_prediction_is_explained_as_arrays(workspace):
    found = bertline.explain("a", f"the {BAD} un", model="classification", workspace=workspace)
    shares = dict(zip(found.words, found.attributions[0].words, strict=True))
    assert max(shares, key=shares.get) == BAD and json.dumps(found.to_json())
