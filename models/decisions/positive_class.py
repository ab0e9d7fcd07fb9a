"""Which of two classes is the positive one: the class that is looked for, and that F1, precision and recall are of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bertline.pipeline.config import nearest
from bertline.pipeline.core.errors import BertlineError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_POSITIVE = _words("""
    yes y true positive pos spam toxic hate hateful offensive abusive fraud fake phishing scam malicious clickbait
    sarcastic ironic relevant duplicate paraphrase equivalent entailment 是 正面 正向 积极 好评 垃圾 相关
""")
_NEGATIVE = _words("""
    no n false negative neg ham legit legitimate benign clean normal neutral none other others rest background
    否 负面 负向 消极 差评 正常 其他
""")
_PREFIXES = ("not", "non", "no", "un", "in", "ir", "dis")
_NUMBERS = ({"0", "1"}, {"-1", "1"}, {"0", "+1"}, {"-1", "+1"}, {"0.0", "1.0"})


class Positive(NamedTuple):
    name: str
    why: str
    """For whoever asks why this one."""


def choose_positive(labels: Sequence[str], counts: Sequence[int], given: str | None = None) -> Positive | None:
    """None where there are not two classes.

    Args:
      counts: training examples of each class.
      given: the config's `data.positive`.

    Example:
      >>> choose_positive(("ham", "spam"), (90, 10))
      Positive(name='spam', why='by its name')
      >>> choose_positive(("rock", "jazz"), (90, 10))
      Positive(name='jazz', why='the rarer one: 10 of 100 training examples')
    """
    if given is not None:
        check_positive(given, labels)
        return Positive(given, "as data.positive says")
    if len(labels) != 2:
        return None
    if named := _by_name(labels):
        return Positive(named, "by its name")
    rarer = 0 if counts[0] < counts[1] else 1
    if counts[0] == counts[1]:
        return Positive(labels[rarer], "the last one: both have as many training examples")
    return Positive(labels[rarer], f"the rarer one: {counts[rarer]:,} of {sum(counts):,} training examples")


def check_positive(given: str | None, labels: Sequence[str]) -> None:
    """Refuses a name that is none of two classes."""
    if given is None:
        return
    if given not in labels:
        shown = ", ".join(map(repr, labels[:10])) + (", …" if len(labels) > 10 else "")
        raise BertlineError(
            f"data.positive: there is no class {given!r}{nearest(given, labels)}; the training examples have {shown}."
        )
    if len(labels) != 2:
        raise BertlineError(
            f"data.positive: of {len(labels)} classes none is the positive one; leave it out. The metric macro_f1 is the"
            " mean over all of them."
        )


def _by_name(labels: Sequence[str]) -> str | None:
    first, second = labels
    one, other = (label.strip().casefold() for label in labels)
    if {one, other} in _NUMBERS:
        return first if one.endswith(("1", "1.0")) and not one.startswith("-") else second
    votes = _is_positive(one, other) - _is_positive(other, one)
    return first if votes > 0 else second if votes < 0 else None


def _is_positive(name: str, other: str) -> int:
    """How much speaks for it: its own name, and that the other one is a negative name, or its negation."""
    negated = other in {f"{prefix}{gap}{name}" for prefix in _PREFIXES for gap in ("", " ", "_", "-")}
    return (name in _POSITIVE) + (other in _NEGATIVE) + negated
