"""Of many classes `bertline predict` gives the likeliest, and the label with its score first."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from bertline.models.responses.likeliest import ALL, likeliest
from bertline.models.responses.types import CLASSIFIED, MULTI_CLASSIFIED, TAGGED
from bertline.pipeline.cli import main
from bertline.pipeline.inference.predictor import Wanted

NAMES = np.array([f"class {number}".encode() for number in range(77)], object)


def given(count, **outputs):
    shares = np.roll(np.arange(1, count + 1, dtype=np.float32), 11)  # of 77 classes number 10 is the likeliest
    return {"probabilities": shares / shares.sum(), "classes": NAMES[:count], **outputs}


def test_of_many_classes_the_likeliest_are_given_likeliest_first():
    asked = given(77, label=NAMES[10])
    answer = likeliest(CLASSIFIED, 5).plain(asked)
    assert list(answer) == ["label", "score", "classes", "probabilities"]
    assert answer["label"] == "class 10" == answer["classes"][0] and answer["score"] == answer["probabilities"][0]
    assert len(answer["classes"]) == 5 and answer["probabilities"] == sorted(answer["probabilities"], reverse=True)
    assert len(json.dumps(answer)) < 350
    assert likeliest(CLASSIFIED, 1).readable(asked) == "class 10 0.026"


@pytest.mark.parametrize(("count", "most"), [(3, 5), (77, ALL)])
def test_where_all_are_given_they_keep_the_order_of_the_signature(count, most):
    asked = given(count, label=NAMES[0])
    answer = likeliest(CLASSIFIED, most).plain(asked)
    assert answer["classes"] == [name.decode() for name in NAMES[:count]]
    assert answer["probabilities"] == asked["probabilities"].tolist()


def test_several_labels_have_a_score_each_also_below_the_likeliest():
    asked = given(77, labels=np.array([NAMES[1], NAMES[10], b""], object))
    answer = likeliest(MULTI_CLASSIFIED, 1).plain(asked)
    assert list(answer) == ["labels", "scores", "classes", "probabilities"]
    assert answer["labels"] == ["class 1", "class 10"] and answer["classes"] == ["class 10"]
    assert answer["scores"] == asked["probabilities"][[1, 10]].tolist()


def test_other_answers_and_callers_from_python_keep_what_the_signature_gives():
    assert likeliest(TAGGED, 5) is TAGGED
    assert Wanted().shown_as(CLASSIFIED) is CLASSIFIED


@pytest.mark.parametrize("most", ["0", "-1", "some"])
def test_a_number_of_classes_that_is_none_is_refused(most):
    result = CliRunner().invoke(main, ["predict", "a text", "--top", most])
    assert result.exit_code == 2 and "--top" in result.output
