"""Each row has one fate, the same in every run, and every row is counted once."""

from __future__ import annotations

import json

import pytest

from bertline.components.ingest import report, rows
from bertline.components.ingest.files import InputFile
from bertline.components.ingest.filters import EXCLUDE, MAX_WORD_RATIO, MAX_WORDS, LeftOut
from bertline.components.ingest.readers.records import BadRow, Row, bad_row
from bertline.components.ingest.report import Tally, judge, quarantine_lines
from bertline.components.ingest.rows import (
    EMPTY_TEXT,
    MISSING_LABEL,
    MISSING_TARGET,
    KeptExample,
    hashed_split,
    sort_example,
)
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError


def data(**settings) -> DataConfig:
    return DataConfig(path="a.csv", **settings)


def row(line: int = 2, **values: str | None) -> Row:
    return Row("a.csv", line, values)


def fate(given: Row, settings: DataConfig, file_split: str | None = None, slices=()) -> KeptExample | BadRow | LeftOut:
    return sort_example(given, settings, file_split, slices)


def test_the_hash_holds_out_the_share_and_never_changes():
    sides = [hashed_split(f"text {number}", 0.1) for number in range(10_000)]
    assert 900 < sides.count("eval") < 1100
    # Pinned: if this changes, rows that models were trained on move to the evaluation side.
    assert [hashed_split(key, 0.5) for key in ("a", "b", "c", "d", "é")] == ["train", "eval", "eval", "eval", "eval"]


def test_a_larger_share_keeps_every_evaluation_example_held_out():
    for number in range(1000):
        if hashed_split(str(number), 0.1) == "eval":
            assert hashed_split(str(number), 0.2) == "eval"


def test_equal_texts_and_equal_groups_stay_on_one_side():
    texts = {fate(row(text="same", label=label), data()).split for label in "abcdefgh"}
    grouped = data(split={"group": "user"})
    users = {fate(row(text=text, label="x", user="u1"), grouped).split for text in "abcdefgh"}
    assert len(texts) == len(users) == 1


def test_a_row_without_a_group_goes_by_its_text():
    grouped = data(split={"group": "user"})
    sides = {fate(row(text=f"t{number}", label="x", user=None), grouped).split for number in range(100)}
    assert sides == {"train", "eval"}


def test_a_files_split_stands_above_hashing():
    assert fate(row(text="a", label="x"), data(), "eval").split == "eval"


def test_a_split_column_decides_and_an_unknown_value_is_named():
    by_column = data(split={"column": "fold"})
    assert fate(row(text="a", label="x", fold="train"), by_column).split == "train"
    assert fate(row(text="a", label="x", fold="dev"), by_column).split == "eval"
    for value in ("tarin", None):
        bad = fate(row(text="a", label="x", fold=value), by_column)
        assert bad.kind == rows.UNKNOWN_SPLIT and f"{value!r}" in bad.reason and "'fold'" in bad.reason


def test_excluded_rows_are_neither_kept_nor_bad():
    excluding = data(exclude={"label": ["plot"]}, split={"column": "fold"})
    assert fate(row(text="a", label="plot", fold="no such split"), excluding) == LeftOut(EXCLUDE)
    assert isinstance(fate(row(text="a", label="x", fold="train"), excluding), KeptExample)


def test_features_are_the_text_as_it_is_with_words_and_slices():
    kept = fate(row(text="  Two\twords ", label="x", movie="m", year=None), data(), slices=["movie", "year"])
    assert kept.features == {"text": "  Two\twords ", "label": "x", "words": 2, "movie": "m"}
    assert kept.missing == ()


@pytest.mark.parametrize(("text", "words"), [("这部电影很好看。", 7), ("とても good だった", 6), ("two words", 2)])
def test_a_character_of_a_script_without_spaces_counts_as_a_word(text, words):
    assert fate(row(text=text, label="x"), data()).features["words"] == words


