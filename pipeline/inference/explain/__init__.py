"""Why a pushed model answers as it does: for the command line, as a page, and from Python.

Example:
  >>> from bertline.pipeline.inference.explain import explain
  >>> found = explain("workspace/models/reviews/1", "A film to remember.")
  >>> dict(zip(found.words, found.attributions[0].words))     # what each word adds to the answer
  >>> found.attentions["encoder"].layers[0]                   # [heads, tokens, tokens]
  >>> page(found)                                             # in a notebook: shows itself
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bertline.pipeline.core.errors import BertlineError

if TYPE_CHECKING:
    from bertline.components.reports.page import Page
    from bertline.models.explain.explainer import Baseline
    from bertline.models.explain.explanation import Explanation


def explain(
    model: str | Path | None,
    text: str,
    second: str | None = None,
    choices: Sequence[str] = (),
    *,
    label: str | None = None,
    word: str | int | None = None,
    baseline: Baseline = "pad",
    workspace: str = "workspace",
) -> Explanation:
    """Explains a model's answer to one text.

    Args:
      model: the folder of a pushed version, or of all versions of a model, or the name of a pipeline in the workspace; of
        several versions the newest is taken; None for what the last run pushed.
      text, second, choices: the texts of a row, as many as the model reads; a question and its text, say.
      label: what is explained in place of what was answered: a class, a tag, a token, an ending, a part of the text.
      word: the word, [MASK] or word of the translation that is explained, or its number, from 1.
      baseline: what the words are compared with: the vector of [PAD] or of [MASK], or zeros.
    """
    from bertline.pipeline.inference.explain.loading import find, load

    pushed = find(model, workspace)
    texts, endings = (
        [each.encode(errors="surrogateescape") for each in given if each is not None] for given in ((text, second), choices)
    )
    asked = pushed.named(texts, endings)
    return load(pushed).explain(asked, label=label, word=None if word is None else str(word), baseline=baseline)


def page(found: Explanation) -> Page:
    """An explanation as a page; `page(found).write(Path("why.html"))` keeps it, and a notebook shows it."""
    from bertline.pipeline.inference.explain.page import page as made

    return made(found)


__all__ = ["BertlineError", "explain", "page"]
