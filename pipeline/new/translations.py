"""Texts and their translations: two files that go together line by line, or two columns of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertline.components.ingest.files import InputFile, format_by_ending, partner_of, uncompressed
from bertline.components.ingest.readers.records import UNREADABLE
from bertline.pipeline.config import DataConfig, TextConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new.folders import EVALUATION, TRAIN, named
from bertline.pipeline.new.guess import Guess, Room, Setting, Source, room_for
from bertline.pipeline.new.tables import columns
from bertline.pipeline.new.tables.row_settings import row_settings
from bertline.pipeline.new.tables.table import Table, Values, with_encoding
from bertline.pipeline.new.text_files import encoding_setting, has_both_sides, rows_in, seen_in, too_few

# ISO 639-1, as in en, pt-BR, zh_Hans; or, as eng_Latn, with a script. A part of a name that is none of these, as txt or
# dev, must not be taken for a language.
_CODES = (
    "a[abfkmnrsvyz]|b[aeghimnors]|c[aehorsuvy]|d[aevz]|e[elnostu]|f[afijory]|g[adlnuv]|h[aeiortuyz]|i[adegikostu]|j[av]"
    "|k[agijklmnorsuvwy]|l[abgintouv]|m[ghiklnrsty]|n[abdeglnorvy]|o[cjmrs]|p[ailst]|qu|r[mnouw]|s[acdegiklmnoqrstuvw]"
    "|t[aeghiklnorstwy]|u[gkrz]|v[eio]|w[ao]|xh|y[io]|z[ahu]"
)
_LANGUAGE = re.compile(f"({_CODES})([_-][A-Za-z]{{2,4}})?|[a-z]{{3}}_[A-Z][a-z]{{3}}")
_SIDES = {"source": ("target",), "src": ("tgt", "trg", "ref")}
# A name as notes.no.json has a language in it as well, and no line of the file is a text.
_NO_LINES = (
    ".json",
    ".xml",
    ".html",
    ".htm",
    ".yaml",
    ".yml",
    ".md",
    ".pdf",
    ".xls",
    ".xlsx",
    ".zip",
    ".tar",
    ".db",
    ".py",
)
_FROM_SCRATCH = "from scratch, as every translation is; a larger one learns more, and takes longer"
_THRESHOLDS: Mapping[str, float] = {"bleu": 5}
_WHY_THRESHOLDS = "of 100; a copy of the source, or repeated frequent words, have less"


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """One file name in two languages or more."""

    stem: str
    """The name, with a * in the place of the language."""
    paths: Mapping[str, Path]
    """Language -> file."""


def guess_parallel(place: Path) -> Guess | None:
    """What two parallel files teach; None where there are none.

    Args:
      place: the file that is translated from, or a folder.
    """
    if place.is_file():
        pair = next((pair for pair in _pairs(place.parent) if place in pair.paths.values()), None)
        if pair is None:
            return None
        text = next(language for language, path in pair.paths.items() if path == place)
        return _guess(Source(path=str(place)), text, [language for language in pair.paths if language != text])
    pairs = _pairs(place) if place.is_dir() else []
    if not pairs:
        return None
    chosen, languages, unread = _sides(place, pairs)
    text, *labels = sorted(languages, key=lambda language: _order(language, chosen[0].stem))
    path, *evaluation = (str(pair.paths[text]) for pair in chosen)
    return _guess(Source(path=path, evaluation=evaluation[0] if evaluation else None), text, labels, unread)


def _pairs(folder: Path) -> list[_Pair]:
    """Names of files that differ in one part between dots, which is a language."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")):
        plain = uncompressed(str(path))
        if format_by_ending(plain.name) not in (None, "documents") or plain.suffix.lower() in _NO_LINES:
            continue
        parts = plain.name.split(".")
        for at, part in enumerate(parts):
            if _is_side(part):
                stem = ".".join((*parts[:at], "*", *parts[at + 1 :]))
                found.setdefault(stem, {}).setdefault(part, path)
    return [_Pair(stem=stem, paths=paths) for stem, paths in found.items() if _go_together(paths)]


def _is_side(part: str) -> bool:
    return bool(_LANGUAGE.fullmatch(part)) or part in _SIDES or any(part in targets for targets in _SIDES.values())


def _go_together(names: Iterable[str]) -> bool:
    """Two languages at least, or a source and its target."""
    known = set(names)
    languages = [name for name in known if _LANGUAGE.fullmatch(name)]
    return len(languages) > 1 or any(source in known and known & {*targets} for source, targets in _SIDES.items())


