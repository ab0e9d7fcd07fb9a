"""Classes are split alike, whatever the order, the files and the workers, and hardly any row changes sides for it."""

from __future__ import annotations

import pickle
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertline.components.ingest import strata
from bertline.components.ingest.rows import hash_of, hashed_split
from bertline.components.ingest.strata import MIN_TEXTS, Strata

Rows = list[tuple[str, tuple[str, ...]]]
"""A text and its labels, each."""


def seen(rows: Rows, fraction: float) -> Strata:
    found = Strata()
    for text, labels in rows:
        found.add(labels, hashed_split(text, fraction), hash_of(text), hash_of(text.lower()))
    return found


def sides(rows: Rows, fraction: float = 0.1, parts: int = 1) -> dict[str, str]:
    """Text -> its side, as so many readers that see a part each would have it."""
    whole = Strata()
    for part in range(parts):
        whole.merge(pickle.loads(pickle.dumps(seen(rows[part::parts], fraction))))
    moves = whole.moves(fraction)
    return {text: moves.side(hashed_split(text, fraction), hash_of(text)) for text, _ in rows}


def counts(rows: Rows, found: dict[str, str]) -> dict[str, Counter[str]]:
    counted: dict[str, Counter[str]] = {"train": Counter(), "eval": Counter()}
    for text, labels in rows:
        counted[found[text]].update(labels)
    return counted


def of_classes(**sizes: int) -> Rows:
    rows = [(f"{name} {number}", (name,)) for name, size in sizes.items() for number in range(size)]
    random.Random(0).shuffle(rows)
    return rows


@pytest.mark.parametrize("salt", range(8))
def test_a_class_of_one_in_a_hundred_is_on_both_sides(salt):
    rows = of_classes(**{f"common{salt}": 495, f"rare{salt}": 5})
    found = counts(rows, sides(rows))
    assert found["eval"][f"rare{salt}"] == 1 and found["train"][f"rare{salt}"] == 4
    assert 45 <= found["eval"][f"common{salt}"] <= 54


def test_every_class_has_about_the_wanted_fraction_where_the_hash_alone_has_not():
    rows = of_classes(**{f"class{number}": 20 + number for number in range(60)})
    plain = counts(rows, {text: hashed_split(text, 0.1) for text, _ in rows})["eval"]
    found = counts(rows, sides(rows))["eval"]
    assert min(plain[name] for name in found) == 0  # which is what happens without
    for name, size in Counter(labels[0] for _, labels in rows).items():
        assert abs(found[name] - size / 10) <= max(0.5, size / 100)


def test_a_class_with_too_few_texts_to_be_split_is_in_training_only_and_named():
    rows = of_classes(
        big=200, **{f"single{number}": 1 for number in range(10)}, **{f"two{number}": 2 for number in range(10)}
    )
    found = counts(rows, sides(rows, 0.5))
    small = sorted(name for name in found["train"] if name != "big")
    assert len(small) == 20 and set(found["eval"]) == {"big"}
    assert seen(rows, 0.5).moves(0.5).rare == tuple(small)


def test_copies_of_a_text_are_one_text_and_stay_together():
    rows = [("the same", ("copied",))] * 50 + [("The Same", ("copied",))] * 3 + of_classes(other=100)
    found = counts(rows, sides(rows, 0.5))
    assert found["eval"]["copied"] == 0  # two texts, but for the case: too few
    rows += [(f"text {number}", ("copied",)) for number in range(MIN_TEXTS)]
    found = sides(rows, 0.5)
    assert {found[text] for text, labels in rows if labels == ("copied",)} == {"train", "eval"}


def test_neither_order_nor_files_nor_workers_change_a_side():
    rows = of_classes(a=2000, b=300, c=40, d=7, e=3, f=1)
    expected = sides(rows)
    for parts, seed in ((1, 1), (2, 2), (7, 3)):
        random.Random(seed).shuffle(rows)
        assert sides(rows, parts=parts) == expected


@pytest.mark.parametrize("more", [1, 20, 200])
def test_more_rows_move_few_others(more):
    rows = of_classes(a=1000, b=100, c=30, d=8)
    added = [(f"new {number}", (random.Random(number).choice("abcd"),)) for number in range(more)]
    before, after = sides(rows), sides(rows + added)
    assert sum(before[text] != after[text] for text, _ in rows) <= 2 + more // 10


def test_a_split_that_the_hash_has_got_right_stays_as_it_is():
    rows = of_classes(yes=6000, no=5000)
    assert sides(rows) == {text: hashed_split(text, 0.1) for text, _ in rows}


def test_what_is_kept_of_a_class_does_not_grow_with_it():
    found = seen(of_classes(a=50_000), 0.1)
    kept = found._classes["a"]
    assert kept.rows == 50_000
    assert max(len(side.kept) for side in (kept.train, kept.eval)) <= 2 * strata.CANDIDATES


several_labels = st.sets(st.sampled_from("abcdefgh"), max_size=4).map(lambda names: tuple(sorted(names)))


@given(
    st.lists(st.tuples(st.integers(0, 300).map(str), several_labels), max_size=300),
    st.sampled_from([0.1, 0.3, 0.5, 0.9]),
    st.integers(1, 4),
)
@settings(deadline=None, max_examples=300)
def test_no_class_is_on_the_evaluation_side_only_whatever_labels_rows_and_texts_have(rows, fraction, parts):
    found = counts(rows, sides(rows, fraction, parts))
    assert set(found["eval"]) <= set(found["train"])
    assert sides(rows, fraction) == sides(rows, fraction, parts)


def test_a_text_that_changes_sides_for_one_class_does_not_take_the_last_training_rows_of_another():
    texts = {side: [] for side in ("train", "eval")}
    for number in range(100):
        texts[hashed_split(str(number), 0.5)].append(str(number))
    shared, *others = sorted(texts["train"], key=hash_of)
    # Both need `shared`: one as its first evaluation example, the other as all that it has to train on.
    rows = [(text, ("a",)) for text in (shared, *others[:3])] + [(text, ("b",)) for text in (shared, *texts["eval"][:2])]
    found = counts(rows, sides(rows, 0.5))
    assert found["train"]["a"] and found["train"]["b"]
