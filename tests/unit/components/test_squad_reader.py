"""SQuAD's JSON: a question is a row, what is wrong with one is told with its id, and the others are read all the same."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from bertline.components.ingest.files import find_files
from bertline.components.ingest.readers import json_items
from bertline.components.ingest.readers.json_items import ItemReader
from bertline.components.ingest.readers.records import UNREADABLE, UNUSABLE, BadRow
from bertline.components.ingest.readers.registry import check_inputs, read
from bertline.components.ingest.readers.squad import MISFIT, MISSING
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError

TEXT = "Ana 🎬 e\u0301tait à 北京\r\nin May. Ana left."


def question(number, *answers, **further):
    found = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": f"q{number}", "question": f"Question {number}?", "answers": found, **further}


def article(*questions, title="Ana", context=TEXT):
    return {"title": title, "paragraphs": [{"context": context, "qas": list(questions)}]}


def written(folder, *articles, name="a.json", **changes):
    path = folder / name
    content = json.dumps({"version": "v2.0", "data": list(articles), **changes}, indent=1)
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return path


def rows_of(path, columns=None):
    data = DataConfig(path=str(path), format="squad", text=("question", "context"), label=None)
    (file,) = find_files(data)
    return list(read(file, data, columns))


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_question_is_a_row_with_all_its_answers(tmp_path, name):
    impossible = question(2, is_impossible=True, plausible_answers=[{"text": "May", "answer_start": 1}])
    path = written(tmp_path, article(question(1, ("北京", 15), ("May", 22)), impossible), article(question(3)), name=name)
    first, second, third = rows_of(path)
    assert first.values == {
        "id": "q1", "question": "Question 1?", "is_impossible": "false", "title": "Ana", "context": TEXT,
    }  # fmt: skip
    assert first.lists == {"answers": ("北京", "May"), "answer_starts": (15, 22)}
    assert (second.values["is_impossible"], second.lists) == ("true", {"answers": (), "answer_starts": ()})
    assert (first.line, second.line, third.line) == (1, 2, 3)
    assert isinstance(third, BadRow)


def test_version_1_has_no_marks_and_only_wanted_columns_are_kept(tmp_path):
    path = written(tmp_path, article(question(1, ("Ana", 0)), title=None))
    (row,) = rows_of(path, ["question", "title", "answers"])
    assert row.values == {
        "question": "Question 1?",
        "title": TEXT,
    }  # without a title, the text holds its questions together
    assert row.lists == {"answers": ("Ana",)}


WITHOUT_ID = {"question": "Who?", "answers": []}


@pytest.mark.parametrize(
    ("bad", "kind", "parts"),
    [
        (question(7), MISFIT, ["'q7'", "no answer, and is not marked impossible"]),
        (question(7, ("Ana", 0), is_impossible=True), MISFIT, ["'q7'", "marked impossible, and has 1 answers"]),
        (question(7, ("Ana", 1)), MISFIT, ["'q7'", "'Ana' is not at character 1, where 'na ' stands"]),
        (question(7, ("Ana", 0), ("left.", 40)), MISFIT, ["'q7'", "'left.' is not at character 40"]),
        (question(7, ("Ana", -36)), MISFIT, ["'q7'", "not at character -36"]),
        (question(7, (" ", 3)), MISFIT, ["'q7'", "an answer is empty"]),
        (question(7, ("Ana", "0")), MISSING, ["'q7'", "answer_start is not a whole number"]),
        (question(7, ("Ana", None)), MISSING, ["'q7'", "answer_start is missing"]),
        (question(7, ("Ana", 0), question=None), MISSING, ["'q7'", "question is missing"]),
        (question(7, ("Ana", 0), answers="Ana"), MISSING, ["'q7'", "answers is not a list"]),
        (question(7, ("Ana", 0), answers=["Ana"]), MISSING, ["an answer to question 'q7' is no object"]),
        (question(7, ("Ana", 0), is_impossible="no"), MISFIT, ["'q7'", "is_impossible is 'no'"]),
        (question(7, ("Ana", 0), question="a\0b"), UNUSABLE, ["'q7'", "a NUL character at character 1"]),
        (question(7, ("Ana", 0), question="a\ud800b"), UNUSABLE, ["'q7'", "lone surrogate"]),
        (WITHOUT_ID, MISSING, ["a question: id is missing"]),
        ("Who?", MISSING, ["a question is no object"]),
    ],
)
def test_a_bad_question_is_told_with_its_id_and_the_next_is_read(tmp_path, bad, kind, parts):
    path = written(tmp_path, article(bad, question(8, ("Ana", 0))))
    found, good = rows_of(path)
    assert isinstance(found, BadRow) and found.kind == kind and found.place == f"{path}:1"
    assert all(part in found.reason for part in parts), found.reason
    assert good.values["id"] == "q8" and good.line == 2


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"title": "Ana"}, "an article: paragraphs is missing"),
        ("Ana", "an article is no object"),
        ({"paragraphs": [{"qas": []}]}, "a paragraph: context is missing"),
        ({"paragraphs": [{"context": TEXT}]}, "a paragraph: qas is missing"),
    ],
)
def test_a_bad_article_is_one_bad_row(tmp_path, bad, reason):
    found, good = rows_of(written(tmp_path, bad, article(question(1, ("Ana", 0)))))
    assert isinstance(found, BadRow) and found.reason == reason and good.values["id"] == "q1"


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("question\tanswer\n", ["line 1, column 1", "'{' belongs here"]),
        ("", ["line 1, column 1"]),
        ('{"version": "1.1"}', ["the object has no list 'data'"]),
        ('{"version": "1.1",\n "data": {}}', ["line 2, column 10", "'[' belongs here, where the list 'data' begins"]),
        ('{"data": [\n{"title": "a" "b"}]}', ["line 2, column 15", "Expecting ',' delimiter"]),
        ('{"data": [\n{"title": "a"', ["line 2, column 14", "Expecting ',' delimiter"]),
        ('{"data": [{}\n,{}', ["line 2, column 4", "',' belongs here"]),
        ('{"data": []} {}', ["column 14", "nothing belongs after the end"]),
        ('{"data": [' + "[" * 100_000, ["brackets thousands deep"]),
    ],
)
def test_what_is_not_json_is_refused_with_line_and_column(tmp_path, content, parts):
    path = tmp_path / "a.json"
    path.write_text(content)
    (found,) = [row for row in rows_of(path) if isinstance(row, BadRow) and row.kind == UNREADABLE]
    assert str(path) in found.reason and all(part in found.reason for part in parts), found.reason


def test_a_file_without_questions_is_refused_before_anything_runs(tmp_path):
    data = DataConfig(path=str(written(tmp_path)), format="squad", text=("question", "context"), label=None)
    with pytest.raises(BertlineError, match="and no examples"):
        check_inputs(data)


def test_a_table_has_no_answers(tmp_path):
    (tmp_path / "a.csv").write_text("question,context\nWho?,Ana.\n")
    data = DataConfig(path=str(tmp_path / "a.csv"), text=("question", "context"), label=None)
    with pytest.raises(BertlineError, match="task: there is no column 'answers'"):
        check_inputs(data, lists=("answers", "answer_starts"))


def test_items_are_read_one_by_one_whatever_the_size_of_the_chunks(monkeypatch):
    items = [{"text": 'a "b" \\ {é}🎬\n' * 9, "number": 12345, "none": None}, 17, [1.5e10, True], "x" * 300, {}]
    text = json.dumps({"first": {"a": [1]}, "data": items, "last": 12}, ensure_ascii=False, indent=2)
    for chunk in (1, 7, 64, 4096):
        monkeypatch.setattr(json_items, "_CHUNK", chunk)
        found = list(ItemReader("a.json", io.StringIO(text), "data", 10_000))
        assert [item.value for item in found] == items
        assert found[0].line == 8


def test_no_more_than_an_item_is_held(monkeypatch):
    class Counted(io.StringIO):
        taken = 0

        def read(self, size=-1):
            found = super().read(size)
            Counted.taken += len(found)
            return found

    monkeypatch.setattr(json_items, "_CHUNK", 100)
    text = json.dumps({"data": ["x" * 1000] * 50})
    reader = iter(ItemReader("a.json", Counted(text), "data", 5_000))
    next(reader)
    assert Counted.taken < 3_000
    assert len(list(reader)) == 49
    with pytest.raises(BertlineError, match="longer than 500 characters"):
        list(ItemReader("a.json", io.StringIO(text), "data", 500))
