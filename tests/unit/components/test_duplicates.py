"""Texts that are on both sides, or that have different labels."""

from __future__ import annotations

import pytest

from bertline.components.ingest import duplicates
from bertline.components.ingest.duplicates import NO_TEXT, Digests, digest_of, looks_for_duplicates
from bertline.components.ingest.notes import notes
from bertline.components.ingest.rows import KeptExample
from bertline.pipeline.config import DataConfig


@pytest.mark.parametrize(
    ("one", "other", "are_alike"),
    [
        ("Good film.", "good  film!", True),
        ("Café — au lait", "cafe\u0301 au LAIT", True),
        ("ＡＢＣ", "abc", True),
        ("好电影。", "好电影", True),
        ("Good film", "Good films", False),
        ("3.5 stars", "35 stars", False),
        ("!!!", "???", False),
        ("🎬", "🎨", False),
    ],
)
def test_texts_are_alike_but_for_case_accents_punctuation_and_spaces(one, other, are_alike):
    assert (digest_of({"text": one}) == digest_of({"text": other})) is are_alike


def test_all_that_is_read_of_a_row_counts_and_where_a_text_ends():
    pair = {"text": "a b", "text_2": "c"}
    assert digest_of(pair) != digest_of({"text": "a", "text_2": "b c"}) != digest_of({"text": "a b c"})
    assert digest_of({"text": "a", "choices": ("x", "y")}) != digest_of({"text": "a", "choices": ("x", "z")})
    assert digest_of({"label": "x"}) == NO_TEXT


@pytest.mark.parametrize(
    ("settings", "lists", "looks"),
    [
        ({}, (), True),
        ({"duplicates": "keep"}, (), False),
        ({"label": None}, (), False),  # plain text to be pre-trained on
        ({"label": None}, ("answers",), True),
        ({"label": None, "text": ["a", "b"]}, (), True),
    ],
)
def test_plain_text_to_learn_from_alone_may_come_again(settings, lists, looks):
    assert looks_for_duplicates(DataConfig(path="a.csv", **settings), lists) is looks


def row(text: str, label: str, split: str = "train") -> KeptExample:
    return KeptExample(split, {"text": text, "label": label}, ())


def digests(*rows: KeptExample) -> Digests:
    found = Digests()
    for number, each in enumerate(rows):
        found.add(each, digest_of(each.features), number)
    return found


def test_texts_with_different_labels_are_counted_once_each_over_all_readers():
    whole = digests(row("a", "x"), row("A!", "y"), row("b", "x"), row("b", "x"), row("c", "x"))
    whole.merge(digests(row("a", "z"), row("C", "y", "eval")))
    assert whole.conflicts() == 2


def test_a_text_that_changed_sides_is_no_evaluation_example_any_more():
    found = digests(row("a", "x", "eval"), row("b", "x", "eval"))
    moved = digest_of({"text": "c"})
    expected = {digest_of({"text": "b"}), moved}
    assert set(found.evaluation(frozenset({0}), [moved]).tolist()) == expected


def test_more_rows_than_fit_into_memory_are_not_looked_at_and_a_note_says_so(monkeypatch):
    monkeypatch.setattr(duplicates, "MAX_EVAL_EXAMPLES", 3)
    monkeypatch.setattr(duplicates, "MAX_LABELLED_EXAMPLES", 3)
    whole = digests(*(row(f"a {number}", "x", "eval") for number in range(3)))
    assert not whole.are_too_many and len(whole.evaluation(frozenset(), [])) == 3
    whole.merge(digests(*(row("b", label, "eval") for label in "xy")))
    assert whole.are_too_many and len(whole.evaluation(frozenset(), [])) == 0 and whole.conflicts() == 0
    assert len(whole._evaluation) <= 6 and len(whole._labelled) <= 6
    (note,) = notes({**REPORT, "duplicates_skipped": True}, "class")
    assert "not removed" in note


REPORT = {
    "labels": {"train": {"x": 90}, "eval": {"x": 10}},
    "left_out": {},
    "rare": [],
    "conflicts": 0,
    "duplicates_skipped": False,
}


def test_classes_with_few_evaluation_examples_are_named_and_counted():
    assert list(notes(REPORT, "class")) == []
    labels = {"train": {f"c{number}": 90 for number in range(9)}, "eval": {f"c{number}": number for number in range(9)}}
    (note,) = notes({**REPORT, "labels": labels}, "class")
    assert "9 classes have fewer than 10 evaluation examples" in note and "c0 (0), c1 (1)" in note and "and 4 more" in note
    assert list(notes({**REPORT, "labels": labels}, "tags")) == []  # words are counted there, not examples


def test_what_was_done_about_rare_classes_and_duplicates_is_told():
    found = list(notes({**REPORT, "rare": ["a", "b"], "left_out": {"data.duplicates": 1}, "conflicts": 2}, "class"))
    assert "2 classes have fewer than 3 different texts" in found[0] and "a, b" in found[0]
    assert "1 training example has the text of an evaluation example" in found[1] and "data.duplicates: keep" in found[1]
    assert "2 texts have different labels" in found[2]
