"""An explanation as one page of HTML that asks for nothing else."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from components.sight.page import Page, render
from models.explaining.explanation import Attention, Attribution, Explanation
from models.joiner import JOINER

_HERE = Path(__file__).parent
_MOST_WEIGHTS = 40_000_000
"""More are left out of the page: twelve layers of twelve heads over 512 pieces fit in."""
_TITLES = {
    "encoder": "Where the pieces of the text look",
    "decoder": "Where what is written looks at what was written before",
    "source": "Where what is written looks in the text",
    "alignment": "What each written piece looked at, over all heads of the last but one layer",
    "rollout": "All layers together (rollout)",
}


def page(found: Explanation) -> Page:
    maps, data = _maps(found)
    notes = list(found.notes)
    if not maps:
        notes.append("the text has too many pieces for the maps of all heads; --json --attention gives their weights.")
    view = {
        "title": f"Why: {found.attributions[0].name}",
        "parts": [("words", "Words"), *([("attention", "Attention")] if maps else [])],
        "task": found.task,
        "answer": found.answer,
        "notes": notes,
        "attributions": [_attribution(attribution, found) for attribution in found.attributions],
        "maps": maps,
    }
    template, script, style = (_HERE / f"page.{kind}" for kind in ("html", "js", "css"))
    return render(template, view, scripts=[script], styles=[style], data={"maps": maps, "weights": data})


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
        "words": [shown[at] for at in ranked],
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
    if sum(layer.size for layer in layers) > _MOST_WEIGHTS:
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
            "looking": [_shown(piece) for piece in stack.looking],
            "looked_at": [_shown(piece) for piece in stack.looked_at],
            "heads": [list(heads) for heads in stack.heads],
            "largest": [[_largest(head) for head in layer] for layer in stack.layers],
        }
        for stack in stacks
    ]
    return maps, base64.b64encode(zlib.compress(coded)).decode()


def _largest(head: np.ndarray) -> float:
    return max(float(head.max(initial=0.0)), 1e-9)


def _shown(piece: str) -> str:
    """Without the mark of where there was no space, which no person wrote."""
    return piece.replace(JOINER, "") or piece
