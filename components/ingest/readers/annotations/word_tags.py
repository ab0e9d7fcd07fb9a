"""Character spans to tags of words: B- where an entity begins, I- where it goes on, O elsewhere.

Words are parted as BERT parts them, at white space, punctuation and Chinese characters, for so does the pushed model with
the texts of its requests. A span that begins or ends inside a word is widened to the whole word; of spans that share a word
the longest stays, of equally long ones the first. Both are told of, see `Remark`.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bertline.components.ingest.readers.records import Remark
from bertline.models.data.tag_schemes import OUTSIDE

WIDENED = "spans that begin or end inside a word; widened to whole words"
OVERLAPPING = "spans that share a word with a longer one; left out"
WORDLESS = "spans without a word; left out"
_SHOWN = 60
_IDEOGRAPH = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f]"
)
"""A word each for BERT; Hangul and Kana are not."""
_SPACE = re.compile(r"\\n|\s+")


class Span(NamedTuple):
    start: int
    end: int
    label: str
    text: str | None = None
    """What the tool says stands there."""


class Word(NamedTuple):
    start: int
    end: int


def words_of(text: str) -> list[Word]:
    """Where each word stands.

    >>> [text[start:end] for text in ["Ada's 3.5 ml,"] for start, end in words_of(text)]
    ['Ada', "'", 's', '3', '.', '5', 'ml', ',']
    """
    return list(_parted(text))


def _parted(text: str) -> Iterator[Word]:
    begin: int | None = None
    visible = False
    for at, letter in enumerate(text):
        kind = unicodedata.category(letter)
        alone = _is_alone(letter, kind)
        if begin is not None and (alone or letter.isspace()):
            if visible:
                yield Word(begin, at)
            begin = None
        if alone:
            yield Word(at, at + 1)
        elif begin is None and not letter.isspace():
            begin, visible = at, False
        # BERT drops controls and marks of format, so that a word of nothing else is none.
        visible = visible or kind not in ("Cc", "Cf")
    if begin is not None and visible:
        yield Word(begin, len(text))


def _is_alone(letter: str, kind: str) -> bool:
    """Whether a character is a word of its own."""
    if letter.isascii():
        return letter.isprintable() and not letter.isalnum() and letter != " "
    return kind.startswith("P") or bool(_IDEOGRAPH.match(letter))


class Tagged(NamedTuple):
    words: list[str]
    tags: list[str]
    remarks: tuple[Remark, ...]


def tag_words(text: str, spans: Iterable[Span]) -> Tagged:
    """The words of a text, each with its tag.

    Raises:
      ValueError: a span stands outside the text, or something else stands where it is.

    >>> tag_words("Ada Byron wrote.", [Span(0, 6, "PER")])[:2]
    (['Ada', 'Byron', 'wrote', '.'], ['B-PER', 'I-PER', 'O', 'O'])
    """
    words = words_of(text)
    tags = [OUTSIDE] * len(words)
    remarks = []
    found = []
    for span in dict.fromkeys(_placed(text, span) for span in spans):
        touched = _touched(words, span)
        if not touched:
            remarks.append(Remark(WORDLESS, _told(text, span)))
            continue
        inner = text[span.start : span.end].strip()
        whole = text[words[touched[0]].start : words[touched[-1]].end]
        if inner != whole:
            remarks.append(Remark(WIDENED, f"{_told(text, span)} to {_short(whole)}"))
        found.append((touched, span))
    for touched, span in sorted(found, key=lambda one: (-len(one[0]), one[0].start)):
        wanted = [f"{'I' if number else 'B'}-{span.label}" for number in range(len(touched))]
        if all(tags[at] == OUTSIDE for at in touched):
            tags[touched.start : touched.stop] = wanted
        elif tags[touched.start : touched.stop] != wanted:  # two annotators may have marked the same words
            remarks.append(Remark(OVERLAPPING, _told(text, span)))
    return Tagged([text[start:end] for start, end in words], tags, tuple(remarks))


def _touched(words: Sequence[Word], span: Span) -> range:
    first = bisect_right(words, span.start, key=lambda word: word.end)
    return range(first, max(first, bisect_left(words, span.end, key=lambda word: word.start)))


def _placed(text: str, span: Span) -> Span:
    """The span without what the tool says of its text. Some tools count characters as JavaScript does, where an emoji is
    two; what they say stands there tells it."""
    if span.text is not None and not _reads(text[span.start : span.end], span.text):
        before, inside = (_units(text, *cut) for cut in ((0, span.start), (span.start, span.end)))
        if not _reads(inside, span.text):
            shown = _short(text[span.start : span.end])
            raise ValueError(
                f"the span {span.start} to {span.end} should be {_short(span.text)}, but the text has {shown} there"
            )
        span = span._replace(start=len(before), end=len(before) + len(inside))
    if not 0 <= span.start < span.end <= len(text):
        raise ValueError(f"the span {span.start} to {span.end} is not inside the text, which has {len(text)} characters")
    return span._replace(text=None)


def _units(text: str, start: int, end: int) -> str:
    """A part of a text, counted in units of UTF-16."""
    return text.encode("utf-16-le", "surrogatepass")[2 * start : 2 * end].decode("utf-16-le", "replace")


def _reads(found: str, told: str) -> bool:
    """But for white space, which tools write in their own ways: Label Studio has a line end as a backslash and an n."""
    return _SPACE.sub("", found) == _SPACE.sub("", told)


def _told(text: str, span: Span) -> str:
    return f"{span.label} {_short(text[span.start : span.end])}"


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
