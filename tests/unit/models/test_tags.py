"""Tags of every scheme spell the entities that seqeval finds in them."""

from __future__ import annotations

import pytest
from entities import chunks
from hypothesis import given
from hypothesis import strategies as st

from bertline.models.data import tag_schemes

KINDS = ["PER", "LOC", "creative-work", None]
IN_IOBES = dict(zip("BILUMESW", "BIESIESS", strict=True))


def tag_lists(letters: str) -> st.SearchStrategy[list[str]]:
    """Any tags, in any order: models say whatever they like."""
    named = st.tuples(st.sampled_from(letters), st.sampled_from(KINDS)).map(lambda tag: "-".join(filter(None, tag)))
    return st.lists(st.just("O") | named, max_size=12)


def in_iobes(tag: str) -> str:
    return tag if tag == "O" else IN_IOBES[tag[0]] + tag[1:]


@pytest.mark.parametrize("letters", ["BI", "BIES", "BILU", "BMES", "I"])
def test_entities_are_those_of_seqeval(letters):
    @given(tag_lists(letters))
    def check(names):
        expected = chunks([in_iobes(name) for name in names])
        assert [(found.type, found.begin, found.end - 1) for found in tag_schemes.entities(names)] == expected

    check()


def test_the_same_entities_are_read_from_every_scheme():
    expected = [("PER", 0, 2), ("PER", 2, 3), ("LOC", 4, 7)]
    for written in (
        "I-PER I-PER B-PER O I-LOC I-LOC I-LOC",  # IOB1
        "B-PER I-PER B-PER O B-LOC I-LOC I-LOC",  # IOB2
        "B-PER E-PER S-PER O B-LOC I-LOC E-LOC",  # IOBES
        "B-PER L-PER U-PER O B-LOC I-LOC L-LOC",  # BILOU
        "B-PER E-PER S-PER O B-LOC M-LOC E-LOC",  # BMES
    ):
        assert tag_schemes.entities(written.split()) == expected


def test_an_unknown_kind_of_tag_is_no_tag():
    for name in ("", "PER", "X-PER", "B-", "b-PER", "OO", "-"):
        assert tag_schemes.parse(name) is None
        assert (
            tag_schemes.problem(["O", name], "any") == f"{name!r} is no tag; a tag is O, or a letter and a type, as B-PER"
        )


GOOD = {
    "IOB1": ["I-A I-A B-A O I-B I-A", "B-A", "O"],
    "IOB2": ["B-A I-A B-A O B-B", "B-A B-A"],
    "IOBES": ["B-A I-A E-A S-B O", "S-A S-A", "B-A E-A B-A E-A"],
    "BILOU": ["B-A I-A L-A U-B O"],
    "BMES": ["B-A M-A E-A S-B O"],
}
BAD = {
    "IOB1": [
        ("O E-A", "'E-A' is no tag of IOB1, whose letters are B, I and O"),
        ("O B-A", "'B-A' cannot follow 'O' in IOB1"),
    ],
    "IOB2": [("I-A", "'I-A' cannot come first in IOB2"), ("B-A I-B", "'I-B' cannot follow 'B-A' in IOB2")],
    "IOBES": [
        ("B-A O", "'O' cannot follow 'B-A' in IOBES"),
        ("S-A E-A", "'E-A' cannot follow 'S-A' in IOBES"),
        ("O B-A I-A", "'I-A' cannot come last in IOBES"),
    ],
    "BILOU": [("B-A E-A", "'E-A' is no tag of BILOU, whose letters are B, I, L, U and O")],
    "BMES": [("B-A I-A", "'I-A' is no tag of BMES, whose letters are B, M, E, S and O")],
}


def test_a_named_scheme_refuses_what_breaks_it_and_any_scheme_does_not():
    for scheme, written in GOOD.items():
        for sentence in written:
            # The first B of IOB1 stands where nothing touches it.
            wrong = scheme == "IOB1" and sentence == "B-A"
            assert (tag_schemes.problem(sentence.split(), scheme) is not None) == wrong
    for scheme, written in BAD.items():
        for sentence, reason in written:
            assert tag_schemes.problem(sentence.split(), scheme) == reason
            assert tag_schemes.problem(sentence.split(), "any") is None


def test_a_type_has_all_letters_of_its_scheme_whichever_were_seen():
    assert tag_schemes.complete(["B-b", "O", "I-a"]) == ["O", "B-a", "I-a", "B-b", "I-b"]
    assert tag_schemes.complete(["S-a", "O"]) == ["O", "B-a", "I-a", "E-a", "S-a"]
    assert tag_schemes.complete(["U-a"]) == ["O", "B-a", "I-a", "L-a", "U-a"]
    assert tag_schemes.complete(["M-a", "B-a"]) == ["O", "B-a", "M-a", "E-a", "S-a"]
    assert tag_schemes.complete(["I-a", "I-b"]) == ["O", "I-a", "I-b"]
    assert tag_schemes.complete(["E-a", "L-b"]) == ["O", "E-a", "L-a", "E-b", "L-b"]
    assert tag_schemes.complete(["B", "I", "O"]) == ["O", "B", "I"]
    assert tag_schemes.complete(["O"]) == ["O"]
