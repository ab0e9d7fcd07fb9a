"""Answers over classes, shortened: what was decided comes first, and of many classes the likeliest are enough."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bertline.models.responses.base import Given, ResponseSpec
from bertline.models.responses.types import CLASSIFIED, MULTI_CLASSIFIED, Classified

ALL = 10**9
"""More classes than any model has."""


def likeliest(kind: ResponseSpec[Any], limit: int) -> ResponseSpec[Any]:
    """The kind, with `score` beside the label, and no more than `limit` probabilities; another kind as it is.

    A model of no more classes keeps their order, the one of its signature; otherwise the likeliest is first.
    """
    if kind not in (CLASSIFIED, MULTI_CLASSIFIED):
        return kind

    def plain(given: Given) -> dict[str, Any]:
        found = kind.plain(given)
        classes, probabilities = found.pop("classes"), found.pop("probabilities")
        of = dict(zip(classes, probabilities, strict=True))
        shown = of if len(of) <= limit else dict(sorted(of.items(), key=lambda each: -each[1])[:limit])
        if kind is CLASSIFIED:
            label = found.pop("label")
            # Of a model that abstains, the score is the one that was not enough.
            decided = {"label": label, "score": of.get(label, max(of.values()))}
        else:
            labels = found.pop("labels")
            decided = {"labels": labels, "scores": [of[label] for label in labels]}
        return {**decided, **found, "classes": list(shown), "probabilities": list(shown.values())}

    if kind is MULTI_CLASSIFIED:
        return replace(kind, plain=plain)

    def show(answer: Classified) -> str:
        return answer.shown(limit)

    return replace(kind, plain=plain, show=show)
