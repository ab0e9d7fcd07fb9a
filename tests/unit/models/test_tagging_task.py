"""Tagging: a tag at each word's first token, long texts in windows, entities with their places in the text."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tensorflow as tf
from entities import chunks
from wordpiece import write_vocab

from bertline.models.data.batching import padded, read_corpus
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize
from bertline.models.tasks.base.task import Context, get_task
from bertline.models.tasks.graphs import tagging
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.serving.export.saved_model import ServedModel

TASK = get_task("tagging")
LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
LETTERS = [f"{begin}{letter}" for begin in ("", "##") for letter in "abcdefghijklmnopqrstuvwxyz"]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, ",", ".", "'", "好", "北", "京", "🎬"]


@pytest.fixture(scope="module")
def vocab(tmp_path_factory):
    return write_vocab(tmp_path_factory.mktemp("vocab"), TOKENS)


def make_context(vocab, seq_len=16, labels=LABELS, **settings):
    return Context(TextEncoder(vocab, seq_len=seq_len, **settings), labels)


@pytest.fixture(scope="module")
def context(vocab):
    return make_context(vocab)


def make_model(context, seed=3):
    size = EncoderSize(vocab_size=len(TOKENS), layers=1, hidden=8, heads=2, intermediate=16, max_positions=64)
    model = TASK.model.build(Encoder(size, seed=seed), context, 0.0, seed)
    model.head.kernel.assign(model.head.kernel * 100)  # so that answers differ visibly
    return model


def columns(*rows):
    return {
        "text": tf.constant([text for text, _ in rows]),
        "label": tf.ragged.constant([label.split() for _, label in rows], ragged_rank=1, dtype=tf.string),
    }


def test_the_tag_of_a_word_is_at_its_first_token(context):
    rows = columns(("ab c \x01 d", "B-PER I-PER O O"), ("好 a", "B-LOC O"))
    batch = padded(TASK.preprocessing.expand(TASK.preprocessing.features(rows, context), context, False))
    assert batch["word_positions"].numpy().tolist() == [[1, 3, 4], [1, 2, 0]]
    assert batch["word_positions_mask"].numpy().tolist() == [[True, True, True], [True, True, False]]
    # The third word leaves no token behind, and the fourth is still the fourth.
    assert batch["word_ids"].numpy().tolist() == [[0, 1, 3], [0, 1, 0]]
    assert batch["tag_ids"].numpy().tolist() == [[3, 4, 0], [1, 0, 0]]


def test_unknown_and_missing_tags_have_no_weight(context):
    rows = columns(("a b c", "O B-XYZ B-PER"), ("a b", ""), ("", ""))
    features = TASK.preprocessing.features(rows, context)
    batch = padded(TASK.preprocessing.expand(features, context, False))
    assert batch["tag_ids"].numpy()[:2].tolist() == [[0, -1, 3], [-1, -1, 0]]
    batch["weight"] = tf.constant([0.5, 0.5, 0.0])
    share = TASK.preprocessing.prepare(context, True)(batch, 0)["word_share"].numpy()
    np.testing.assert_allclose(share, [[1, 0, 1], [0, 0, 0], [0, 0, 0]])
    found = {name: value.numpy().tolist() for name, value in TASK.evaluation.targets(features).items()}
    assert found == {"tag_ids": [[0, -1, 3], [-1, -1, -1], [-1, -1, -1]], "label_weight": [1.0, 0.0, 0.0]}


def test_the_loss_is_the_mean_over_words_and_not_over_sentences(context):
    rows = columns(("a b c d e", "B-PER I-PER O O B-LOC"), ("a", "O"), ("f g", "O O"))
    batch = padded(TASK.preprocessing.expand(TASK.preprocessing.features(rows, context), context, False))
    batch["weight"] = tf.constant([0.5, 0.5, 0.0])  # the third row fills the batch up
    batch = TASK.preprocessing.prepare(context, True)(batch, 0)
    outputs = make_model(context)(batch)
    logits = outputs["scores"]
    assert logits.shape == (3, 5, len(LABELS))
    each = [
        -tf.nn.log_softmax(logits[row, word])[tag].numpy()
        for row, tags in enumerate([[3, 4, 0, 0, 1], [0]])
        for word, tag in enumerate(tags)
    ]
    total = tf.reduce_sum(batch["weight"] * TASK.objective.loss(outputs, batch))
    np.testing.assert_allclose(total, np.mean(each), rtol=1e-5)
    right = [
        int(np.argmax(logits[row, word]) == tag)
        for row, tags in enumerate([[3, 4, 0, 0, 1], [0]])
        for word, tag in enumerate(tags)
    ]
    found = tf.reduce_sum(batch["weight"] * TASK.objective.accuracy(outputs, batch))
    np.testing.assert_allclose(found, np.mean(right), rtol=1e-5)


def windows_in_python(length, size, step):
    """(begin, end) of each window, as the rule says."""
    found, begin = [], 0
    while True:
        found.append((begin, min(begin + size, length)))
        if begin + size >= length:
            return found
        begin += min(step, size)


def chosen_in_python(length, size, step):
    """The window that each token is read from, by the original's loop for SQuAD."""
    spans = windows_in_python(length, size, step)
    chosen = []
    for token in range(length):
        best, best_score = None, None
        for number, (begin, end) in enumerate(spans):
            if begin <= token < end:
                score = min(token - begin, end - 1 - token) + 0.01 * (end - begin)
                if best_score is None or score > best_score:
                    best, best_score = number, score
        chosen.append(best)
    return chosen