@pytest.mark.parametrize(
    "text, label, missing",
    [("a", None, (MISSING_LABEL,)), (" \n", "x", (EMPTY_TEXT,)), (None, " ", (EMPTY_TEXT, MISSING_LABEL))],
)
def test_an_incomplete_row_is_kept_without_the_feature_or_quarantined(text, label, missing):
    kept = fate(row(text=text, label=label), data(), "train")
    assert kept.missing == missing
    assert ("text" in kept.features) == (EMPTY_TEXT not in missing)
    assert ("label" in kept.features) == (MISSING_LABEL not in missing)
    assert kept.features["words"] == (1 if text == "a" else 0)
    bad = fate(row(text=text, label=label), data(incomplete="quarantine"), "train")
    assert isinstance(bad, BadRow) and bad.kind == missing[0]


# The report


def tally(*results: KeptExample | BadRow | LeftOut) -> Tally:
    counted = Tally()
    for line, result in enumerate(results, 2):
        counted.add(result if isinstance(result, BadRow) else row(line), result)
    return counted


def kept(split: str = "train", label: str | None = "x", missing=()) -> KeptExample:
    return KeptExample(split, {"words": 1} | ({"label": label} if label else {}), missing)


def bad(line: int = 9, kind: str = "wrong", file: str = "a.csv") -> BadRow:
    return bad_row(file, line, kind, "it is wrong", "raw")


def test_the_report_counts_every_row_once():
    incomplete = [kept(label=None, missing=(MISSING_LABEL,)) for _ in range(7)]
    counted = tally(kept(), kept("eval", "y"), LeftOut(EXCLUDE), bad(), *incomplete)
    found = counted.as_report([InputFile("a.csv", "csv", None)])
    assert found["rows"] == 11 == sum(found["kept"].values()) + found["excluded"] + found["quarantined"]
    assert found["files"] == ["a.csv"] and found["reasons"] == {"wrong": 1} and found["left_out"] == {EXCLUDE: 1}
    assert found["labels"] == {"train": {"x": 1}, "eval": {"y": 1}}
    assert found["incomplete"] == {MISSING_LABEL: {"rows": 7, "first": [f"a.csv:{line}" for line in range(6, 11)]}}


def test_merged_tallies_equal_one_tally_of_all():
    results = [
        kept(),
        kept("eval", "y"),
        bad(),
        LeftOut(EXCLUDE),
        LeftOut(MAX_WORDS),
        kept(label=None, missing=(MISSING_LABEL,)),
    ]
    whole = tally(*results)
    merged = Tally()
    for line, result in reversed(list(enumerate(results, 2))):
        part = Tally()
        part.add(row(line), result)
        merged.merge(part)
    assert merged.as_report([]) == whole.as_report([])


def test_the_quarantine_is_in_the_order_of_file_and_line():
    lines = quarantine_lines([bad(10), bad(9), bad(1, file="b.csv")]).splitlines()
    assert [(found["file"], found["line"]) for found in map(json.loads, lines)] == [
        ("a.csv", 9), ("a.csv", 10), ("b.csv", 1)
    ]  # fmt: skip
    assert json.loads(lines[0]) == {"file": "a.csv", "line": 9, "reason": "it is wrong", "row": "raw"}


GOOD = (kept(label="x"), kept(label="y"), kept("eval"))


def verdict(*results: KeptExample | BadRow | LeftOut, **settings) -> None:
    first = json.loads(quarantine_lines([bad()]))
    judge(tally(*results).as_report([]), data(**settings), first, "kept/quarantine.jsonl")


def test_a_few_bad_rows_pass_and_too_many_stop_the_pipeline():
    verdict(*GOOD, bad(), max_bad_fraction=0.25)
    with pytest.raises(BertlineError) as error:
        verdict(*GOOD, bad(), max_bad_fraction=0.24)
    for part in (
        "1 of 4 examples (25.0%)",
        "24.0%",
        "a.csv:9: it is wrong",
        "kept/quarantine.jsonl",
        "data.max_bad_fraction",
    ):
        assert part in str(error.value)


