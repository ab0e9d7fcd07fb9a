"""Texts that are longer than the encoder: what is kept of them, how windows become one vector, and what is chosen when."""

from __future__ import annotations

import json
import string
from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from explained_models import explainer_of

from bertline.components.trainer import recipe
from bertline.models.adapters.head_importance import by_gradient
from bertline.models.data import batching
from bertline.models.data.batching import padded
from bertline.models.data.long_texts import check_long, choose_long, left_open
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.explain.request import Request
from bertline.models.heads import pooled
from bertline.models.heads.pooled import TOGETHER, as_chosen, sliding_of
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tokenization.packing import Sliding
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS
from bertline.models.training import probing
from bertline.models.training.loop import train
from bertline.models.training.recipe import parts_of_windows
from bertline.pipeline.config import TEXT_KEYS, ModelConfig, TextConfig, TrainingConfig
from bertline.pipeline.config.training import RECIPE
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.export.saved_model import ServedModel

VOCAB = [*SPECIAL_TOKENS, *string.ascii_lowercase]
CLS, SEP, FIRST = VOCAB.index("[CLS]"), VOCAB.index("[SEP]"), len(SPECIAL_TOKENS)
WAYS = ("cut", "head_tail", "windows")
SEQ_LEN, WINDOWS = 8, 3
TASK = get_task("classification")


@pytest.fixture(scope="module")
def vocab(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB))
    return str(path)


