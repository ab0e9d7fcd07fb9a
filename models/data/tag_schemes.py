"""Tags of words, and the entities that they spell.

A tag is O, or a letter and a type, as B-person. The letters differ by scheme, and mean the same: where an entity begins,
goes on, ends, or begins and ends at once. Entities are read as seqeval does by default, which is how a model is judged
that may say anything: a word goes on with the entity before it if both tags allow it and their types are equal, and
begins a new one otherwise. IOB1 and IOB2 need not be told apart by that, nor tags that break their scheme refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bertline.pipeline.config import Scheme

OUTSIDE = "O"

_TAG = re.compile(r"([BIESLUMW])(?:-(.+))?")
_ROLES = {"B": "B", "I": "I", "M": "I", "E": "E", "L": "E", "S": "S", "U": "S", "W": "S"}
"""What the letters of all schemes mean, in those of IOBES."""
_LETTERS: dict[str, str] = {"IOB1": "BI", "IOB2": "BI", "IOBES": "BIES", "BILOU": "BILU", "BMES": "BMES"}
NO_TYPE = "_"
"""The type of a tag that names none, as seqeval calls it."""


class Tag(NamedTuple):
    role: str
    """B, I, E, S, or O."""
    type: str
    letter: str


class Entity(NamedTuple):
    type: str
    begin: int
    """Its first word."""
    end: int
    """The word after its last."""


def parse(tag: str) -> Tag | None:
    """What a tag says; None if it is none.

    >>> parse("L-creative-work")
    Tag(role='E', type='creative-work', letter='L')
    """
    if tag == OUTSIDE:
        return Tag(OUTSIDE, "", OUTSIDE)
    found = _TAG.fullmatch(tag)
    return Tag(_ROLES[found[1]], found[2] or NO_TYPE, found[1]) if found else None


def goes_on(before: Tag, tag: Tag) -> bool:
    """Whether a word is of the same entity as the word before it."""
    return before.role in "BI" and tag.role in "IE" and before.type == tag.type


def entities(tags: Iterable[str]) -> list[Entity]:
    """
    >>> entities(["B-PER", "I-PER", "O", "I-LOC"])
    [Entity(type='PER', begin=0, end=2), Entity(type='LOC', begin=3, end=4)]
    """
    found: list[Entity] = []
    before = Tag(OUTSIDE, "", OUTSIDE)
    for place, name in enumerate(tags):
        tag = parse(name) or Tag(OUTSIDE, "", OUTSIDE)
        if goes_on(before, tag):
            found[-1] = found[-1]._replace(end=place + 1)
        elif tag.role != OUTSIDE:
            found.append(Entity(tag.type, place, place + 1))
        before = tag
    return found


def problem(tags: Sequence[str], scheme: Scheme) -> str | None:
    """What is wrong with the tags of a sentence; under the scheme `any`, only what is no tag at all."""
    before = Tag(OUTSIDE, "", OUTSIDE)
    for number, name in enumerate((*tags, OUTSIDE)):
        tag = parse(name)
        if tag is None:
            return f"{name!r} is no tag; a tag is {OUTSIDE}, or a letter and a type, as B-PER"
        if scheme == "any":
            continue
        if tag.role != OUTSIDE and tag.letter not in _LETTERS[scheme]:
            return f"{name!r} is no tag of {scheme}, whose letters are {', '.join(_LETTERS[scheme])} and {OUTSIDE}"
        if not _may_follow(before, tag, scheme):
            place = "come first" if number == 0 else f"follow {tags[number - 1]!r}"
            return (
                f"{name!r} cannot {place} in {scheme}"
                if number < len(tags)
                else f"{tags[-1]!r} cannot come last in {scheme}"
            )
        before = tag
    return None


def _may_follow(before: Tag, tag: Tag, scheme: Scheme) -> bool:
    if scheme == "IOB1":  # B only where two entities of a type touch
        return tag.role != "B" or (before.role in "BI" and before.type == tag.type)
    if scheme == "IOB2":
        return tag.role != "I" or goes_on(before, tag)
    # An entity of several words is open until its end, and nothing but an open one goes on.
    return goes_on(before, tag) == (before.role in "BI") == (tag.role in "IE")


def complete(tags: Iterable[str]) -> list[str]:
    """All tags that go with those that were seen, O first.

    A rare type may lack one of its scheme's letters in the training rows, and have it in others: that is no unknown tag.
    """
    known = [tag for name in tags if (tag := parse(name)) and tag.role != OUTSIDE]
    seen = {tag.letter for tag in known}
    letters = "I" if seen <= {"I"} else next((found for found in _LETTERS.values() if seen <= set(found)), None)
    # Mixed schemes mean what each says.
    letters = letters or "".join(sorted(seen))
    types = sorted({tag.type for tag in known})
    return [OUTSIDE, *(letter if name == NO_TYPE else f"{letter}-{name}" for name in types for letter in letters)]