@pytest.mark.parametrize(("seq_len", "step"), [(4, 1), (4, 9), (7, 2), (9, 3), (10, 8), (13, 5), (14, 12)])
def test_each_word_is_tagged_once_by_the_window_with_the_most_context(vocab, seq_len, step):
    context, lengths = make_context(vocab, seq_len, window_step=step), range(60)
    rows = columns(*((" ".join("a" * length), " ".join("O" * length)) for length in lengths))
    found = TASK.preprocessing.expand(TASK.preprocessing.features(rows, context), context, False)
    got = [[] for _ in lengths]
    seen = [0] * len(lengths)
    shown = zip(found["window_rows"].numpy(), found["word_ids"].to_list(), found["word_chosen"].to_list(), strict=True)
    for row, words, chosen in shown:
        got[row] += [(word, seen[row]) for word, taken in zip(words, chosen, strict=True) if taken]
        seen[row] += 1
    # In the order of the text, each word once.
    expected = [list(enumerate(chosen_in_python(length, seq_len - 2, step))) for length in lengths]
    assert got == expected
    assert found["token_ids"].bounding_shape()[1] <= seq_len


def test_windows_of_a_text_are_put_together_again(vocab):
    context = make_context(vocab, seq_len=10, window_step=3)
    text = " ".join("abcdefghijklmnopqrstuvwxyz")
    rows = columns((text, " ".join(["O"] * 26)), ("a b", "O O"), ("", ""))
    batch = padded(TASK.preprocessing.expand(TASK.preprocessing.features(rows, context), context, False))
    # Logits that say which word they are of.
    outputs = {"scores": tf.one_hot(batch["word_ids"] % 5, 5)}
    given = TASK.evaluation.measure(outputs, batch, context)["answer"].numpy()
    assert given[0].tolist() == [number % 5 for number in range(26)]
    assert given[1].tolist() == [0, 1, *[0] * 24] and given[2].tolist() == [0] * 26


def test_a_long_text_is_trained_on_in_all_its_windows(context, tmp_path):
    path = str(tmp_path / "rows.gz")
    rows = columns((" ".join("abcdefghijklmnopqrstuvwxyz"), " ".join(["B-PER", "I-PER"] * 13)), ("a b", "O B-LOC"))
    features = TASK.preprocessing.features(rows, context)
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
        for row in range(2):
            lists = {
                name: tf.train.Feature(int64_list=tf.train.Int64List(value=value[row].numpy()))
                for name, value in features.items()
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=lists)).SerializeToString())
    spec = {name: tf.io.RaggedFeature(tf.int64) for name in features}
    corpus = read_corpus([path], spec, lambda found: TASK.preprocessing.expand(found, context, True))
    assert corpus.lengths.tolist() == [16, 16, 14, 4]
    tags, places = corpus.others["tag_ids"].to_list(), corpus.others["word_positions"].to_list()
    assert tags[1][:2] == [4, 3] and len(tags[1]) == 14 and tags[3] == [0, 1] and places[3] == [1, 2]