@pytest.fixture
def eagerly():
    """Tracing would take nearly all of the time; what is traced is trained below."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def context_of(vocab, long, keys=TEXT_KEYS[:1], **settings):
    text = TextEncoder(vocab, **{"seq_len": SEQ_LEN, "max_windows": WINDOWS, **settings}, long=long)
    return Context(text, ("no", "yes"), text_keys=keys, pooling="cls")


def texts(*lengths):
    """Texts of so many tokens each, none like its neighbour."""
    letters = string.ascii_lowercase
    return [" ".join(letters[(at * 7 + n) % 26] for at in range(length)) for n, length in enumerate(lengths)]


def ids_of(text):
    return [VOCAB.index(word) for word in text.split()]


def model_of(context, pooling="cls"):
    size = EncoderSize(
        vocab_size=len(VOCAB), layers=2, hidden=16, heads=2, intermediate=16, dropout=0.0, attention_dropout=0.0
    )
    model = TASK.model.build(Encoder(size, seed=3), replace(context, pooling=pooling), 0.0, 3)
    random = np.random.default_rng(5)
    for weight in model.trainable_variables:
        weight.assign(weight.numpy() + random.normal(0, 0.3, weight.shape))
    return model


def batch_of(context, asked):
    return padded(TASK.preprocessing.request({"text": tf.constant(asked)}, context))


def ends(ids, room):
    """The reference: a quarter from the begin, rounded, and the rest from the end."""
    if len(ids) <= room:
        return ids
    head = (room + 2) // 4
    return ids[:head] + ids[head - room :]


@pytest.mark.parametrize("seq_len", [8, 9, 12])
def test_head_and_tail_are_those_of_a_plain_reference(vocab, seq_len):
    encoder = context_of(vocab, "head_tail", seq_len=seq_len).text
    given = texts(*range(0, 25))
    expected = [[CLS, *ends(ids_of(text), seq_len - 2), SEP] for text in given]
    assert encoder(tf.constant(given)).to_list() == expected
    assert TextEncoder(vocab, seq_len=512, long="head_tail")(tf.constant(texts(600)))[0, 128] == ids_of(texts(600)[0])[127]


def test_each_text_of_a_pair_loses_its_own_middle(vocab):
    given, others = texts(20, 2, 20, 0), texts(3, 20, 21, 4)
    long, cut = (context_of(vocab, way, TEXT_KEYS, seq_len=13) for way in ("head_tail", "cut"))
    columns = {"text": tf.constant(given), "text_2": tf.constant(others)}
    for found, plain, first, second in zip(
        *(TASK.preprocessing.request(columns, context)["token_ids"].to_list() for context in (long, cut)),
        given,
        others,
        strict=True,
    ):
        lengths = [len(part) for part in _split(plain)]  # as many of each as are left when texts are cut
        kept = [ends(ids_of(text), length) for text, length in zip((first, second), lengths, strict=True)]
        assert found == [CLS, *kept[0], SEP, *kept[1], SEP]


def _split(ids):
    at = ids.index(SEP)
    return ids[1:at], ids[at + 1 : -1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("keys", [TEXT_KEYS[:1], TEXT_KEYS])
@pytest.mark.parametrize(
    "settings", [{}, {"window_step": 1, "max_windows": 2}, {"tokenizer_variant": "huggingface", "seq_len": 12}]
)
def test_what_transform_keeps_becomes_what_the_texts_become(vocab, way, keys, settings):
    if way == "windows" and len(keys) == 2:
        return  # which is refused, below
    stored, chosen = (context_of(vocab, long, keys, **settings) for long in ("auto", way))
    lengths = [0, 3, 6, 7, 12, 13, 17, 40, 90, 91]
    columns = {"text": texts(*lengths), "text_2": texts(*lengths[1:], 0), "label": ["no"] * 10}
    columns = {name: tf.constant(values) for name, values in columns.items()}
    kept = {
        name: tf.cast(x, tf.int64) for name, x in TASK.preprocessing.features(columns, stored).items()
    }  # as Examples have them
    assert max(kept["token_ids"].row_lengths()) < 60, "a text of any length takes a bounded place"
    found, wanted = as_chosen(kept, chosen), TASK.preprocessing.features(columns, chosen)
    assert found.pop("label_id").numpy().tolist() == wanted.pop("label_id").numpy().tolist()
    assert {name: ragged.to_list() for name, ragged in found.items()} == {
        name: ragged.to_list() for name, ragged in wanted.items()
    }


def test_a_text_that_fits_is_read_alike_however_long_ones_are(vocab):
    given = texts(0, 3, 6, 5)
    models = {way: (context_of(vocab, way), model_of(context_of(vocab, way))) for way in WAYS}
    cut, *others = (model(batch_of(context, given)).numpy() for context, model in models.values())
    assert np.abs(cut - cut[:1]).max() > 0.01
    for other in others:
        np.testing.assert_array_equal(other, cut)


@pytest.mark.parametrize("pooling", TOGETHER)
def test_windows_give_the_maximum_of_the_vectors_that_each_gives_alone(vocab, pooling):
    context, alone = context_of(vocab, "windows"), context_of(vocab, "cut")
    model, single = model_of(context, pooling), model_of(alone, pooling)
    ids = ids_of(texts(11)[0])
    by_hand = [ids[0:6], ids[3:9], ids[6:11]]
    words = [" ".join(VOCAB[number] for number in window) for window in by_hand]
    found = [probing.vectors(single.encoder, batch_of(alone, [text]), [pooling])[pooling][0] for text in words]
    expected = single.head(np.max(found, axis=0)[np.newaxis])
    np.testing.assert_allclose(model(batch_of(context, texts(11))), expected, atol=1e-5)
    # Of a text that is longer than all windows, both ends are read.
    ids = ids_of(texts(40)[0])
    ends_of_text = " ".join(VOCAB[number] for number in ids[:6] + ids[-6:])
    np.testing.assert_allclose(model(batch_of(context, texts(40))), model(batch_of(context, [ends_of_text])), atol=1e-6)


def test_padding_and_company_change_nothing_for_windows(vocab, monkeypatch):
    monkeypatch.setattr(pooled, "WINDOWS_AT_ONCE", 4)  # so that windows of one text are read in different turns
    context = context_of(vocab, "windows")
    model, given = model_of(context, "mean"), texts(2, 40, 7, 0, 12)
    together = model(batch_of(context, given))
    for row, text in enumerate(given):
        np.testing.assert_allclose(model(batch_of(context, [text]))[0], together[row], atol=1e-5)
    np.testing.assert_allclose(model(batch_of(context, given), training=True), together, atol=1e-5)
    further = padded(TASK.preprocessing.request({"text": tf.constant(given)}, context), tf.constant(30))
    np.testing.assert_allclose(model(further), together, atol=1e-5)


def test_the_probe_sees_the_vectors_of_windows(vocab):
    context = context_of(vocab, "windows")
    model, asked = model_of(context, "mean"), {"text": tf.constant(texts(2, 11, 40, 7))}
    tokens = TASK.preprocessing.request(asked, context)["token_ids"]
    rows = batching.Corpus(tokens.flat_values.numpy(), tokens.row_splits.numpy(), {})
    found = probing.vectors_of(model.encoder, rows, ["mean"], sliding_of(context))["mean"]
    np.testing.assert_allclose(model.head(found), model(padded({"token_ids": tokens})), atol=1e-5)


def test_heads_are_masked_for_each_text_in_all_of_its_windows(vocab, monkeypatch, eagerly):
    monkeypatch.setattr(pooled, "WINDOWS_AT_ONCE", 2)
    context = context_of(vocab, "windows")
    model, asked = model_of(context), batch_of(context, texts(11, 4))
    masks = np.ones((2, 2, 2), np.float32)
    masks[0, 0, 1] = 0
    with model.encoder.masking(tf.constant(masks[0])):
        wanted = model(asked)[0]
    with model.encoder.masking(tf.constant(masks)):
        found = model(asked)
    np.testing.assert_allclose(found[0], wanted, atol=1e-6)
    np.testing.assert_allclose(found[1], model(asked)[1], atol=1e-6)
    labelled = TASK.preprocessing.features(
        {"text": tf.constant(texts(11, 4)), "label": tf.constant(["no", "yes"])}, context
    )
    assert (by_gradient(TASK, context, model, [labelled]) > 0).all()


@pytest.mark.parametrize("way", ["head_tail", "windows"])
def test_the_served_model_answers_raw_text_as_the_training_reads_what_transform_kept(vocab, way, eagerly):
    context, given = context_of(vocab, way), texts(40, 3, 90)
    model = model_of(context)
    stored = TASK.preprocessing.features(
        {"text": tf.constant(given), "label": tf.constant(["no"] * 3)}, context_of(vocab, "auto")
    )
    batch = padded(as_chosen(stored, context))
    served = ServedModel(TASK, context, model).predict(tf.constant(given))
    np.testing.assert_allclose(served["probabilities"], tf.nn.softmax(model(batch, training=True)), atol=1e-6)


def test_what_looks_at_what_in_the_first_window_is_shown(vocab):
    context = replace(context_of(vocab, "windows"), places=True)
    request = Request({"text": texts(11)[0].encode()}, TASK, context)
    found = TASK.inspection.attend(model_of(context), request.batch)["encoder"]
    assert [layer.shape for layer in found] == [(1, 2, 8, 8)] * 2
    np.testing.assert_allclose(tf.reduce_sum(found[0], axis=-1), 1, atol=1e-5)
    alone = TASK.inspection.attend(model_of(context), Request({"text": texts(6)[0].encode()}, TASK, context).batch)[
        "encoder"
    ]
    np.testing.assert_allclose(found[1], alone[1], atol=1e-5)


@pytest.mark.parametrize(
    ("way", "said"), [("windows", "attention is that of the first"), pytest.param("head_tail", "", marks=pytest.mark.full)]
)
def test_the_words_of_a_long_text_are_explained_wherever_they_are_read(vocab, way, said, eagerly):
    context, asked = context_of(vocab, way), {"text": texts(40)[0].encode()}
    found = explainer_of(TASK, context, model_of(context), asked).explain(asked)
    reading = found.attributions[0].reading
    kept = ids_of(texts(40)[0])
    kept = kept[:6] + kept[-6:] if way == "windows" else kept[:2] + kept[-4:]
    assert [word.shown for word in reading.words] == [VOCAB[number] for number in kept]
    assert found.attributions[0].found.is_complete and np.abs(reading.of_words(found.attributions[0].found.added))[-1] > 0
    assert found.attentions["encoder"].looking == ("[CLS]", *(VOCAB[number] for number in kept[:6]), "[SEP]")
    ends_read = "first 11 and last 11" if way == "windows" else "first 3 and last 7"
    assert any(f"the model read its {ends_read} of 79 characters" in note for note in found.notes), found.notes
    assert any(said in note for note in found.notes)


@pytest.mark.parametrize(
    ("longer", "much_longer", "settings", "windows", "way", "said"),
    [
        (0, 0, {}, True, "cut", ""),
        (5, 0, {}, True, "cut", "5 of 100 training examples have more than 8 tokens"),
        (6, 6, {}, True, "head_tail", "6 of 100"),
        (100, 50, {}, True, "head_tail", "100 of 100"),
        (100, 51, {}, True, "windows", "51 of 100 training examples have more than 16 tokens"),
        (100, 100, {}, False, "head_tail", "a quarter of what is read"),
        (100, 100, {"max_windows": 2}, True, "windows", "of 100 longer than 2 windows the middle is not read"),
        (1, 1, {"long": "windows"}, True, "windows", "1 of 100 training examples has more"),
    ],
)
def test_the_lengths_of_the_training_examples_choose(longer, much_longer, settings, windows, way, said):
    lengths = np.asarray([17] * much_longer + [9] * (longer - much_longer) + [8] * (100 - longer))
    found = choose_long(lengths, TextConfig(seq_len=8, **settings), windows=windows)
    assert found.long == way and said in found.why and bool(found.why) == bool(said)


def test_windows_are_as_far_apart_as_the_config_says_and_leave_nothing_out():
    assert Sliding.over(512, None, 8) == (510, 255, 8) and Sliding.over(512, None, 8).room == 510 + 7 * 255
    assert Sliding.over(16, 200, 2).room == 28


def test_a_batch_of_windows_is_worked_through_in_equal_parts_on_each_device():
    for batch_size, windows, seq_len, replicas in (
        (32, 8, 128, 1), (16, 8, 512, 1), (48, 5, 128, 4), (30, 8, 128, 2), (7, 8, 128, 1), (2, 64, 512, 1)
    ):  # fmt: skip
        parts = parts_of_windows(batch_size, windows, seq_len, replicas)
        assert batch_size % (parts * replicas) == 0 or parts == 1
        TrainingConfig(batch_size=batch_size, gradient_accumulation_steps=parts)
    assert (parts_of_windows(32, 8, 128, 1), parts_of_windows(48, 5, 128, 4), parts_of_windows(2, 64, 512, 1)) == (8, 4, 2)
    assert parts_of_windows(16, 8, 512, 1) == 16, "of a window of 512 tokens fewer fit into memory"


@pytest.mark.parametrize("way", ["cut", "windows"])
def test_only_a_training_on_windows_computes_layers_twice_and_is_over_once_all_is_right(vocab, monkeypatch, way):
    asked = []

    def too_much(tokens, seq_len, size):
        asked.append((tokens, seq_len))
        return True

    monkeypatch.setattr(recipe, "keeps_too_much", too_much)
    model, rows = ModelConfig(layers=1, hidden=8, heads=2, intermediate=8), batching.Corpus(np.zeros(60), np.arange(61), {})

    def prepared(**training):
        settings, size = TrainingConfig(**training), EncoderSize(vocab_size=30, layers=1, hidden=8, heads=2, intermediate=8)
        return recipe.prepare(TASK, context_of(vocab, way), model, settings, lambda: Encoder(size), rows, evaluated=20)

    found, given = prepared(recipe=RECIPE), prepared(epochs=3, keep="best")
    assert found.settings.gradient_checkpointing is found.ends_at_best is (way == "windows")
    assert not given.ends_at_best, "who gives the epochs gets them"
    why = json.loads(found.ended(80, 20).to_json())["reasons"]["training"]
    assert why.startswith("ended at step 80") and "all 20 evaluation examples are answered rightly" in why
    assert asked == ([(12 * SEQ_LEN, SEQ_LEN), (24 * SEQ_LEN, SEQ_LEN)] if way == "windows" else [])


def test_a_way_that_a_task_does_not_have_is_refused_by_name():
    def said(task, way, texts=1, **options):
        with pytest.raises(BertlineError, match=r"^text\.long: ") as error:
            check_long(get_task(task), TextConfig(long=way), texts, **options)
        return str(error.value)

    assert "reads long texts in windows in any case" in said("tagging", "cut")
    assert "windows is not for the task matching; leave it out, or choose cut or head_tail" in said("matching", "windows")
    assert "choose cut." in said("choice", "head_tail")
    assert "an example has 2" in said("regression", "windows", 2)
    assert "training.xla" in said("multilabel", "windows", xla=True)
    for task in ("tagging", "translation", "classification"):
        check_long(get_task(task), TextConfig(), 1, xla=True)
        assert left_open(get_task(task), TextConfig()) == (task == "classification")


def test_a_vector_of_a_long_text_may_be_that_of_its_ends(vocab):
    task, context = get_task("similarity"), context_of(vocab, "head_tail", TEXT_KEYS)
    given = {key: tf.constant(texts(40)) for key in TEXT_KEYS}
    kept = [CLS, *ends(ids_of(texts(40)[0]), SEQ_LEN - 2), SEP]
    assert task.preprocessing.request(given, context)["token_ids"].to_list() == [kept * 2]


def learned(vocab, tmp_path, way):
    """Accuracy on unseen texts of 14 to 20 tokens whose class their last word tells."""
    context, random = replace(context_of(vocab, way), pooling="mean"), np.random.default_rng(0)

    def corpus(count):
        label = random.integers(0, 2, count)
        words = [[*random.choice(list("cdefghij"), random.integers(13, 20)), "ab"[kind]] for kind in label]
        columns = {"text": [" ".join(row) for row in words], "label": np.asarray(["no", "yes"])[label]}
        found = TASK.preprocessing.features({name: tf.constant(values) for name, values in columns.items()}, context)
        ids = found["token_ids"]
        return batching.Corpus(ids.flat_values.numpy(), ids.row_splits.numpy(), {"label_id": found["label_id"].numpy()})

    size = EncoderSize(
        vocab_size=len(VOCAB), layers=1, hidden=16, heads=2, intermediate=32, dropout=0.0, attention_dropout=0.0
    )
    result = train(
        lambda: TASK.model.build(Encoder(size, seed=1), context, 0.0, 1),
        TASK,
        TrainingConfig(epochs=4, batch_size=16, learning_rate=5e-3, buckets=(8, 16)),
        corpus(240),
        corpus(96),
        checkpoint_folder=tmp_path / way,
    )
    return result.history[-1]["eval_accuracy"]


def test_a_class_that_only_the_last_word_tells_is_learned_by_who_reads_the_end(vocab, tmp_path):
    accuracy = {way: learned(vocab, tmp_path, way) for way in WAYS}
    assert accuracy["cut"] < 0.7 and min(accuracy["head_tail"], accuracy["windows"]) > 0.95, accuracy
