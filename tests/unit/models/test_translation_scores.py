"""Sums over rows give the numbers of sacreBLEU's public functions, whatever the texts and however the rows are parted."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from bertline.models.metrics.accumulators import FAMILIES, family_of
from bertline.models.metrics.translation import sentence_chrf, statistics

FAMILY = FAMILIES["translations"]
WORDS = [
    "the",
    "The",
    "cat",
    "sat,",
    "on",
    "mat.",
    "Café",
    "naïve",
    "北京",
    "🎬",
    "👩‍👩‍👧",
    "3.14",
    "&amp;",
    "it's",
    "-",
    "(a)",
]
close = pytest.approx


def summed(pairs):
    found = FAMILY.none(())
    for hypothesis, reference in pairs:
        found = FAMILY.add(found, np.asarray([reference.encode()], object), hypothesis.encode(), ())
    return found


def scores(sums):
    return [FAMILY.scores[name](FAMILY.whole(sums)) for name in ("Bleu", "Chrf")]


def public(pairs):
    hypotheses, references = (list(texts) for texts in zip(*pairs, strict=True))
    return [
        sacrebleu.corpus_bleu(hypotheses, [references]).score,
        sacrebleu.corpus_chrf(hypotheses, [references]).score,
    ]


def made(count, seed):
    chance = np.random.default_rng(seed)
    pairs = []
    for _ in range(count):
        reference = list(chance.choice(WORDS, size=chance.integers(0, 25)))
        kept = [word for word in reference if chance.random() < 0.8]
        noise = list(chance.choice(WORDS, size=chance.integers(0, 4)))
        pairs.append((" ".join([*kept, *noise]) if chance.random() < 0.95 else "", " ".join(reference)))
    return pairs


@pytest.mark.parametrize("seed", range(5))
def test_many_rows_have_the_public_numbers_in_any_order_and_parting(seed):
    pairs = made(300, seed)
    assert any(not hypothesis for hypothesis, _ in pairs) and any(not reference for _, reference in pairs)
    expected = public(pairs)
    assert scores(summed(pairs)) == close(expected, abs=1e-9) and 20 < expected[0] < expected[1] < 100
    parts = np.array_split(np.random.default_rng(seed).permutation(300), 7)
    total = FAMILY.none(())
    for part in parts:
        total = FAMILY.merge(total, summed(pairs[row] for row in part))
    assert total.tolist() == summed(pairs).tolist()  # exact: whole numbers
    assert scores(total.astype(float)) == scores(total)  # as the bootstrap has them


text = st.text(max_size=40) | st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(text, text), min_size=1, max_size=6))
def test_any_texts_have_the_public_numbers(pairs):
    pairs = [tuple(one.encode(errors="replace").decode() for one in pair) for pair in pairs]
    assert scores(summed(pairs)) == close(public(pairs), abs=1e-9)


def test_the_scale_ends_at_100_and_case_and_the_defaults_are_as_said():
    same = [("The cat sat on the mat.", "The cat sat on the mat.")]
    assert scores(summed(same)) == close([100, 100])
    assert scores(summed([(same[0][0].lower(), same[0][0])]))[0] < 90
    assert scores(summed([("", "a b c")])) == [0, 0]
    from sacrebleu.metrics import BLEU, CHRF

    assert "13a" in BLEU().tokenizer_signature and (CHRF().char_order, CHRF().word_order, CHRF().beta) == (6, 0, 2)


def test_no_rows_have_no_score():
    assert np.isnan(scores(FAMILY.none(()))).all()


def test_a_sentence_has_the_public_number_of_chrf():
    for hypothesis, reference in made(50, 9):
        assert sentence_chrf(hypothesis, reference) == close(
            sacrebleu.sentence_chrf(hypothesis, [reference]).score, abs=1e-9
        )


def test_texts_that_are_no_utf_8_or_end_in_zeros_are_counted_as_they_stand():
    ill_formed = FAMILY.add(FAMILY.none(()), b"a b\xff", b"a b\xff", ())
    assert ill_formed.tolist() == statistics("a b\ufffd", "a b\ufffd").tolist()
    in_array = FAMILY.add(FAMILY.none(()), np.asarray([b"a\0"], object), np.asarray([b"a\0"], object), ())
    assert (
        in_array.tolist() == FAMILY.add(FAMILY.none(()), b"a\0", b"a\0", ()).tolist() == statistics("a\0", "a\0").tolist()
    )


def test_both_scores_are_of_the_family():
    assert {family_of(name) for name in ("Bleu", "Chrf")} == {"translations"}


def test_scores_of_other_tasks_do_not_wait_for_sacrebleu():
    script = (
        "import sys, bertline.models.metrics.accumulators as f; f.FAMILIES['translations'].none(()); "
        "print('sacrebleu' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