TAGS = ["O", *(f"{letter}-{kind}" for letter in "BIES" for kind in ("A", "b"))]


def test_the_graph_finds_the_entities_that_seqeval_finds():
    chance = random.Random(0)
    sentences = [[chance.choice(TAGS) for _ in range(chance.randrange(9))] for _ in range(1000)]
    ids = tf.ragged.constant([[TAGS.index(tag) for tag in row] for row in sentences], ragged_rank=1, dtype=tf.int32)
    begins, is_part, kinds = tagging.entity_words(ids, TAGS)
    found = []
    words = [(row, word, tag) for row, tags in enumerate(ids.to_list()) for word, tag in enumerate(tags)]
    for (row, word, tag), begin, part in zip(words, begins.numpy(), is_part.numpy(), strict=True):
        if begin:
            found.append([row, kinds[tag], word, word])
        elif part:
            found[-1][-1] = word
    assert found == [[row, *chunk] for row, tags in enumerate(sentences) for chunk in chunks(tags)]


class Fixed(tf.Module):
    """Answers by a rule instead of a model: the tokens of a list are tagged so, everything else is outside."""

    def __init__(self, rule, transitions=None):
        super().__init__()
        self.transitions = transitions
        tags = [LABELS.index(rule.get(token, "O")) for token in TOKENS]
        self.scores = tf.constant([[8.0 if tag == number else 0.0 for number in range(len(LABELS))] for tag in tags])

    def __call__(self, batch, training=False):
        tokens = tf.gather(batch["token_ids"], batch["word_positions"], batch_dims=1)
        found = {"scores": tf.gather(self.scores, tokens)}
        return found if self.transitions is None else {**found, "transitions": self.transitions}


RULE = {"p": "B-PER", "q": "I-PER", "北": "B-LOC", "京": "I-LOC", "🎬": "B-LOC"}


def asked(context, *texts, transitions=None):
    served = ServedModel(TASK, context, Fixed(RULE, transitions))
    found = {name: value.numpy() for name, value in served.predict(tf.constant(texts)).items()}
    assert all(len(value) == len(texts) for value in found.values())
    return [
        TASK.serving.response.plain({name: value[row] for name, value in found.items()})["entities"]
        for row in range(len(texts))
    ]


def test_entities_have_their_type_text_and_place_in_the_request(context):
    texts = [
        "Pat Quin, a pen.",
        "nothing",
        "",
        "🎬 好\r\n北京 e\u0301 p\u0301 Que\u0301",
        "p\u0301\u0302x, x",
        b"\xff p\xff",
    ]
    found = asked(context, *texts)
    assert [[(one["type"], one["text"]) for one in row] for row in found] == [
        [("PER", "Pat Quin"), ("PER", "pen")],
        [],
        [],
        [("LOC", "🎬"), ("LOC", "北京"), ("PER", "p\u0301 Que\u0301")],
        [("PER", "p\u0301\u0302x")],
        [("PER", "p")],
    ]
    for text, row in zip(texts, found, strict=True):
        shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
        for one in row:
            assert shown[one["start"] : one["end"]] == one["text"]
            assert one["probability"] == pytest.approx(np.exp(8) / (np.exp(8) + 4), abs=1e-6)


def test_a_text_of_many_windows_has_entities_anywhere(vocab):
    context = make_context(vocab, seq_len=12, window_step=4)
    text = " ".join(["x"] * 9 + ["p", "q"] + ["x"] * 20 + ["p"] + ["q"] * 15 + ["x"])
    (row,) = asked(context, text)
    assert [one["text"] for one in row] == ["p q", " ".join(["p"] + ["q"] * 15)]
    assert all(text[one["start"] : one["end"]] == one["text"] for one in row)


