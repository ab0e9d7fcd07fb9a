"""The vocabulary learner on its own, and the component on real Beam."""

import json
import random

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from tfx.types import artifact_utils, channel_utils, standard_artifacts

from bertline.components.artifacts import Vocabulary
from bertline.components.vocabulary import executor
from bertline.components.vocabulary.component import Executor, VocabularyGen
from bertline.components.vocabulary.executor import SplitIntoWords
from bertline.components.vocabulary.learner import learn_vocabulary
from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.models.tokenization.vocabulary import SPECIAL_TOKENS, read_vocabulary
from bertline.pipeline.config import TextConfig
from bertline.pipeline.core.errors import BertlineError

COUNTS = {"low": 5, "lower": 2, "newest": 6, "widest": 3, "!": 4, "中": 2, "q": 1}
SENTENCES = [
    "The film is a delight from start to finish.",
    "A délightful, tender film; the actors delight!",
    "Not a film to finish: the start is dull.",
    "Dull, dull, dull – and the actors know it.",
    "中文 the film 中文",
    "The finish? It is tender, tenderly played.",
    "Is it a film? It is a start.",
    "THE ACTORS PLAYED, THE FILM PLAYED.",
    "a\u00a0tender\u3000finish",
    "",
]


def test_special_tokens_come_first_then_the_alphabet_then_what_was_joined():
    vocab = learn_vocabulary(COUNTS, 1000)
    assert vocab[:5] == list(SPECIAL_TOKENS)
    # In order of frequency; what only stood alone has no continuation.
    assert vocab[5:11] == ["e", "##e", "w", "##w", "s", "##s"]
    assert "##!" not in vocab and "##中" not in vocab and "##q" not in vocab
    # "es" occurs 9 times (newest, widest), and so does "est"; "ow" and "low" occur 7 times.
    first_join = vocab.index("##es")
    assert vocab[first_join : first_join + 4] == ["##es", "##est", "##ow", "low"]
    assert "newest" in vocab and "widest" in vocab


def test_what_occurs_once_is_not_joined():
    assert not [token for token in learn_vocabulary({"abc": 1}, 100)[5:] if len(token.removeprefix("##")) > 1]


@settings(max_examples=100, deadline=None)
@given(
    counts=st.dictionaries(st.text("abcdeé中", min_size=1, max_size=9), st.integers(1, 50), min_size=1, max_size=40),
    size=st.integers(6, 120),
    seed=st.integers(0, 9),
)
def test_a_vocabulary_keeps_to_its_size_and_to_the_counts_alone(counts, size, seed):
    vocab = learn_vocabulary(counts, size)
    assert len(vocab) <= size
    assert len(set(vocab)) == len(vocab)
    shuffled = list(counts.items())
    random.Random(seed).shuffle(shuffled)
    assert learn_vocabulary(dict(shuffled), size) == vocab


@settings(max_examples=50, deadline=None)
@given(words=st.lists(st.text("ab", min_size=1, max_size=12), min_size=1, max_size=20))
def test_repeated_letters_are_joined_without_loss(words):
    """`aaa` holds the pair (##a, ##a) twice but overlapping: every token must still be a part of some word."""
    vocab = learn_vocabulary(dict.fromkeys(words, 3), 200)
    parts = {token.removeprefix("##") for token in vocab[5:]}
    assert all(any(part in word for word in words) for part in parts)
    assert set(words) <= set(vocab)


def test_texts_without_words_are_refused():
    with pytest.raises(BertlineError, match="contain no word"):
        learn_vocabulary({}, 100)


