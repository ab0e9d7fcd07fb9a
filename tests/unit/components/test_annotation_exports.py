"""Exports of Label Studio, doccano and Prodigy become rows: what was rejected stays out, and spans become tags of words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertline.components.ingest.files import find_files
from bertline.components.ingest.filters import LeftOut
from bertline.components.ingest.notes import notes
from bertline.components.ingest.readers.annotations.word_tags import (
    OVERLAPPING,
    WIDENED,
    WORDLESS,
    Span,
    tag_words,
    words_of,
)
from bertline.components.ingest.readers.records import BadRow, Row, list_of
from bertline.components.ingest.readers.registry import check_inputs, needed_columns, read
from bertline.components.ingest.report import Tally
from bertline.components.ingest.rows import KeptExample, sort_example
from bertline.models.data import tag_schemes
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new import describe, write_config


def fates(path: Path, kind: str, **settings) -> list[KeptExample | BadRow | LeftOut]:
    data = DataConfig(path=str(path), **settings)
    columns = list(needed_columns(data))
    return [
        row if isinstance(row, BadRow) else sort_example(row, data, None, (), kind)
        for file in check_inputs(data)
        for row in read(file, data, columns)
    ]


def labels(path: Path, kind: str, **settings) -> list[tuple[str, ...] | str]:
    """Of each row its labels, why it was left out, or what is wrong with it."""
    found = fates(path, kind, **settings)
    return [
        fate.setting if isinstance(fate, LeftOut) else fate.reason if isinstance(fate, BadRow) else fate.labels
        for fate in found
    ]


def lines(folder: Path, *objects: object) -> Path:
    path = folder / "a.jsonl"
    path.write_text("\n".join(map(json.dumps, objects)))
    return path


def studio(folder: Path, *tasks: object) -> Path:
    path = folder / "a.json"
    path.write_text(json.dumps(tasks, indent=1))
    return path


def annotated(*regions: tuple[str, str, dict], **of_annotation: object) -> dict:
    return {"result": [{"from_name": name, "type": kind, "value": value} for name, kind, value in regions], **of_annotation}


def chosen(*classes: str, **of_annotation: object) -> dict:
    return annotated(("mood", "choices", {"choices": list(classes)}), **of_annotation)


def task(*annotations: dict, text: str = "Ada wrote.", **data: object) -> dict:
    return {"id": 1, "data": {"text": text, **data}, "annotations": list(annotations), "predictions": []}


# Spans


def test_a_span_that_ends_inside_a_word_is_widened_and_told_of():
    found = tag_words("In San Francisco, we", [Span(3, 9, "LOC")])
    assert list(zip(found.words, found.tags, strict=True))[:4] == [
        ("In", "O"), ("San", "B-LOC"), ("Francisco", "I-LOC"), (",", "O"),
    ]  # fmt: skip
    assert [(remark.kind, remark.shown) for remark in found.remarks] == [(WIDENED, "LOC 'San Fr' to 'San Francisco'")]


def test_a_span_with_spaces_around_it_is_on_the_edges_of_words():
    assert tag_words("by Ada , here", [Span(2, 7, "PER")]).remarks == ()


def test_the_longest_of_overlapping_spans_stays_and_the_others_are_told_of():
    found = tag_words("New York City is", [Span(0, 8, "LOC"), Span(0, 13, "GPE"), Span(0, 13, "GPE")])
    assert found.tags == ["B-GPE", "I-GPE", "I-GPE", "O"]
    assert [remark.kind for remark in found.remarks] == [OVERLAPPING]


def test_two_entities_side_by_side_stay_two():
    assert tag_words("Ada Byron", [Span(0, 3, "PER"), Span(4, 9, "PER")]).tags == ["B-PER", "B-PER"]


def test_a_span_of_nothing_but_spaces_has_no_word():
    assert [remark.kind for remark in tag_words("a  b", [Span(1, 3, "X")]).remarks] == [WORDLESS]


def test_chinese_characters_are_words_and_can_be_told_apart():
    assert tag_words("王明在北京。", [Span(0, 2, "PER"), Span(3, 5, "LOC")])[:2] == (
        list("王明在北京。"), ["B-PER", "I-PER", "O", "B-LOC", "I-LOC", "O"],
    )  # fmt: skip


def test_places_counted_as_javascript_does_are_found_by_what_stands_there():
    for start, end in ((12, 22), (13, 23)):  # in characters, and in units of UTF-16
        found = tag_words("💩This is an annotation.", [Span(start, end, "X", "annotation")])
        assert found.tags[-2:] == ["B-X", "O"] and found.remarks == ()


@pytest.mark.parametrize(
    "span, why", [(Span(0, 3, "X", "Bob"), "'Bob'"), (Span(5, 30, "X"), "10 characters"), (Span(4, 4, "X"), "not inside")]
)
def test_a_span_that_does_not_fit_its_text_is_an_error(span, why):
    with pytest.raises(ValueError, match=why):
        tag_words("Ada wrote.", [span])


@settings(max_examples=50)
@given(st.text(max_size=40), st.integers(0, 40), st.integers(1, 10))
def test_the_words_under_a_span_are_one_entity(text, start, length):
    span = Span(start, min(len(text), start + length), "X")
    if span.start < span.end:
        found = tag_words(text, [span])
        under = [at for at, word in enumerate(words_of(text)) if word.start < span.end and word.end > span.start]
        assert tag_schemes.entities(found.tags) == ([tag_schemes.Entity("X", under[0], under[-1] + 1)] if under else [])
        assert all(word and not any(map(str.isspace, word)) for word in found.words)


# Label Studio


def test_of_label_studio_choices_are_classes_and_skipped_tasks_stay_out(tmp_path):
    path = studio(
        tmp_path, task(chosen("good")), task(chosen("good", "loud")), task(chosen("bad", was_cancelled=True)), task()
    )
    found = labels(path, "classes", format="label-studio", label="mood")
    assert found == [("good",), ("good", "loud"), "skipped in Label Studio", "not annotated in Label Studio"]
    assert labels(path, "class", format="label-studio", label="mood")[0] == ("good",)
    assert "task multilabel" in labels(path, "class", format="label-studio", label="mood")[1]


def test_of_label_studio_spans_are_tags_and_an_annotation_without_any_has_none(tmp_path):
    span = {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}
    path = studio(tmp_path, task(annotated()), task(annotated(("entity", "labels", span))))
    assert labels(path, "tags", format="label-studio", label="entity") == [("O", "O", "O"), ("B-PER", "O", "O")]


def test_the_ground_truth_is_taken_else_the_newest_and_that_they_differ_is_counted(tmp_path):
    path = studio(
        tmp_path,
        task(chosen("a", updated_at="2024-02"), chosen("b", updated_at="2024-01")),
        task(chosen("a", updated_at="2024-02"), chosen("b", ground_truth=True)),
        task(chosen("a"), chosen("a")),
    )
    data = DataConfig(path=str(path), format="label-studio", label="mood")
    rows = list(read(find_files(data)[0], data))
    assert [list_of(row.values["mood"]) for row in rows] == [["a"], ["b"], ["a"]]
    assert [len(row.remarks) for row in rows] == [1, 1, 0]


def test_tasks_are_numbered_wherever_lines_end(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps([task(chosen("a")), task(), task(chosen("b"))]))
    data = DataConfig(path=str(path), format="label-studio", label="mood")
    assert [row.line for row in read(find_files(data)[0], data)] == [1, 2, 3]


def test_the_short_form_of_label_studio_is_read_as_well(tmp_path):
    path = studio(
        tmp_path,
        {"text": "Ada wrote.", "id": 1, "mood": "good", "entity": [{"start": 0, "end": 3, "labels": ["PER"]}]},
        {"text": "Ada wrote.", "id": 2, "mood": {"choices": ["good", "bad"]}},
    )
    assert labels(path, "classes", format="label-studio", label="mood") == [("good",), ("good", "bad")]
    assert labels(path, "tags", format="label-studio", label="entity")[0] == ("B-PER", "O", "O")


def test_ratings_are_numbers_and_fields_of_the_data_columns(tmp_path):
    path = studio(tmp_path, task(annotated(("stars", "rating", {"rating": 4})), by="me"))
    (found,) = fates(path, "number", format="label-studio", label="stars")
    assert found.features["label"] == 4.0
    with pytest.raises(BertlineError, match="Columns: text, by, stars"):
        check_inputs(DataConfig(path=str(path), format="label-studio", label="mood"))


@pytest.mark.parametrize(
    "content, what", [('[{"id": 1}, ', "line 1"), ("[1]", "a task is an object"), ("{}", "belongs here")]
)
def test_broken_json_is_told_of(tmp_path, content, what):
    path = tmp_path / "a.json"
    path.write_text(content)
    data = DataConfig(path=str(path), format="label-studio")
    (*_, bad) = read(find_files(data)[0], data, ("text", "label"))
    assert isinstance(bad, BadRow) and what in bad.reason


# doccano


def test_of_doccano_both_forms_of_spans_are_tags(tmp_path):
    path = lines(tmp_path, {"id": 1, "text": "Ada wrote.", "label": [[0, 3, "PER"]]})
    assert labels(path, "tags", format="doccano") == [("B-PER", "O", "O")]
    entity = {"id": 7, "label": "PER", "start_offset": 0, "end_offset": 3}
    path = lines(tmp_path, {"id": 1, "text": "Ada wrote.", "entities": [entity], "relations": []})
    assert labels(path, "tags", format="doccano", label="entities") == [("B-PER", "O", "O")]


def test_of_doccano_examples_without_labels_stay_out_unless_they_are_asked_for(tmp_path):
    path = lines(tmp_path, {"id": 1, "text": "To it.", "label": []}, {"id": 2, "text": "Ada", "label": [[0, 3, "PER"]]})
    assert "data.empty_annotations" in labels(path, "tags", format="doccano")[0]
    assert labels(path, "tags", format="doccano", empty_annotations="keep") == [("O", "O", "O"), ("B-PER",)]


def test_of_doccano_a_list_of_one_class_is_that_class(tmp_path):
    path = lines(tmp_path, {"id": 1, "text": "Ada", "label": ["x, y"]}, {"id": 2, "text": "Bob", "label": ["z", "x"]})
    assert labels(path, "class", format="doccano")[0] == ("x, y",)
    assert labels(path, "classes", format="doccano") == [("x, y",), ("z", "x")]


@pytest.mark.parametrize("span", [[0, 99, "PER"], [0, "3", "PER"], [0, 3, ""], [0, 3]])
def test_a_span_that_cannot_be_costs_its_row_alone(tmp_path, span):
    rows = [{"id": at, "text": "Ada wrote.", "label": [[0, 3, "PER"]]} for at in range(3)]
    found = fates(lines(tmp_path, rows[0], {**rows[1], "label": [span]}, rows[2]), "tags", format="doccano")
    assert [isinstance(fate, BadRow) for fate in found] == [False, True, False] and found[1].line == 2


# Prodigy


def test_of_prodigy_only_what_was_accepted_is_an_example(tmp_path):
    spans = [{"start": 0, "end": 3, "label": "PER", "token_start": 0}]
    rows = [{"text": "Ada wrote.", "spans": spans, "answer": answer} for answer in ("accept", "reject", "ignore")]
    rows += [{"text": "To it.", "answer": "accept"}, {"text": "To it."}]
    found = labels(lines(tmp_path, *rows), "tags", format="prodigy", label="spans")
    assert found == [
        ("B-PER", "O", "O"), "rejected in Prodigy", "ignored in Prodigy", ("O", "O", "O"), "without an answer in Prodigy",
    ]  # fmt: skip


def test_of_prodigy_one_accepted_entity_says_nothing_of_the_other_words(tmp_path):
    row = {"text": "Ada wrote.", "spans": [{"start": 0, "end": 3, "label": "PER"}], "answer": "accept"}
    found = labels(lines(tmp_path, row, {**row, "_view_id": "ner"}), "tags", format="prodigy", label="spans")
    assert found == [("B-PER", "O", "O"), "annotated for one entity only (ner in Prodigy)"]


def test_of_prodigy_choices_and_single_labels_are_classes(tmp_path):
    path = lines(tmp_path, {"text": "Ada", "options": [{"id": "a"}], "accept": ["a", "b"], "answer": "accept"})
    assert labels(path, "classes", format="prodigy", label="accept") == [("a", "b")]
    path = lines(tmp_path, {"text": "Ada", "label": "a, b", "answer": "accept"})
    assert labels(path, "classes", format="prodigy") == labels(path, "class", format="prodigy") == [("a, b",)]


# All of them


def test_the_report_counts_what_was_decided_about_spans_and_the_notes_show_it(tmp_path):
    path = lines(tmp_path, *({"id": at, "text": "Ada wrote.", "label": [[0, 2, "PER"]]} for at in range(7)))
    data = DataConfig(path=str(path), format="doccano")
    parts = [Tally(), Tally()]
    for at, row in enumerate(read(find_files(data)[0], data, ("text", "label"))):
        assert isinstance(row, Row)
        parts[at % 2].add(row, sort_example(row, data, "train", (), "tags"))
    parts[0].merge(parts[1])
    report = parts[0].as_report([])
    assert report["remarks"][WIDENED]["times"] == 7 and len(report["remarks"][WIDENED]["first"]) == 5
    (note,) = notes(report, "tags")
    assert note.startswith("7 spans that begin or end inside a word (widened") and "'Ad' to 'Ada'" in note and ":1)" in note


def test_new_says_what_was_left_out_and_what_else_is_annotated(tmp_path):
    span = ("entity", "labels", {"start": 0, "end": 2, "labels": ["PER"]})
    mood = ("mood", "choices", {"choices": ["good"]})
    other = ("mood", "choices", {"choices": ["bad"]})
    tasks = [task(annotated(span, (mood, other)[at % 2]), text=f"Ada wrote {at} letters.") for at in range(20)]
    path = studio(tmp_path, *tasks, task(chosen("good", was_cancelled=True)))
    text = write_config(str(path), str(tmp_path / "a.yaml"))
    assert "20 examples of a.json, 1 more left out; 20 spans that begin or end inside a word" in text
    assert "also annotated: mood" in text and "format: label-studio" in text
    assert describe(str(path), task="classification").task == "classification"


def test_new_says_that_nothing_is_annotated(tmp_path):
    path = lines(tmp_path, *({"text": "Ada", "answer": "reject", "label": "a"} for _ in range(5)))
    with pytest.raises(BertlineError, match="no example of the file is annotated"):
        describe(str(path))


def test_new_says_that_examples_without_labels_could_be_kept(tmp_path):
    rows = [{"id": at, "text": f"Ada wrote {at} letters.", "label": [[0, 3, "PER"]][: at % 2]} for at in range(40)]
    text = write_config(str(lines(tmp_path, *rows)), str(tmp_path / "a.yaml"))
    assert "empty_annotations: leave out   # or keep, if somebody has looked at the 20 examples" in text