def _sides(folder: Path, pairs: list[_Pair]) -> tuple[list[_Pair], list[str], list[str]]:
    """The files to train on and to hold out, or the only ones; the languages they all have; the files that are not read."""
    if len(pairs) == 1:
        return pairs, list(pairs[0].paths), []
    by_stem = {pair.stem: pair for pair in pairs}
    train = named(list(by_stem), TRAIN)
    evaluation = named([stem for stem in by_stem if stem not in train], EVALUATION)
    if len(train) != 1 or len(evaluation) != 1:
        shown = f"{', '.join(list(by_stem)[:8])}{' …' if len(by_stem) > 8 else ''}"
        raise BertlineError(
            f"{folder}: of parallel files a folder needs one pair with train in its name and one with dev, valid, eval or"
            f" test; it has {shown}. Or name one file, that of the language to translate from."
        )
    chosen = [by_stem[train[0]], by_stem[evaluation[0]]]
    both = [language for language in chosen[0].paths if language in chosen[1].paths]
    if not _go_together(both):
        raise BertlineError(f"{folder}: {train[0]} and {evaluation[0]} do not have two languages in common; add the files.")
    return chosen, both, [pair.stem for pair in pairs if pair not in chosen]


def _order(language: str, stem: str) -> tuple[bool, int, bool, str]:
    """The source first: by its name, by a part as en-de, or else English, which most corpora begin with."""
    directions = re.findall(r"\b([a-z]{2})-([a-z]{2})\b", stem)
    told = [direction.index(language) for direction in directions if language in direction]
    return language not in _SIDES, told[0] if told else 2, not language.startswith("en"), language


def _guess(source: Source, text: str, labels: list[str], unread: Sequence[str] = ()) -> Guess:
    data = DataConfig(path=source.path, format="parallel", text=text, label=labels[0])
    file = InputFile(source.path, "parallel", None, partner_of(source.path, data))
    data, rows, bad = rows_in(file, with_encoding(file, data))
    if broken := next((row for row in bad if row.kind == UNREADABLE), None):
        raise BertlineError(
            f"{broken.reason} If they are no translations of each other, say with --task what they are for."
        )
    values = [row.values for row in rows]
    complete = [row for row in values if all((value or "").strip() for value in row.values())]
    if not complete:
        raise BertlineError(f"{source.path}: no line has a text on both sides; name other files.")
    if source.evaluation is None and not has_both_sides(rows, data):
        raise too_few(file, f"{len(rows):,} lines with their translations")
    lacking = len(values) - len(complete)
    others = f"; could also be {', '.join(labels[1:])}" if labels[1:] else ""
    *first, last = source.settings
    not_read = (
        f"{', '.join(unread)} {'is' if len(unread) == 1 else 'are'} not read: kept to measure by at the end (data.test)"
    )
    return Guess(
        task="translation",
        why=f"two files that go together line by line, {Path(source.path).name} and {Path(str(file.partner)).name}",
        seen=seen_in(rows, bad, "lines", source),
        data=(
            *first,
            last._replace(why=not_read if unread else ""),
            Setting("format", "parallel"),
            encoding_setting(data),
            Setting("text", text, f"translated from; the part of the file's name that is {labels[0]} in the other's"),
            Setting("label", labels[0], f"translated into{others}"),
            Setting("incomplete", "stop" if lacking else None, f"or quarantine: {lacking:,} lines are empty on one side"),
        ),
        seq_len=_room(complete, text, labels[0]),
        thresholds=dict(_THRESHOLDS),
        why_thresholds=_WHY_THRESHOLDS,
        model=_FROM_SCRATCH,
    )


def _room(rows: Sequence[Values], *names: str) -> Room | None:
    """Tokens for either side, where the default is too few: a text that is cut off teaches to stop too early."""
    room = max(room_for(str(row[name]) for row in rows) for name in names)
    return room if room > TextConfig().seq_len else None


def guess_table(table: Table) -> Guess | None:
    """Two columns of text, the first translated into the second; by languages where columns are named so."""
    texts = columns.texts(table)
    pair = sorted((name for name in texts if _is_side(name)), key=lambda name: name not in _SIDES)
    if len(texts) < 2:
        return None
    text, label = (pair if len(pair) > 1 else texts)[:2]
    complete = table.complete((text, label))
    if not complete:
        return None
    return Guess(
        task="translation",
        why="two texts per example, one of which is taken for the translation of the other",
        seen=table.seen,
        data=row_settings(
            table, (text,), Setting("label", label, f"translated into; or the other way round, {text}"), complete
        ),
        seq_len=_room(complete, text, label),
        thresholds=dict(_THRESHOLDS),
        why_thresholds=_WHY_THRESHOLDS,
        model=_FROM_SCRATCH,
    )
