"""TF-IDF in numpy and in the graph: scikit-learn's own vectorizers are the reference, on texts of all scripts."""

import random

import numpy as np
import pytest
import tensorflow as tf
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier

from bertline.models.data.batching import TOKENS, padded
from bertline.models.tfidf.characters import WORD, lowered
from bertline.models.tfidf.model import TfIdfModel
from bertline.models.tfidf.vocabulary import learn
from bertline.models.training.probing import Linear, layer_of

SCRIPTS = (
    "abABß İıΣσςΟΔ éÉe\u0301ǅﬁ北京ーあｱ한국กไ_-.,!0１²٣\t\n\r\x0b\x1c\x85\xa0\u3000\u2028\u200b🎬👩‍💻𠮷\U0001d400\x00\ufeff"
)


def texts(count, seed):
    chance = random.Random(seed)

    def character():
        code = chance.randrange(0x110000)
        return " " if 0xD800 <= code < 0xE000 else chr(code)

    def text():
        if chance.random() < 0.2:
            return "".join(character() for _ in range(chance.randrange(30)))
        return "".join(chance.choice(SCRIPTS + " " * 20) for _ in range(chance.randrange(60)))

    return [*(text() for _ in range(count)), "", " ", "a", "ab cd", "北京", "好" * 6000, "word " * 1200, "x" * 6000]


TRAIN, ASKED = texts(250, 1), texts(250, 2)


@pytest.fixture(scope="module")
def vocabulary():
    return learn([TRAIN])


@pytest.fixture(scope="module")
def vectorized(vocabulary):
    """(texts) -> scikit-learn's features, of words and of runs of characters."""
    kinds = (
        {"tokenizer": WORD.findall, "token_pattern": None, "ngram_range": (1, 2)},
        {
            "analyzer": "char_wb",
            "ngram_range": (2, 5),
        },
    )
    made = [
        TfidfVectorizer(
            preprocessor=lambda text, most=block.characters: lowered(text[:most]),
            sublinear_tf=True,
            max_features=len(block.keys) if block.kind == "words" else None,
            **kind,
        ).fit(TRAIN)
        for block, kind in zip(vocabulary.blocks, kinds, strict=True)
    ]
    return lambda asked: [one.transform(asked) for one in made]


def products(table, other):
    """Of each text with each: equal where two tables differ in the order of their columns alone."""
    return (table @ other.T).toarray()


def test_the_features_are_those_of_scikit_learn(vocabulary, vectorized):
    train, asked = vectorized(TRAIN), vectorized(ASKED)
    for at, block in enumerate(vocabulary.blocks):
        own = vocabulary._replace(blocks=(block,))
        assert own.features == train[at].shape[1]  # nothing was left out, so that all can be compared
        ours, table = own.table(TRAIN), own.table(ASKED)
        assert ours.nnz == train[at].nnz and table.nnz == asked[at].nnz
        np.testing.assert_allclose(products(table, ours), products(asked[at], train[at]), atol=1e-5)


def learned(make, classes):
    labels = np.asarray([(len(text) + text.count("a")) % classes for text in TRAIN])
    return make.fit(learn([TRAIN]).table(TRAIN), labels)


@pytest.mark.parametrize(
    ("make", "classes"),
    [
        (LogisticRegression(C=10, solver="liblinear"), 2),
        (LogisticRegression(C=10, max_iter=20), 3),
        (SGDClassifier(loss="log_loss", max_iter=5, tol=None, random_state=0), 4),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_graph_gives_the_probabilities_of_scikit_learn(vocabulary, make, classes):
    linear = learned(make, classes)
    layer = Linear(*(values.astype(np.float32) for values in layer_of(linear, classes)))
    model = TfIdfModel(vocabulary, layer, one_against_rest=isinstance(make, SGDClassifier))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def ask(asked):
        tokens = tf.strings.unicode_decode(asked, "UTF-8")  # which the model does not look at
        return tf.nn.softmax(model(padded({TOKENS: tokens, **model.read(asked)})))

    found = ask(tf.constant([text.encode() for text in ASKED])).numpy()
    np.testing.assert_allclose(found, linear.predict_proba(vocabulary.table(ASKED)), atol=1e-5)
    # A text is answered alike whatever it is asked with, and so is one that has nothing known.
    alone = np.concatenate([ask(tf.constant([text.encode()])).numpy() for text in ASKED[-8:]])
    np.testing.assert_allclose(alone, found[-8:], atol=1e-6)
    assert ask(tf.constant([], tf.string)).shape == (0, classes)


def test_bytes_that_are_no_text_are_answered(vocabulary):
    model = TfIdfModel(vocabulary, Linear(np.ones((vocabulary.features, 2), np.float32), np.zeros(2, np.float32)))
    assert model.read(tf.constant([b"\xff\xfe ab", b"\xed\xa0\x80"]))["ngrams"].nrows() == 2


def test_lowering_looks_at_one_character_at_a_time():
    every = "".join(map(chr, range(0x3000)))
    assert lowered(every) == "".join(map(lowered, every)) and len(lowered(every)) == len(every)
    assert lowered("ΟΔΟΣ İ ς") == "οδοσ i σ"


def test_what_stands_in_one_of_many_texts_is_left_out():
    assert learn([["one two"] * 2000 + ["three"]]).features < learn([["one two"] * 20 + ["three"]]).features
    assert learn([["", " "]]) is None
