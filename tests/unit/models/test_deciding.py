"""What was tuned is what a served model answers by: the graph and `Decision` say the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from wordpiece import VOCAB, write_vocab

from bertline.models.data.batching import padded
from bertline.models.decisions.decision import NONE
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.responses.likeliest import likeliest
from bertline.models.responses.types import CLASSIFIED, Classified
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import DecisionConfig

TUNED = {"temperature": 2.0, "threshold": 0.3, "confidence": 0.55}
LOGITS = np.random.default_rng(0).normal(0, 2, (200, 2)).astype(np.float32)


def context_of(*labels, **fields):
    return Context(None, labels, **fields)


def answers(task, context, logits=LOGITS):
    return {
        name: value.numpy() for name, value in get_task(task).serving.signature(tf.constant(logits), {}, context).items()
    }


@pytest.mark.parametrize("positive", ["ham", "spam"])
@pytest.mark.parametrize(
    "names", [("temperature",), ("threshold",), ("confidence",), ("temperature", "threshold", "confidence")]
)
def test_the_served_class_is_the_one_that_is_counted(positive, names):
    context = context_of("ham", "spam", positive=positive, tuned={name: TUNED[name] for name in names})
    found, decision = answers("classification", context), context.decision
    counted = np.asarray(context.labels)[decision.classes(found["probabilities"])]
    expected = np.where(decision.is_confident(found["probabilities"]), counted, NONE)
    assert found["label"].astype(str).tolist() == expected.tolist()
    assert ("confidence" in names) == (NONE in expected)
    if names == ("temperature",):
        assert found["label"].tolist() == answers("classification", context_of("ham", "spam"))["label"].tolist()
        powers = np.exp(LOGITS / 2)
        np.testing.assert_allclose(found["probabilities"], powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_each_class_is_served_with_its_own_probability_whatever_the_order_of_the_classes(task):
    """As `data.labels` gives them, which need not be that of the alphabet."""
    logits = tf.constant([[0.1, 0.2, 3.0], [3.0, 0.1, 0.2], [0.2, 3.0, 0.1]])
    found = answers(task, context_of("neutral", "bad", "good"), logits)
    expected = [b"good", b"neutral", b"bad"]
    assert found["classes"][range(3), found["probabilities"].argmax(axis=1)].tolist() == expected
    named = found["label"] if task == "classification" else found["labels"][:, 0]
    assert named.tolist() == expected


def test_several_labels_are_those_above_the_threshold():
    context = context_of("a", "b", tuned={"temperature": 2.0, "threshold": 0.3})
    found = answers("multilabel", context)
    counted = context.decision.flags(found["probabilities"])
    for names, flags in zip(found["labels"], counted, strict=True):
        assert {name.decode() for name in names if name} == {
            label for label, is_one in zip("ab", flags, strict=True) if is_one
        }
    np.testing.assert_allclose(found["probabilities"], 1 / (1 + np.exp(-LOGITS / 2)), rtol=1e-4)


def test_an_abstention_and_a_threshold_are_told_to_whoever_asks():
    given = {"label": NONE.encode(), "classes": [b"ham", b"spam"], "probabilities": np.asarray([0.52, 0.48])}
    found = Classified.of(given)
    assert found.abstained and str(found) == "none of these; the likeliest is ham 0.520  spam 0.480"
    short = likeliest(CLASSIFIED, 1)
    assert short.plain(given) == {"label": NONE, "score": 0.52, "classes": ["ham"], "probabilities": [0.52]}
    assert short.show(found) == "none of these; the likeliest is ham 0.520"
    given["label"] = b"spam"
    assert str(Classified.of(given)) == "spam 0.480, by its threshold; all: ham 0.520  spam 0.480"
    given["label"] = b"ham"
    assert str(Classified.of(given)) == "ham 0.520  spam 0.480" and not Classified.of(given).abstained


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_a_trained_model_is_tuned_on_the_evaluation_examples_by_their_labels(task, tmp_path):
    text, labels = TextEncoder(write_vocab(tmp_path, VOCAB), seq_len=16), ("no", "yes")
    asked = DecisionConfig(decision="tuned")
    of = get_task(task)
    context = Context(text, labels, positive="yes", deciding=asked)
    words = ["the", "un", "abc", "cafe"]
    texts = [f"{words[at % 4]} {words[at // 4 % 4]}" for at in range(120)]
    size = EncoderSize(vocab_size=len(VOCAB), layers=1, hidden=8, heads=2, intermediate=16)
    model = of.model.build(Encoder(size, seed=3), context, 0.0, 3)
    model.head.kernel.assign(model.head.kernel * 2000)
    logits = model(padded(of.preprocessing.request({"text": tf.constant(texts)}, context)), training=False).numpy()
    is_wrong = np.arange(120) % 7 == 0
    if task == "multilabel":
        flags = (logits > 0) ^ is_wrong[:, np.newaxis]
        label = tf.ragged.constant([[name for name, is_one in zip(labels, row, strict=True) if is_one] for row in flags])
    else:
        label = tf.constant([labels[int(is_yes)] for is_yes in logits.argmax(axis=1) ^ is_wrong])
    features = of.preprocessing.features({"text": tf.constant(texts), "label": label}, context)
    tuned = of.evaluation.tune(of, model, context, [features])
    assert "temperature" in tuned and set(tuned) <= {"temperature", "threshold"}
    assert of.evaluation.tune(of, model, replace(context, deciding=DecisionConfig(calibration=False)), [features]) == {}
    few = {name: value[:20] for name, value in features.items()}
    assert of.evaluation.tune(of, None, context, [few]) == {}  # the model is not even asked
