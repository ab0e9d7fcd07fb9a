"""The pre-training task: batches with masks, the loss over predictions, and what the served model fills in."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from wordpiece import VOCAB, write_vocab

from bertline.components.evaluator.verdict import check_metrics
from bertline.models.data.batching import Batch, Corpus, batches, padded
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, as_learned, get_task
from bertline.models.tasks.graphs.pretraining import LABELS
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.config import EvaluationConfig, PretrainingConfig
from bertline.pipeline.core.errors import BertlineError

TASK = get_task("pretraining")
TEXTS = ["the the cafe un the", "abc the the unaffable the abc the café the", "x y", "the [MASK] a [MASK]"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return TextEncoder(write_vocab(tmp_path_factory.mktemp("vocab"), VOCAB), tokenizer_variant="huggingface", seq_len=32)


def context(text, **settings) -> Context:
    return Context(text, LABELS, PretrainingConfig(**settings))


def make_model(text, **settings):
    size = EncoderSize(vocab_size=len(VOCAB), layers=1, hidden=8, heads=2, intermediate=16)
    return TASK.model.build(Encoder(size, seed=3), context(text, **settings), 0.0, 3)


def corpus(text, prepare) -> Corpus:
    ids = text(tf.constant(TEXTS[:3]))
    places = tf.ragged.constant([[1, 3], [2], [1]], dtype=tf.int32)
    stored = tf.ragged.constant([[4, 4], [9], [4]], dtype=tf.int32)
    others = {"segment_ids": tf.zeros_like(ids), "masked_positions": places, "masked_ids": stored}
    labels = {"label_id": np.asarray([0, 1, 1])}
    return Corpus(ids.flat_values.numpy(), ids.row_splits.numpy(), labels, others, prepare)


def one_batch(text, training, seed=5, **settings):
    rows = corpus(text, TASK.preprocessing.prepare(context(text, **settings), training))
    (batch,) = batches(rows, [Batch(np.arange(3), 16, seed)], 4)
    return batch


@pytest.mark.parametrize(("training", "static"), [(False, False), (True, True)])
def test_stored_masks_are_put_in_and_remembered(text, training, static):
    batch = one_batch(text, training, static=static)
    ids = text(tf.constant(TEXTS[:3])).to_tensor(shape=[3, 16]).numpy()
    assert batch["masked_labels"].numpy()[:3][batch["masked_positions_mask"].numpy()[:3]].tolist() == [
        ids[0, 1], ids[0, 3], ids[1, 2], ids[2, 1]
    ]  # fmt: skip
    ids[[0, 0, 1, 2], [1, 3, 2, 1]] = 4, 4, 9, 4
    assert (batch["token_ids"].numpy()[:3] == ids).all()


def test_masks_of_a_training_are_drawn_anew_and_follow_from_the_seed(text):
    first, again, other = (one_batch(text, True, seed) for seed in (5, 5, 6))
    ids = text(tf.constant(TEXTS[:3])).to_tensor(shape=[3, 16]).numpy()
    for batch in (first, again, other):
        masked, places, labels = (batch[n].numpy() for n in ("token_ids", "masked_positions", "masked_labels"))
        real = batch["masked_positions_mask"].numpy()
        assert real[:3].sum(axis=1).tolist() == [1, 2, 1]
        for row in range(3):
            assert ids[row, places[row][real[row]]].tolist() == labels[row][real[row]].tolist()
            untouched = np.setdiff1d(np.arange(16), places[row][real[row]])
            assert (masked[row, untouched] == ids[row, untouched]).all()
    assert (first["masked_positions"].numpy() == again["masked_positions"].numpy()).all()
    assert (first["masked_positions"].numpy() != other["masked_positions"].numpy()).any()


@pytest.mark.parametrize("next_sentence", [True, False])
def test_the_loss_is_the_mean_over_the_predictions_plus_the_mean_over_the_rows(text, next_sentence):
    model, batch = make_model(text, next_sentence=next_sentence), one_batch(text, True)
    outputs = model(batch, training=False)
    assert ("follows" in outputs) == next_sentence
    found = tf.reduce_sum(batch["weight"] * TASK.objective.loss(outputs, batch)).numpy()

    def cross_entropy(logits, label):
        shifted = logits - logits.max()
        return np.log(np.exp(shifted).sum()) - shifted[label]

    real = batch["masked_positions_mask"].numpy() & (batch["weight"].numpy() > 0)[:, None]
    predictions, labels = outputs["guesses"].numpy()[real], batch["masked_labels"].numpy()[real]
    expected = sum(map(cross_entropy, predictions, labels)) / (len(labels) + 1e-5)
    if next_sentence:
        expected += np.mean(
            [cross_entropy(outputs["follows"].numpy()[i, 0], batch["label_id"].numpy()[i, 0]) for i in range(3)]
        )
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    right = np.mean(predictions.argmax(axis=1) == labels)
    np.testing.assert_allclose(tf.reduce_sum(batch["weight"] * TASK.objective.accuracy(outputs, batch)), right, atol=1e-4)


def test_guesses_go_through_the_token_embedding(text):
    model, batch = make_model(text), one_batch(text, False)
    names = {variable.path.split("/", 1)[1] for variable in model.trainable_variables}
    assert not any(name.startswith("decoder") for name in names)
    with tf.GradientTape() as tape:
        predictions = model(batch, training=False)["guesses"]
        loss = tf.reduce_sum(predictions[0, 0, 30])  # a token that is in none of the texts
    table = model.encoder.embeddings.token.embeddings.value
    gradient = tf.convert_to_tensor(tape.gradient(loss, table)).numpy()
    assert np.abs(gradient[30]).max() > 0


def test_each_mask_of_a_text_is_filled_with_its_likeliest_tokens(text):
    model = make_model(text)
    batch = padded(TASK.preprocessing.request({"text": tf.constant(TEXTS[2:])}, context(text)))
    answer = {name: value.numpy() for name, value in TASK.serving.signature(model(batch), batch, context(text)).items()}
    assert answer["fillings"].shape == (2, 2, 5) == answer["probabilities"].shape
    assert (answer["fillings"][0] == b"").all() and (answer["probabilities"][0] == 0).all()  # "x y" has no mask
    predictions = tf.nn.softmax(model(batch)["guesses"]).numpy()[1]
    for mask in range(2):
        best = np.argsort(-predictions[mask])[:5]
        assert [token.decode() for token in answer["fillings"][1, mask]] == [VOCAB[i] for i in best]
        np.testing.assert_allclose(answer["probabilities"][1, mask], predictions[mask][best], rtol=1e-6)
    shown = TASK.serving.response.readable({name: value[1] for name, value in answer.items()})
    assert shown.count("   |   ") == 1 and shown.startswith(answer["fillings"][1, 0, 0].decode())
    assert (
        TASK.serving.response.readable({name: value[0] for name, value in answer.items()})
        == "there is no [MASK] in the text"
    )


def test_heads_are_named_as_hugging_face_names_them(text):
    model = make_model(text)
    shapes = {name: value.shape for name, value in TASK.model.heads(model).items()}
    assert shapes == {
        "cls.predictions.bias": (len(VOCAB),),
        "cls.predictions.transform.dense.weight": (8, 8),
        "cls.predictions.transform.dense.bias": (8,),
        "cls.predictions.transform.LayerNorm.weight": (8,),
        "cls.predictions.transform.LayerNorm.bias": (8,),
        "cls.seq_relationship.weight": (2, 8),
        "cls.seq_relationship.bias": (2,),
    }
    np.testing.assert_array_equal(TASK.model.heads(model)["cls.seq_relationship.weight"], model.follows.kernel.numpy().T)


def test_a_vocabulary_without_mask_is_refused(tmp_path):
    bare = TextEncoder(
        write_vocab(tmp_path, [token for token in VOCAB if token != "[MASK]"]), tokenizer_variant="huggingface"
    )
    with pytest.raises(BertlineError, match=r"no \[MASK\]"):
        TASK.preprocessing.prepare(context(bare), True)


def test_a_training_goes_on_with_a_checkpoints_heads(text):
    given = make_model(text)
    for weight in given.trainable_variables:
        weight.assign(weight + 0.5)
    taker = make_model(text)
    assert TASK.model.take_heads(taker, TASK.model.heads(given)) == []
    for name, value in TASK.model.heads(taker).items():
        np.testing.assert_array_equal(value, TASK.model.heads(given)[name])


def test_a_head_that_the_checkpoint_lacks_starts_from_scratch_and_half_a_head_is_refused(text):
    taker = make_model(text)
    before = TASK.model.heads(taker)
    notes = TASK.model.take_heads(taker, {"classifier.weight": np.zeros((2, 8))})
    assert [note.split(":")[0] for note in notes] == [
        "the checkpoint has no cls.predictions", "the checkpoint has no cls.seq_relationship"
    ]  # fmt: skip
    half = {**TASK.model.heads(make_model(text)), "cls.predictions.bias": np.zeros(7)}
    with pytest.raises(BertlineError, match=r"cls\.predictions\.bias has the shape \[7\]; it should be"):
        TASK.model.take_heads(taker, half)
    del half["cls.predictions.bias"]
    with pytest.raises(BertlineError, match=r"cls\.predictions\.bias is missing"):
        TASK.model.take_heads(taker, half)
    for name, value in TASK.model.heads(taker).items():
        np.testing.assert_array_equal(value, before[name])


def test_a_line_that_does_not_learn_what_follows_is_not_measured_by_it():
    whole, alone = (as_learned(TASK, PretrainingConfig(next_sentence=learned)) for learned in (True, False))
    assert "nsp_accuracy" in whole.evaluation.metrics and whole.evaluation.confusion == "follows"
    assert (
        "nsp_accuracy" not in alone.evaluation.metrics
        and alone.evaluation.confusion is None
        and "perplexity" in alone.evaluation.metrics
    )
    with pytest.raises(BertlineError, match="has no metric 'nsp_accuracy'"):
        check_metrics(alone, EvaluationConfig(thresholds={"nsp_accuracy": 0.6}))