def test_a_file_that_broke_off_stops_the_pipeline_whatever_the_share():
    with pytest.raises(BertlineError, match="it is wrong"):
        verdict(*GOOD, bad(kind="unreadable file"), max_bad_fraction=1.0)


@pytest.mark.parametrize(
    "results, part",
    [
        ([kept("eval", "x"), kept("eval", "y")], "No training examples are left (2 examples read"),
        ([kept(), kept(label="y"), LeftOut(EXCLUDE)], "No evaluation examples are left (3 examples read, 1 excluded"),
        ([kept("eval"), LeftOut(MAX_WORDS)], "check data.split, data.exclude and data.max_words"),
        ([kept(), kept(), kept("eval")], "only one class 'x' in 3 examples"),
        ([kept(label=None), kept("eval", None)], "No label in 2 examples"),
    ],
)
def test_data_that_nothing_can_be_learned_from_stops_the_pipeline(results, part):
    with pytest.raises(BertlineError) as error:
        verdict(*results)
    assert part in str(error.value)


def test_a_label_column_of_free_text_is_refused_and_does_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(report, "MAX_CLASSES", 10)
    counted = tally(*(kept(label=f"class {number}") for number in range(1000)), kept("eval"))
    assert len(counted.labels["train"]) == 11
    with pytest.raises(BertlineError, match="over 10 different values"):
        judge(counted.as_report([]), data(), None, "")


def test_a_task_without_labels_asks_for_none():
    settings = data(label=None)
    kept = fate(row(text="one two"), settings)
    assert kept.features == {"text": "one two", "words": 2} and kept.missing == ()
    assert fate(row(text=" "), settings).missing == (EMPTY_TEXT,)
    tally = Tally()
    for split in ("train", "eval"):
        tally.add(row(text="one"), fate(row(text="one"), settings, split))
    judge(tally.as_report([]), settings, None, "quarantine.jsonl")  # no word about classes


# Rows of two texts


def pairs(**settings) -> DataConfig:
    return data(text=["premise", "hypothesis"], **settings)


def test_both_texts_are_features_and_both_are_counted():
    kept = fate(row(premise="A man eats.", hypothesis=" He is\teating. ", label="yes"), pairs())
    assert kept.features == {"text": "A man eats.", "text_2": " He is\teating. ", "label": "yes", "words": 6}


def test_an_empty_second_text_is_as_bad_as_an_empty_first_one():
    given = row(premise="A man eats.", hypothesis=" ", label="yes")
    assert fate(given, pairs(), "train").missing == ("empty second text",)
    bad = fate(given, pairs(incomplete="quarantine"), "train")
    assert bad.kind == "empty second text" and "column 'hypothesis'" in bad.reason


def test_the_same_pair_stays_on_one_side_and_a_shared_text_alone_does_not_hold_pairs_together():
    same = {fate(row(premise="p", hypothesis="h", label=label), pairs()).split for label in "abcdefgh"}
    spread = {fate(row(premise="p", hypothesis=f"h{at}", label="x"), pairs()).split for at in range(100)}
    grouped = pairs(split={"group": "premise"})
    together = {fate(row(premise="p", hypothesis=f"h{at}", label="x"), grouped).split for at in range(100)}
    assert len(same) == 1 and len(spread) == 2 and len(together) == 1


def test_lists_of_a_row_become_features_of_their_own():
    row = Row("a.json", 3, {"text": "a b", "label": "x"}, {"answers": ("a", "b"), "answer_starts": (0, 2)})
    kept = sort_example(row, DataConfig(path="a.json", format="jsonl"), "train", ())
    assert kept.features == {"text": "a b", "label": "x", "words": 2, "answers": ("a", "b"), "answer_starts": (0, 2)}