def run(
    tmp_path, text: TextConfig, sentences: list[str] = SENTENCES, targets: list[str] | None = None, files=("vocab.txt",)
) -> str:
    """Runs the component on `sentences` in `train` and another word in `eval`; returns the path of its vocab.txt.

    Args:
      targets: what is to be written of each sentence, for a task that writes texts.
      files: what the component is to have made.
    """
    examples = standard_artifacts.Examples()
    examples.uri = str(tmp_path / "examples")
    examples.split_names = artifact_utils.encode_split_names(["train", "eval"])
    for split, texts in (("train", sentences), ("eval", ["xylophone xylophone"])):
        path = tmp_path / "examples" / f"Split-{split}" / "data_tfrecord-00000-of-00001.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
            for at, sentence in enumerate(texts):
                values = {"text": sentence, **({"label": targets[at]} if targets and split == "train" else {})}
                feature = {
                    name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
                    for name, value in values.items()
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
            writer.write(tf.train.Example().SerializeToString())  # a row without text
    vocabulary = Vocabulary()
    vocabulary.uri = str(tmp_path / "vocabulary")
    (tmp_path / "vocabulary").mkdir(exist_ok=True)
    made = VocabularyGen(
        channel_utils.as_channel([examples]),
        text=text.model_dump_json(),
        text_keys=json.dumps(["text"]),
        vocab_digest="",
        code="test",
        **({"target_keys": json.dumps(["label"])} if targets else {}),
    )
    assert set(made.outputs) == {"vocabulary"}
    Executor().Do({"examples": [examples]}, {"vocabulary": [vocabulary]}, made.exec_properties)
    assert sorted(path.name for path in (tmp_path / "vocabulary").iterdir()) == sorted(files)
    return str(tmp_path / "vocabulary" / "vocab.txt")


def test_ten_sentences_give_a_vocabulary_that_knows_their_words(tmp_path):
    path = run(tmp_path, TextConfig())
    vocab = read_vocabulary(path)
    assert {"the", "film", "delight", "tender", "中", "–"} <= set(vocab)
    assert "Film" not in vocab and "é" not in vocab and "xylophone" not in vocab
    encoder = TextEncoder(path)
    assert encoder.unk_id not in encoder(tf.constant(SENTENCES)).flat_values.numpy()
    assert read_vocabulary(run(tmp_path, TextConfig())) == vocab


def test_a_learned_vocabulary_has_the_size_asked_for(tmp_path):
    assert len(read_vocabulary(run(tmp_path, TextConfig(vocab_size=100), SENTENCES * 2))) == 100


def test_reserved_tokens_stand_after_the_special_ones_and_are_not_learned_from(tmp_path):
    text = TextConfig(vocab_size=100, tokenizer_variant="huggingface", reserved_tokens=("[URL]", "[unused1]"))
    path = run(tmp_path, text, [f"[URL] {sentence} [URL]" for sentence in SENTENCES] * 2)
    vocab = read_vocabulary(path)
    assert vocab[:7] == [*SPECIAL_TOKENS, "[URL]", "[unused1]"]
    assert len(vocab) == 100 and not {"[", "]", "url"} & set(vocab)
    assert all(token.isprintable() for token in vocab)
    encoder = TextEncoder.from_config(path, text)
    assert encoder.tokenize(tf.constant(["[URL]"])).to_list() == [[5]]


def test_cased_text_keeps_its_capitals_and_accents(tmp_path):
    vocab = read_vocabulary(run(tmp_path, TextConfig(lowercase=False)))
    assert {"The", "THE", "é"} <= set(vocab)


def test_a_given_vocabulary_is_taken_as_it_is(tmp_path):
    given_path = tmp_path / "given.txt"
    given_path.write_text("\n".join(["[unused]", *SPECIAL_TOKENS, "film"]), encoding="utf-8")
    assert read_vocabulary(run(tmp_path, TextConfig(vocab=str(given_path)))) == ["[unused]", *SPECIAL_TOKENS, "film"]


def test_a_faulty_given_vocabulary_stops_the_pipeline(tmp_path):
    given_path = tmp_path / "given.txt"
    given_path.write_text("film\nfilm\n", encoding="utf-8")
    with pytest.raises(BertlineError, match="given.txt, line 2: 'film' is on line 1 too"):
        run(tmp_path, TextConfig(vocab=str(given_path)))


# Two languages

TARGETS = [f"Größe zeigt der Film, und der Hund läuft {at}." for at in range(len(SENTENCES))]
BOTH = ("target_vocab.txt", "vocab.txt")


def test_one_vocabulary_is_learned_from_both_languages(tmp_path):
    vocab = read_vocabulary(run(tmp_path, TextConfig(lowercase=False), targets=TARGETS))
    assert {"film", "Film", "der", "Größe"} <= set(vocab)
    alone = read_vocabulary(
        run(tmp_path / "alone", TextConfig(lowercase=False, separate_vocabularies=True))
    )  # no task that writes
    assert "Größe" not in alone


def test_each_language_has_a_vocabulary_of_its_own_if_asked_for(tmp_path):
    path = run(
        tmp_path, TextConfig(lowercase=False, separate_vocabularies=True, vocab_size=120), targets=TARGETS, files=BOTH
    )
    source, target = (read_vocabulary(str(tmp_path / "vocabulary" / name)) for name in ("vocab.txt", "target_vocab.txt"))
    assert source == read_vocabulary(path)
    assert "film" in source and "ß" not in source and "der" not in source
    assert {"Film", "der", "##ß"} <= set(target) and "q" not in target
    assert len(source) <= 120 and len(target) <= 120 and source[:5] == target[:5] == list(SPECIAL_TOKENS)


def test_either_of_two_vocabularies_can_be_given(tmp_path):
    given_path = tmp_path / "given.txt"
    given_path.write_text("\n".join([*SPECIAL_TOKENS, "Hund"]), encoding="utf-8")
    given_one = [*SPECIAL_TOKENS, "Hund"]
    for name, learned in (("vocab", "target_vocab.txt"), ("target_vocab", "vocab.txt")):
        run(tmp_path / name, TextConfig(separate_vocabularies=True, **{name: str(given_path)}), targets=TARGETS, files=BOTH)
        assert read_vocabulary(str(tmp_path / name / "vocabulary" / f"{name}.txt")) == given_one
        assert len(read_vocabulary(str(tmp_path / name / "vocabulary" / learned))) > 20


def test_targets_without_words_are_told_by_the_setting_that_names_them(tmp_path):
    with pytest.raises(BertlineError, match="data.label: the training texts contain no word"):
        run(tmp_path, TextConfig(separate_vocabularies=True), targets=[" "] * len(SENTENCES))


def test_words_are_split_as_the_encoder_will_split_them(monkeypatch):
    asked = []

    class Splitter:
        def __init__(self, **settings):
            asked.append(settings)
            self.marks = {"[URL]": "\ufdd0"}

        def __call__(self, texts):
            return tf.ragged.constant([["a", "\uffed,", "\ufdd0", "\uffed\ufdd0", "\ufdd0\uffed", "a"]])

    monkeypatch.setattr(executor, "WordSplitter", Splitter)
    for joined in (True, False):
        split = SplitIntoWords(TextConfig(preserve_whitespace=joined, reserved_tokens=("[URL]",)))
        split.setup()
        # A token that is kept whole teaches nothing, also where it follows a word without a space.
        assert dict(split.process([b"any"])) == {b"a": 2, "\uffed,".encode(): 1}
    assert [given["preserve_whitespace"] for given in asked] == [True, False]
