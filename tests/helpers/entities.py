"""Entities by the rules of seqeval's default mode, which are conlleval's, one by one: what ours are compared with."""

from __future__ import annotations

from collections.abc import Sequence

ENDS = {("B", "B"), ("B", "S"), ("B", "O"), ("I", "B"), ("I", "S"), ("I", "O")}
STARTS = {("E", "E"), ("E", "I"), ("S", "E"), ("S", "I"), ("O", "E"), ("O", "I")}


def chunks(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """(type, first word, last word) of each entity, for letters B, I, E, S and O."""
    found = []
    last_letter, last_type, begin = "O", "", 0
    for place, tag in enumerate([*tags, "O"]):
        letter, kind = tag[0], tag[1:].split("-", maxsplit=1)[-1] or "_"
        changes = kind != last_type
        if last_letter in "ES" or (last_letter, letter) in ENDS or (last_letter != "O" and changes):
            found.append((last_type, begin, place - 1))
        if letter in "BS" or (last_letter, letter) in STARTS or (letter != "O" and changes):
            begin = place
        last_letter, last_type = letter, kind
    return found


def scores(true: Sequence[Sequence[str]], given: Sequence[Sequence[str]], kind: str | None = None) -> tuple[float, ...]:
    """Precision, recall and F1 over all sentences; of one type, if it is named."""

    def entities(sentences: Sequence[Sequence[str]]) -> set:
        return {
            (number, *chunk)
            for number, tags in enumerate(sentences)
            for chunk in chunks(tags)
            if kind is None or chunk[0] == kind
        }

    wanted, found = entities(true), entities(given)
    hits = len(wanted & found)
    precision = hits / len(found) if found else 0.0
    recall = hits / len(wanted) if wanted else 0.0
    return precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0
