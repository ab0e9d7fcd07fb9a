"""`bertline tokenize` through its door, and what a checkpoint says of its tokenizer."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tokenizers import BertWordPieceTokenizer
from wordpiece import SENTENCES, VOCAB, write_vocab

from bertline.pipeline.cli import main
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.inference import tokenize as tokenize_lines
from bertline.pipeline.settings.defaults import checkpoint_text


@pytest.fixture
def vocab_path(tmp_path) -> str:
    return write_vocab(tmp_path, VOCAB)


def tokenize(*arguments, given: bytes | None = None):
    return CliRunner().invoke(main, ["tokenize", *map(str, arguments)], input=given)


@pytest.mark.parametrize(("options", "lower"), [([], True), (["--cased"], False)])
def test_each_line_is_what_the_tokenizers_package_makes_of_it(vocab_path, options, lower):
    lines = [text for text in SENTENCES if "\n" not in text]
    done = tokenize("--vocab", vocab_path, "--reading", "huggingface", *options, given="\n".join(lines).encode())
    tokenizer = BertWordPieceTokenizer(vocab_path, lowercase=lower)
    expected = [tokenizer.encode(line) for line in lines]
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"tokens": e.tokens, "ids": e.ids, "offsets": [list(o) for o in e.offsets]} for e in expected
    ]


def test_any_bytes_give_a_line_for_a_line(vocab_path):
    given = b"\n\xff\xfethe\xed\xa0\x80\n\x00\n" + b"a" * 2**20 + b"\nthe"
    done = tokenize("--vocab", vocab_path, given=given)
    assert done.exit_code == 0
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["tokens"][1:-1] for line in found] == [[], ["the"], [], ["[UNK]"], ["the"]]
    assert found[1]["offsets"][1] == [2, 5]


def test_a_checkpoints_own_settings_are_taken_and_an_option_stands_above_them(tmp_path, vocab_path):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    text = "Aé [MASK]"
    for given in (tmp_path, vocab_path):  # the folder, or the file in it
        assert json.loads(tokenize("--vocab", given, text).stdout)["tokens"][1:-1] == ["A", "##é", "[MASK]"]
    others = tokenize("--vocab", vocab_path, "--uncased", "--reading", "original", text)
    assert json.loads(others.stdout)["tokens"][1:-1] == ["a", "##e", "[", "mask", "]"]


def test_a_person_sees_the_tokens_above_their_ids(vocab_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "24")
    (block,) = tokenize_lines.shown(["The 中 ☃".encode()], vocab_path, as_json=False)
    for code in ("\x1b[2m", "\x1b[22m", "\x1b[31m", "\x1b[33m", "\x1b[36m", "\x1b[32m", "\x1b[0m"):
        block = block.replace(code, "")
    ids = [VOCAB.index(token) for token in ("the", "中")]
    assert block.splitlines() == [
        "[CLS] the 中 [UNK]",
        f"2     {ids[0]} {ids[1]} 1",
        "[SEP]",
        "3",
    ]


def test_a_missing_vocabulary_is_one_sentence(tmp_path):
    done = tokenize("--vocab", tmp_path / "none.txt", "text")
    assert done.exit_code == 1 and "none.txt: cannot be read as a vocabulary" in done.stderr


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{}", {"lowercase": True, "strip_accents": None}),
        ('{"do_lower_case": true, "strip_accents": false}', {"lowercase": True, "strip_accents": False}),
        ('{"do_lower_case": false, "model_max_length": 512}', {"lowercase": False, "strip_accents": None}),
        ('{"tokenize_chinese_chars": false}', "tokenize_chinese_chars is false"),
        ('{"do_lower_case": "yes"}', "do_lower_case is 'yes'"),
        ("[]", "not a tokenizer's settings"),
        ("{", "not a tokenizer's settings"),
    ],
)
def test_a_tokenizer_config_is_read_or_refused(tmp_path, written, expected):
    (tmp_path / "tokenizer_config.json").write_text(written)
    if isinstance(expected, dict):
        assert checkpoint_text(tmp_path) == {"tokenizer_variant": "huggingface", **expected}
    else:
        with pytest.raises(BertlineError, match=expected):
            checkpoint_text(tmp_path)


def test_without_a_tokenizer_config_nothing_is_assumed(tmp_path):
    assert checkpoint_text(tmp_path) == {}
