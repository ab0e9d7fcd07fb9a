"""The text encoder on whole corpora, on huge texts and out of a SavedModel; its rules are in tests/unit."""

from __future__ import annotations

import pandas as pd
import pytest
import tensorflow as tf
from tokenizers import BertWordPieceTokenizer
from wordpiece import VOCAB, Graphs, write_vocab

from bertline.models.tokenization.tokenizer import TextEncoder
from bertline.pipeline.settings.loader import load


@pytest.fixture(scope="module")
def vocab_path(tmp_path_factory) -> str:
    return write_vocab(tmp_path_factory.mktemp("vocab"), VOCAB)


@pytest.fixture(scope="module")
def graphs(vocab_path):
    return {reading: Graphs(vocab_path, reading, True) for reading in ("original", "huggingface")}


@pytest.mark.parametrize("unit", ["a", "é ", "中", "\x00", "[MASK]", "ab " * 5, "\u0301", "🙂", "\xad"])
@pytest.mark.parametrize("reading", ["original", "huggingface"])
def test_a_text_of_a_megabyte_is_read_to_its_end(graphs, reading, unit):
    count = 2**20 // len(unit.encode())
    text = unit * count + " the"
    found = graphs[reading](["", text, "\x00"])
    assert (found[0], found[2]) == ([], [])
    assert found[1][-1][:3] == ("the", len(text) - 3, len(text))


@pytest.mark.parametrize("lower", [True, False])
def test_real_reviews_with_a_real_vocabulary_are_read_as_by_the_tokenizers_package(lower):
    config = load("reviews")
    texts = pd.read_csv(config.data.path).text.dropna().tolist()
    graph = Graphs(config.text.vocab, "huggingface", lower)
    tokenizer = BertWordPieceTokenizer(config.text.vocab, lowercase=lower)
    expected = tokenizer.encode_batch(texts, add_special_tokens=False)
    found = graph.tokens(tf.constant(texts))
    assert len(texts) > 13_000
    for name, flat in {
        "token_ids": [number for e in expected for number in e.ids],
        "start_chars": [start for e in expected for start, _ in e.offsets],
        "end_chars": [end for e in expected for _, end in e.offsets],
        "word_ids": [word for e in expected for word in e.word_ids],
    }.items():
        assert found[name].flat_values.numpy().tolist() == flat, name
    assert found["token_ids"].row_lengths().numpy().tolist() == [len(e) for e in expected]


@pytest.mark.full
def test_everything_exports_and_answers_without_our_code(vocab_path, tmp_path):
    module = tf.Module()
    module.encoder = TextEncoder(vocab_path, seq_len=16)
    text = tf.TensorSpec([None], tf.string)

    def answer(questions, texts):
        windows = module.encoder.windows(module.encoder.tokens(texts), step=4, question=module.encoder.tokens(questions))
        words = module.encoder.word_tokens(tf.strings.split(texts))
        packed = module.encoder.pack(words)
        return {
            **windows.tokens,
            "rows": windows.rows,
            "words": packed["word_ids"],
            "text": module.encoder.detokenize(words["token_ids"]),
        }

    module.answer = tf.function(answer, input_signature=[text, text], autograph=False)
    given_texts = tf.constant(["the cafe", "é"]), tf.constant(["Café the the the the [MASK] the the the the x", ""])
    expected = module.answer(*given_texts)
    tf.saved_model.save(module, str(tmp_path / "export"))
    found = tf.saved_model.load(str(tmp_path / "export")).answer(*given_texts)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        plain = [x.to_list() if isinstance(x, tf.RaggedTensor) else x.numpy().tolist() for x in (found[name], value)]
        assert plain[0] == plain[1], name