# Rows whose label is a text


def translations(**settings) -> DataConfig:
    return data(text="en", label="de", **settings)


def written(given: Row, settings: DataConfig, split: str | None = "train") -> KeptExample | BadRow | LeftOut:
    return sort_example(given, settings, split, (), "text")


def test_a_target_is_a_feature_as_it_is_and_no_class():
    kept = written(row(en="A dog.", de=" Ein großer\tHund. "), translations())
    assert kept.features == {"text": "A dog.", "label": " Ein großer\tHund. ", "words": 2, "label_words": 3}
    assert kept.missing == kept.labels == ()
    counted = tally(kept, written(row(en="A cat.", de="Eine Katze."), translations(), "eval")).as_report([])
    assert counted["labels"] == {"train": {}, "eval": {}}
    judge(counted, translations(), None, "", "text")  # no word about classes


def test_a_target_is_missed_by_its_own_name():
    assert written(row(en="A dog.", de=" "), translations()).missing == (MISSING_TARGET,)
    assert written(row(en=None, de="Ein Hund."), translations()).missing == (EMPTY_TEXT,)
    bad = written(row(en="A dog.", de=None), translations(incomplete="quarantine"))
    assert (bad.kind, bad.reason) == (MISSING_TARGET, "missing target text (column 'de')")


def test_translations_of_one_text_stay_on_one_side():
    sides = {written(row(en="A dog.", de=f"Hund {at}"), translations(), None).split for at in range(100)}
    assert len(sides) == 1


# Rows that are left out by their length


@pytest.mark.parametrize(
    "english, german, settings, expected",
    [
        ("a b c", "d e f", {"max_words": 3}, None),
        ("a b c d", "d e f", {"max_words": 3}, MAX_WORDS),
        ("a b c", "d e f g", {"max_words": 3}, MAX_WORDS),
        ("a b", "d e f g h i", {"max_word_ratio": 3}, None),
        ("a b", "d e f g h i j", {"max_word_ratio": 3}, MAX_WORD_RATIO),
        ("a b c d e f g", "d e", {"max_word_ratio": 3}, MAX_WORD_RATIO),
        ("a b c d e f g", "d", {"max_words": 6, "max_word_ratio": 3}, MAX_WORDS),
        ("Two dogs run over the green grass.", "两只狗在绿草地上跑。", {"max_word_ratio": 2}, None),
        ("a b c d e f g", "d", {}, None),
    ],
)
def test_long_and_uneven_training_rows_are_left_out_and_held_out_ones_never(english, german, settings, expected):
    given = row(en=english, de=german)
    found = written(given, translations(**settings))
    assert found == LeftOut(expected) if expected else isinstance(found, KeptExample)
    assert isinstance(written(given, translations(**settings), "eval"), KeptExample)


def test_an_incomplete_row_is_told_of_however_long_it_is():
    assert written(row(en="a b c", de=None), translations(max_words=2)).missing == (MISSING_TARGET,)


def test_any_text_of_a_row_can_be_too_long():
    given = row(premise="a b", hypothesis="c d e", label="yes")
    assert fate(given, pairs(max_words=2), "train") == LeftOut(MAX_WORDS)
    assert isinstance(fate(given, pairs(max_words=3), "train"), KeptExample)
    assert isinstance(fate(given, pairs(max_words=2), "eval"), KeptExample)


def test_the_report_counts_rows_left_out_by_what_has_left_them_out():
    left = [LeftOut(MAX_WORDS), LeftOut(MAX_WORD_RATIO), LeftOut(MAX_WORDS), LeftOut(EXCLUDE)]
    found = tally(kept(), *left).as_report([])
    assert found["left_out"] == {EXCLUDE: 1, MAX_WORD_RATIO: 1, MAX_WORDS: 2}
    assert (found["rows"], found["excluded"], found["quarantined"]) == (5, 4, 0)