def test_a_crf_chooses_the_tags_of_a_text_together(vocab):
    context = make_context(vocab, seq_len=12, window_step=4)
    texts = [" ".join(["x"] * 20 + ["p", "q"] + ["x"] * 9), "q x p", ""]
    # As long as all transitions are equal, each word goes by itself; shares are those of the words alone.
    indifferent = asked(context, *texts, transitions=tf.zeros([5, 5]))
    alone = asked(context, *texts)
    for ours, theirs in zip(indifferent, alone, strict=True):
        assert [one | {"probability": None} for one in ours] == [one | {"probability": None} for one in theirs]
        assert [one["probability"] for one in ours] == pytest.approx([one["probability"] for one in theirs], abs=1e-5)
    # I-PER after anything but PER is worse than any word can make good, and a person is a little unlikely.
    strict = np.zeros([5, 5], np.float32)
    strict[:3, 4], strict[0, 3] = -20, -1
    found = asked(context, "a x q x p q", transitions=tf.constant(strict))
    assert [one["text"] for one in found[0]] == ["p q"]


def test_a_crf_learns_how_tags_follow_each_other(vocab):
    context = Context(TextEncoder(vocab, seq_len=16), LABELS, crf=True)
    rows = columns(("a b c d e", "B-PER I-PER O O B-LOC"), ("a", "O"), ("b c", "O B-XYZ"))
    batch = padded(TASK.preprocessing.expand(TASK.preprocessing.features(rows, context), context, False))
    batch["weight"] = tf.fill([3], 1 / 3)
    batch, model = TASK.preprocessing.prepare(context, True)(batch, 0), make_model(context)
    with tf.GradientTape() as tape:
        outputs = model(batch, training=True)
        loss = tf.reduce_sum(batch["weight"] * TASK.objective.loss(outputs, batch))
    gradient = tape.gradient(loss, model.transitions.value).numpy()
    assert gradient[3, 4] < 0 and gradient[3, 3] > 0  # B-PER I-PER is wanted, B-PER B-PER is not
    assert np.isfinite(gradient).all() and loss > 0


def test_an_answer_reads_well(context):
    served = ServedModel(TASK, context, Fixed(RULE))
    found = {name: value[0].numpy() for name, value in served.predict(tf.constant(["Pat\r\nQuin, 北京"])).items()}
    assert TASK.serving.response.readable(found) == "Pat Quin PER 1.00  [0:9]   |   北京 LOC 1.00  [11:13]"
    found = {name: value[0].numpy() for name, value in served.predict(tf.constant(["x"])).items()}
    assert TASK.serving.response.readable(found) == "no entities"


def test_the_evaluators_signatures_speak_of_every_word(context):
    served = ServedModel(TASK, context, Fixed(RULE))

    def example(text, tags):
        made = {
            "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()])),
            "label": tf.train.Feature(bytes_list=tf.train.BytesList(value=[tag.encode() for tag in tags.split()])),
        }
        return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()

    records = tf.constant([example("pat \x01 x qx", "B-PER I-PER O I-LOC"), example("x", "O")])
    assert served.predict_examples(records)["answer"].numpy().tolist() == [[3, 0, 0, 4], [0, 0, 0, 0]]
    targets = served.evaluation_targets(records)
    assert targets["tag_ids"].numpy().tolist() == [[3, 4, 0, 2], [0, -1, -1, -1]]
    assert targets["label_weight"].numpy().tolist() == [1.0, 1.0]


def test_every_weight_learns(context):
    rows = columns(("a b c d e", "B-PER I-PER O O B-LOC"), ("a", "O"))
    batch = padded(TASK.preprocessing.expand(TASK.preprocessing.features(rows, context), context, False))
    batch["weight"] = tf.constant([0.5, 0.5])
    batch, model = TASK.preprocessing.prepare(context, True)(batch, 0), make_model(context)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(batch["weight"] * TASK.objective.loss(model(batch, training=True), batch))
    weights = [weight for weight in model.trainable_variables if "pooler" not in weight.path]
    gradients = tape.gradient(loss, [weight.value for weight in weights])
    assert all(gradient is not None for gradient in gradients)
