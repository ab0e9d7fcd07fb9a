"""Classification of one text and of two: the same head, told apart by segments, with answers under names."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from wordpiece import VOCAB, write_vocab

from bertline.models.data.batching import padded
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, check_texts, get_task
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import TEXT_KEYS
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.export.saved_model import ServedModel

TASK = get_task("classification")
FIRST, SECOND = ["the cafe", "the the the", ""], ["abc", "the", "un"]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    text = TextEncoder(write_vocab(tmp_path_factory.mktemp("vocab"), VOCAB), seq_len=16)
    return Context(text, ("no", "yes"), text_keys=TEXT_KEYS)


def make_model(context):
    size = EncoderSize(vocab_size=len(VOCAB), layers=1, hidden=8, heads=2, intermediate=16)
    model = TASK.model.build(Encoder(size, seed=3), context, 0.0, 3)
    model.head.kernel.assign(model.head.kernel * 2000)  # so that answers differ visibly
    return model


def columns(first=FIRST, second=SECOND):
    return {
        "text": tf.constant(first),
        "text_2": tf.constant(second),
        "label": tf.constant(["yes", "no", "?"][: len(first)]),
    }


def test_a_pair_is_packed_with_both_texts_between_separators(pairs):
    features = TASK.preprocessing.features(columns(), pairs)
    tokens = [[VOCAB[number] for number in row] for row in features["token_ids"].to_list()]
    assert tokens[1] == ["[CLS]", "the", "the", "the", "[SEP]", "the", "[SEP]"]
    assert features["segment_ids"].to_list()[1] == [0, 0, 0, 0, 0, 1, 1]
    assert features["label_id"].numpy().tolist() == [1, 0, -1]


def test_a_single_text_is_packed_as_ever(pairs):
    alone = Context(pairs.text, pairs.labels)
    features = TASK.preprocessing.request({"text": tf.constant(FIRST)}, alone)
    assert list(features) == ["token_ids"] and features["token_ids"].to_list() == pairs.text(tf.constant(FIRST)).to_list()


def test_the_order_of_the_two_texts_matters_and_company_in_a_batch_does_not(pairs):
    model = make_model(pairs)

    def ask(first, second):
        batch = padded(TASK.preprocessing.request(columns(first, second), pairs))
        return TASK.serving.signature(model(batch), batch, pairs)["probabilities"].numpy()

    together = ask(FIRST, SECOND)
    for row, (first, second) in enumerate(zip(FIRST, SECOND, strict=True)):
        np.testing.assert_allclose(ask([first], [second])[0], together[row], atol=1e-5)
    assert np.abs(ask(SECOND, FIRST) - together)[:2].max(axis=1).min() > 1e-4


def test_the_signature_names_as_many_texts_as_the_line_has(pairs):
    model = make_model(pairs)
    served = ServedModel(TASK, pairs, model).predict.get_concrete_function()
    assert sorted(served.structured_input_signature[1] or [s.name for s in served.structured_input_signature[0]]) == [
        "text", "text_2"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("task", "keys", "said"),
    [("pretraining", TEXT_KEYS, "reads 1 text per example, and the config"), ("classification", (), "1 or 2 texts")],
)
def test_a_wrong_number_of_texts_is_refused(task, keys, said):
    with pytest.raises(BertlineError, match=said):
        check_texts(get_task(task), keys)
    check_texts(get_task(task), TEXT_KEYS[:1])


def test_texts_are_compared_only_where_an_example_has_two():
    check_texts(TASK, TEXT_KEYS, "pair")
    for task, keys in ((TASK, TEXT_KEYS[:1]), (get_task("matching"), TEXT_KEYS)):
        with pytest.raises(BertlineError, match="model.pooling: pair compares the two texts"):
            check_texts(task, keys, "pair")
