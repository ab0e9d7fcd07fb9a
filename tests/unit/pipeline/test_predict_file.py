"""A file's lines are asked in batches of like length, answered in their order, and refused by place before any is asked."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertline.models.responses.base import plain
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.inference import file as predict_file
from bertline.pipeline.inference.file import Question, Source, answer_file, answered, with_answer
from bertline.pipeline.inference.predictor import BATCH, Found, Loaded


def shout(rows):
    """A model that says a text in capitals."""
    return [{"loud": row["text"].upper(), "score": np.float32(len(row["text"]))} for row in rows]


LOUD = Loaded(shout, str, plain)


def found(columns, model=LOUD):
    return Found("model", list(columns), lambda: model, columns)


ONE = found({"text": "body"})
TWO = found({"text": "premise", "text_2": "hypothesis"})


def write(folder, name, text):
    path = folder / name
    with gzip.open(path, "wt", encoding="utf-8") if name.endswith(".gz") else path.open("w", encoding="utf-8") as stream:
        stream.write(text)
    return str(path)


def asked(path, found=ONE, format=None):
    return [(dict(question.fields), question.texts) for question in Source.of(path, found, format).questions()]


@pytest.mark.parametrize("at_once", [1, 4])
def test_answers_keep_the_order_of_the_lines_over_many_buffers(monkeypatch, at_once):
    monkeypatch.setattr(predict_file, "_BUFFER_ROWS", 100)
    questions = [Question({"n": n}, {"text": b"x" * (n * 37 % 101)}) for n in range(1050)]
    answers = list(answered(iter(questions), replace(LOUD, at_once=at_once)))
    assert [answer["n"] for answer in answers] == list(range(1050))
    assert [answer["score"] for answer in answers] == [n * 37 % 101 for n in range(1050)]


def test_rows_of_like_length_are_asked_together():
    spread = []

    def ask(rows):
        lengths = [len(row["text"]) for row in rows]
        spread.append(max(lengths) - min(lengths))
        return shout(rows)

    list(answered([Question({}, {"text": b"x" * (n * 37 % 512)}) for n in range(8 * BATCH)], replace(LOUD, ask=ask)))
    assert len(spread) == 8 and max(spread) < BATCH


def test_no_more_is_held_than_a_buffer_of_rows(monkeypatch):
    monkeypatch.setattr(predict_file, "_BUFFER_ROWS", 128)
    monkeypatch.setattr(predict_file, "_BUFFER_CHARS", 1000)
    read = 0

    def questions(size):
        nonlocal read
        for _ in range(10_000):
            read += 1
            yield Question({}, {"text": b"x" * size})

    next(answered(questions(1), LOUD))
    assert read == 128
    read = 0
    next(answered(questions(100), LOUD))
    assert read == 11


def test_fields_are_kept_as_they_are_and_never_hide_the_answer(tmp_path):
    line = {"text": "é 好", "id": 7, "nested": {"a": [1, None]}, "label": "x"}
    fields, texts = asked(write(tmp_path, "in.jsonl", json.dumps(line)))[0]
    assert fields == line and texts == {"text": "é 好".encode()}
    made = with_answer({**fields, "given_label": 1}, {"label": "y"})
    assert made == {**line, "given_given_label": "x", "given_label": 1, "label": "y"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("in.jsonl", '{"text": "a", "text_2": "b"}\n\n{"text_2": "d", "text": "c"}\n'),
        ("in.jsonl.gz", '{"text": "a", "text_2": "b"}\n{"text": "c", "text_2": "d"}'),
        ("in.csv", 'text,text_2\r\na,b\r\n"c",d\r\n'),
        ("in.tsv", "id\tpremise\thypothesis\n1\ta\tb\n2\tc\td\n"),
    ],
)
def test_texts_are_found_by_the_signatures_names_or_those_of_the_training_files(tmp_path, name, text):
    first, second = (texts for _, texts in asked(write(tmp_path, name, text), TWO))
    assert first == {"text": b"a", "text_2": b"b"} and second == {"text": b"c", "text_2": b"d"}


def test_a_plain_line_is_a_text_and_an_empty_one_too(tmp_path):
    path = write(tmp_path, "in.txt", "one\r\n\n好 😀")
    assert [fields for fields, _ in asked(path)] == [{"text": "one"}, {"text": ""}, {"text": "好 😀"}]
    assert asked(write(tmp_path, "lines", "one"), format="lines") == [({"text": "one"}, {"text": b"one"})]


@pytest.mark.parametrize(
    ("name", "text", "found", "part"),
    [
        ("in.jsonl", '{"text": "a"}\n{"text": \n', ONE, "in.jsonl:2: not valid JSON"),
        ("in.jsonl", '{"text": "a"}\n{"txt": "b"}\n', ONE, "in.jsonl:2: 'text' is missing"),
        ("in.jsonl", '{"text": "a"}\n{"text": ["b"]}\n', ONE, "in.jsonl:2: column 'text' holds a list"),
        ("in.jsonl", '{"texts": "a"}\n', ONE, "no column 'text', nor 'body' as in the training files"),
        ("in.jsonl", '["a"]\n', ONE, "in.jsonl:1: a list, not an object"),
        ("in.csv", "text\na\nb,c\n", ONE, "in.csv:3: 2 columns where 1 belong"),
        ("in.txt", "a\n\0\n", ONE, "in.txt:2: in.txt, line 2, column 1: a NUL byte"),
        ("in.txt", "a\n", TWO, "a plain line is one text, and the model reads text and text_2"),
        ("in.parquet", "PAR1", ONE, "give --format jsonl|csv|tsv|lines"),
        ("in.xyz", "a", ONE, "give --format jsonl|csv|tsv|lines"),
    ],
)
def test_what_cannot_be_asked_is_told_by_its_place_and_nothing_is_written(tmp_path, name, text, found, part):
    out = tmp_path / "out.jsonl"
    out.write_text("what was there before\n")
    with pytest.raises(BertlineError) as refused:
        answer_file(write(tmp_path, name, text), str(out), found)
    assert part in str(refused.value)
    assert out.read_text() == "what was there before\n" and sorted(p.name for p in tmp_path.iterdir()) == [
        name,
        "out.jsonl",
    ]


def test_a_file_that_breaks_off_is_told_before_a_model_is_loaded(tmp_path):
    whole = Path(write(tmp_path, "in.jsonl.gz", "".join(f'{{"text": "{n * 7919}"}}\n' for n in range(10_000))))
    whole.write_bytes(whole.read_bytes()[:-2000])
    with pytest.raises(BertlineError, match="in.jsonl.gz: cannot be read to its end"):
        answer_file(str(whole), str(tmp_path / "out.jsonl"), ONE)


@pytest.mark.parametrize(
    ("path", "out", "part"),
    [
        ("none.jsonl", "out.jsonl", "no such file"),
        (".", "out.jsonl", "is not a regular file"),
        ("in.jsonl", "in.jsonl", "--out is the input file"),
        ("in.jsonl", "no/out.jsonl", "there is no folder"),
        ("in.jsonl", ".", "is a folder"),
    ],
)
def test_paths_are_checked_before_anything_is_read(tmp_path, monkeypatch, path, out, part):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "in.jsonl", '{"text": "a"}')
    with pytest.raises(BertlineError, match=part):
        answer_file(path, out, ONE)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
@pytest.mark.parametrize("at_once", [1, 4])
def test_an_interruption_leaves_the_old_answers_and_no_half_file(monkeypatch, tmp_path, error, at_once):
    closed = []

    def breaks_off(rows):
        if len(rows) < BATCH:  # not the first batch
            raise error
        return shout(rows)

    monkeypatch.setattr(predict_file, "_BUFFER_ROWS", BATCH)
    model = Loaded(breaks_off, str, plain, at_once, lambda: closed.append(True))
    path = write(tmp_path, "in.txt", "a\n" * (BATCH + 1))
    out = tmp_path / "out.jsonl"
    out.write_text("old\n")
    with pytest.raises(error):
        answer_file(path, str(out), found({"text": "body"}, model))
    assert closed
    assert out.read_text() == "old\n" and sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.jsonl"]


def test_answers_go_to_a_file_a_compressed_file_or_the_standard_output(tmp_path, capsys):
    path = write(tmp_path, "in.txt", "a\nb\n")
    wanted = [{"text": "a", "loud": "A", "score": 1.0}, {"text": "b", "loud": "B", "score": 1.0}]
    for out in ("out.jsonl", "out.jsonl.gz"):
        assert answer_file(path, str(tmp_path / out), ONE) == 2
    answer_file(path, "-", ONE)
    unpacked = gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).decode()
    for text in ((tmp_path / "out.jsonl").read_text(), unpacked, capsys.readouterr().out):
        assert [json.loads(line) for line in text.splitlines()] == wanted


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("in.jsonl", '{"text": "He", "choices": ["ran", "sat", "ate"]}\n{"text": "We", "choices": ["a", "b"]}\n'),
        ("in.csv", "prompt,a,b,c\nHe,ran,sat,ate\nWe,a,b,\n"),
    ],
)
def test_choices_are_a_list_or_the_columns_of_the_training_files(tmp_path, name, text):
    columns = {"text": "prompt", "choices": ["a", "b", "c"]}
    chooses = found(columns)
    path = write(tmp_path, name, text)
    first, second = (texts for _, texts in asked(path, chooses))
    assert first == {"text": b"He", "choices": [b"ran", b"sat", b"ate"]}
    assert second == {"text": b"We", "choices": [b"a", b"b"]}
    for broken, part in (('"He", "choices": []', "no choices"), ('"He", "choices": "ran"', "is not a list")):
        path = write(tmp_path, "broken.jsonl", f'{{"text": {broken}}}')
        with pytest.raises(BertlineError, match=f"broken.jsonl:1: .*{part}"):
            asked(path, chooses)
