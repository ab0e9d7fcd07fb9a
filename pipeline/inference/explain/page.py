"""An explanation as one page of HTML that asks for nothing else."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bertline.components.reports.cards import card
from bertline.components.reports.charts import bar, chart
from bertline.components.reports.drawing import scale_of
from bertline.components.reports.page import Page, render
from bertline.models.explain.explanation import Attention, Attribution, Explanation
from bertline.models.tokenization.joiner import JOINER

_HERE = Path(__file__).parent
_MAX_WEIGHTS = 40_000_000
"""More are left out of the page: twelve layers of twelve heads over 512 tokens fit in."""
_TITLES = {
    "encoder": "Self-attention over the tokens of the text",
    "decoder": "Self-attention over the tokens generated before",
    "source": "Cross-attention from the generated tokens to the text",
    "alignment": "What each generated token attended to, over all heads of the last layer but one",
    "rollout": "All layers together (rollout)",
}


def page(found: Explanation) -> Page:
    maps, data = _maps(found)
    notes = list(found.notes)
    if not maps:
        notes.append("the text is too long for the maps of all heads; --json --attention has their weights.")
    view = {
        "title": f"Why: {found.attributions[0].name}",
        "parts": [("overview", "Overview"), ("words", "Words"), *([("attention", "Attention")] if maps else [])],
        "cards": _cards(found),
        "notes": notes,
        "attributions": [_attribution(attribution, found) for attribution in found.attributions],
        "maps": maps,
    }
    template, script, style = (_HERE / f"page.{kind}" for kind in ("html", "js", "css"))
    return render(template, view, scripts=[script], styles=[style], data={"maps": maps, "weights": data})


def _cards(found: Explanation) -> list[dict[str, Any]]:
    """What was predicted, and from where to where the words move the score that is explained."""
    first = found.attributions[0]
    score, baseline = first.found.score, first.found.baseline
    added = first.words
    most = max(range(len(added)), key=lambda at: abs(added[at]), default=None)
    strongest = [] if most is None else [f"largest: {first.reading.words[most].shown!r}, {added[most]:+.3f}"]
    return [
        card("Prediction", found.answer, [f"of the task {found.task}"], state="open", kind="verdict"),
        card(f"{first.unit} of {first.name}", f"{score:+.3f}", [f"of the baseline: {baseline:+.3f}"]),
        card("The words add", f"{added.sum():+.3f}", strongest),
    ]


def _attribution(attribution: Attribution, found: Explanation) -> dict[str, Any]:
    added, words = attribution.words, attribution.reading.words
    most = max(abs(added).max(initial=0.0), 1e-9)
    shown = [
        {
            "word": word.shown,
            "text": list(found.texts)[word.text],
            "place": f"{word.start}–{word.end}",
            "added": f"{value:+.3f}",
            "share": round(abs(float(value)) / most, 3),
            "side": "for" if value > 0 else "against",
        }
        for word, value in zip(words, added, strict=True)
    ]
    ranked = sorted(range(len(words)), key=lambda at: -abs(added[at]))
    return {
        "name": attribution.name,
        "unit": attribution.unit,
        "score": f"{attribution.found.score:+.3f}",
        "baseline": f"{attribution.found.baseline:+.3f}",
        "sum": f"{added.sum():+.3f}",
        "error": f"{abs(attribution.found.error):.1e}",
        "gradients": attribution.found.gradients,
        "complete": attribution.found.is_complete,
        "texts": list(_texts(attribution, found, shown)),
        "chart": _word_chart([(shown[at], float(added[at])) for at in ranked], several=len(found.texts) > 1),
    }


def _word_chart(words: list[tuple[dict[str, Any], float]], *, several: bool) -> dict[str, Any]:
    """What each word adds, to the right of 0 for what is explained, and to its left against it.

    Args: several: whether there are several texts that a word may be of.
    """
    scale = scale_of([0.0, *(value for _, value in words)])
    rows = [{**word, "bar": bar(scale, value), "colour": int(value <= 0)} for word, value in words]
    return {
        **chart(scale, rows, [("zero", 0.0)]),
        "headings": [("word", "name"), *([("text", "")] * several), ("characters", ""), ("adds", "number")],
    }


def _texts(attribution: Attribution, found: Explanation, shown: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Each text in parts: a word with what it adds, or what stands between words."""
    for number, (name, text) in enumerate(found.texts.items()):
        parts: list[dict[str, Any]] = []
        end = 0
        words = sorted(
            (word.start, word.end, at) for at, word in enumerate(attribution.reading.words) if word.text == number
        )
        for start, stop, at in words:
            parts += [{"between": text[end:start], "unread": False}] if start > end else []
            # Words of one character, as those of a ligature, may share it: what was shown is not shown again.
            parts.append({**shown[at], "word": text[max(start, end) : stop]})
            end = max(end, stop)
        yield {"name": name, "parts": [*parts, {"between": text[end:], "unread": bool(text[end:].strip())}]}


def _maps(found: Explanation) -> tuple[list[dict[str, Any]], str]:
    """What there is to look at, and all of its weights: one byte each, of the square root of its share of the largest one
    of its head, compressed."""
    together = {"encoder": ("rollout", found.rollout)}
    if found.alignment is not None:
        together["source"] = ("alignment", found.alignment)
    stacks: list[Attention] = []
    for name, stack in found.attentions.items():
        if name in together:
            other, weights = together[name]
            stacks.append(Attention(other, (weights[np.newaxis],), ((0,),), stack.looking, stack.looked_at))
        stacks.append(stack)
    layers = [layer for stack in stacks for layer in stack.layers]
    if sum(layer.size for layer in layers) > _MAX_WEIGHTS:
        return [], ""
    # The square root: most weights are small, and a byte would tell them apart too coarsely.
    coded = b"".join(
        np.round(np.sqrt(np.clip(head, 0, 1) / _largest(head)) * 255).astype(np.uint8).tobytes()
        for layer in layers
        for head in layer
    )
    maps = [
        {
            "name": stack.name,
            "title": _TITLES[stack.name],
            "looking": [_shown(token) for token in stack.looking],
            "looked_at": [_shown(token) for token in stack.looked_at],
            "heads": [list(heads) for heads in stack.heads],
            "largest": [[_largest(head) for head in layer] for layer in stack.layers],
        }
        for stack in stacks
    ]
    return maps, base64.b64encode(zlib.compress(coded)).decode()


def _largest(head: np.ndarray) -> float:
    return max(float(head.max(initial=0.0)), 1e-9)


def _shown(token: str) -> str:
    """Without the mark of where there was no space, which no person wrote."""
    return token.replace(JOINER, "") or token
