"""`bertline explain`: why a pushed model answers as it does."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bertline.models.explain.explainer import Baseline

_PLAIN_WIDTH = 140


@click.command()
@click.argument("model")
@click.argument("text")
@click.option("--second", metavar="TEXT", help="Second text of a pair; the text that a question is about.")
@click.option("--choice", multiple=True, metavar="TEXT", help="One of the endings to choose from.")
@click.option("--label", metavar="NAME", help="Explain this class, tag, token, ending or part of the text instead.")
@click.option("--word", metavar="WORD|N", help="For models that predict word by word: the word, or its number, from 1.")
@click.option(
    "--baseline",
    type=click.Choice(["pad", "mask", "zero"]),
    default="pad",
    show_default=True,
    help="What words are compared with: the vector of [PAD], of [MASK], or zeros.",
)
@click.option("--workspace", default="workspace", show_default=True)
@click.option("--html", type=click.Path(dir_okay=False), metavar="FILE", help="Write a page that needs no other file.")
@click.option("--json", "as_json", is_flag=True, help="Words, tokens and rollout, as JSON.")
@click.option("--attention", is_flag=True, help="In --json, the weights of every head too.")
def explain(
    model: str,
    text: str,
    second: str | None,
    choice: tuple[str, ...],
    label: str | None,
    word: str | None,
    baseline: Baseline,
    workspace: str,
    html: str | None,
    as_json: bool,
    attention: bool,
) -> None:
    """Explain a prediction of a pushed model: the attribution of each word, and the attention of each head.

    MODEL is the folder of a pushed version, or of all versions of a model, or the name of a pipeline in the workspace; of
    several versions the newest is taken.

    Attributions are integrated gradients through the model's own graph, from a text of [PAD] to this one. They sum up to
    the change of the score, within an error that is printed. By default the predicted output is explained: a class, a
    number, an entity, both ends of a span, a masked token, a translation.

    \b
    bertline explain workspace/models/reviews/1 "A film to remember."
    bertline explain reviews "A film to remember." --label rotten --html why.html
    bertline explain MODEL "A man eats." --second "He is eating."      a model over pairs of texts
    bertline explain MODEL "Who ate?" --second "A man ate an apple."   both ends of the answer; --label "an apple"
    bertline explain MODEL "Ada lived in London." --word London        one word's tag; --label B-PER: why not a person
    bertline explain MODEL "The [MASK] sat on the mat." --label cat    a model of the task pretraining
    bertline explain MODEL "A man is riding a bike." --html page.html  a translation, and what each token attended to
    """
    from bertline.pipeline.core import environment
    from bertline.pipeline.core.errors import BertlineError
    from bertline.pipeline.inference.explain.loading import find, load

    if attention and not as_json:
        raise BertlineError("--attention goes with --json; --html shows every head.")
    environment.prepare(quiet=True)
    pushed = find(model, workspace)
    given = [os.fsencode(each) for each in (text, second) if each is not None]
    asked = pushed.named(given, [os.fsencode(each) for each in choice])
    found = load(pushed).explain(asked, label=label, word=word, baseline=baseline)
    if as_json:
        click.echo(json.dumps(found.to_json(attention=attention), ensure_ascii=False, allow_nan=False))
    elif not html:
        from rich.console import Console

        from bertline.pipeline.inference.explain.terminal import show

        show(Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH), found)
    if html:
        from bertline.pipeline.inference.explain.page import page

        page(found).write(Path(html), "--html")
        click.echo(f"written to {html}", err=True)
