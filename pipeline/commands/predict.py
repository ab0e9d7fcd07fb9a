"""`bertline predict` and `bertline tokenize`: what a model says of texts, and the tokens that it sees."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from bertline.pipeline.commands.options.server import Server, server_options
from bertline.pipeline.commands.options.wanted import wanted_options
from bertline.pipeline.core import environment
from bertline.pipeline.core.errors import BertlineError

if TYPE_CHECKING:
    from bertline.pipeline.inference.predictor import Found, Wanted


@click.command()
@click.argument("texts", nargs=-1)
@click.option("--model", help="Folder of a SavedModel. [default: what the last run pushed]")
@click.option("--workspace", default="workspace", show_default=True)
@click.option("--second", multiple=True, metavar="TEXT", help="Second text of a pair; once for each of TEXTS.")
@click.option("--choice", multiple=True, metavar="TEXT", help="One of the endings to choose from, for each of TEXTS.")
@click.option("--pairs", is_flag=True, help="Each of TEXTS, or each line, is two texts with a tab between.")
@click.option("--file", "path", metavar="FILE", help="Predict every line of a JSONL, CSV, TSV or text file (.gz too).")
@click.option("--out", metavar="FILE", help="File for the predictions of --file, in its order; - is the standard output.")
@click.option(
    "--format",
    type=click.Choice(["jsonl", "csv", "tsv", "lines"]),
    help="How --file is written. [default: its ending says it]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@wanted_options
@server_options
def predict(
    texts: tuple[str, ...],
    model: str | None,
    workspace: str,
    second: tuple[str, ...],
    choice: tuple[str, ...],
    pairs: bool,
    path: str | None,
    out: str | None,
    format: str | None,
    as_json: bool,
    wanted: Wanted,
    server: Server | None,
) -> None:
    """Predict with a pushed model. Without TEXTS, each line of the standard input is one.

    With --file, each prediction is one JSON object: the fields of the input line, and the prediction. Texts are found by
    the names of the model's signature (text, text_2, choices), or by their columns in the training files. For classes, a
    prediction is label and score, then classes and probabilities: those of the --top K likeliest, or of all classes.

    \b
    bertline predict "A film to remember."                  what the last run pushed
    bertline predict "A man eats." --second "He is eating."  a model over pairs of texts
    bertline predict "Who ate?" --second "A man ate."        a model of the task answering
    bertline predict --pairs < pairs.tsv                    two texts a line, a tab between
    bertline predict "He" --choice "ran." --choice "rain."   which of the endings it is
    bertline predict --mask "The [MASK] sat on the mat."    a model of the task pretraining
    bertline predict --n-best 3 "The house is small."       a model of the task translation; --align, --sample too
    bertline predict --file in.jsonl --out out.jsonl        a whole file, in large batches
    bertline predict --file in.csv --top 1                  the label with its score, and no other class
    bertline predict --server localhost:8500 "A film."      a model that a server has, by gRPC
    """
    from bertline.pipeline.inference.predictor import answers

    if path is None and (out or format):
        raise BertlineError("--out and --format go with --file.")
    if path is not None and (texts or second or choice or pairs):
        raise BertlineError("--file goes without TEXTS, --second, --choice and --pairs: its columns are the texts.")
    found = _found(model, workspace, server, wanted)
    if found.note:
        click.echo(f"note: {found.note}", err=True)
    if path is not None:
        _predict_file(path, out or "-", found, format)
        return
    rows: list[list[Any]] = [text.split(b"\t") if pairs else [text] for text in _given(texts)]
    if second:
        if pairs or len(second) != len(texts):
            given = f"{len(texts)} of TEXTS and {len(second)} of --second"
            raise BertlineError(f"--second goes with one of TEXTS each, and not with --pairs; there are {given}.")
        rows = [[*row, os.fsencode(text)] for row, text in zip(rows, second, strict=True)]
    keys = [key for key in found.text_keys if key != "choices"]
    # Texts too many get names that no model has, and are told as such.
    named = [dict(zip([*keys, *(f"text {n}" for n in range(len(keys), len(row)))], row, strict=False)) for row in rows]
    choices = {"choices": [os.fsencode(text) for text in choice]} if choice else {}
    for line in answers([{**row, **choices} for row in named], found, as_json=as_json):
        click.echo(line)


def _found(model: str | None, workspace: str, server: Server | None, wanted: Wanted) -> Found:
    if server is None:
        from bertline.pipeline.inference.predictor import find

        environment.prepare(quiet=True)
        return find(model, workspace, wanted)
    from bertline.pipeline.inference.served import find_served

    if model:
        raise BertlineError("--model is a folder here, and goes without --server; --name is the model's name there.")
    return find_served(server, workspace, wanted)


def _predict_file(path: str, out: str, found: Found, format: str | None) -> None:
    from bertline.pipeline.inference.file import answer_file

    try:
        rows = answer_file(path, out, found, format)
    except KeyboardInterrupt:
        kept = "" if out == "-" else f"nothing was written to {out}, and "
        click.echo(f"\ninterrupted; {kept}the same command starts over.", err=True)
        sys.exit(130)
    if out != "-":
        click.echo(f"{rows:,} predictions in {out}", err=True)


@click.command()
@click.argument("texts", nargs=-1)
@click.option(
    "--vocab",
    metavar="FILE|DIR",
    help="A vocab.txt, or a checkpoint's folder or name on a hub. [default: the sample's, bert-base-uncased]",
)
@click.option(
    "--tokenizer-variant",
    "reading",
    type=click.Choice(["original", "huggingface"]),
    help="Which reference tokenizer is matched where they differ.",
)
@click.option("--reading", "old_reading", type=click.Choice(["original", "huggingface"]), hidden=True)
@click.option("--cased/--uncased", default=None, help="Keep case and accents, or not.")
@click.option("--json", "as_json", is_flag=True, help="JSON in a terminal too.")
def tokenize(
    texts: tuple[str, ...],
    vocab: str | None,
    reading: str | None,
    old_reading: str | None,
    cased: bool | None,
    as_json: bool,
) -> None:
    """Show the tokens of texts, as the pipeline and the pushed model see them.

    Without TEXTS, each line of the standard input is one. A terminal shows the tokens coloured by word, above their
    ids; a file or a pipe gets one JSON object a line: tokens, ids, and offsets in characters, text[start:end].

    Options that are not given follow the tokenizer_config.json beside the vocabulary; without one the tokenizer variant is
    original, uncased.

    \b
    bertline tokenize "Who let the dogs out?"
    bertline tokenize --vocab path/to/checkpoint < lines.txt > tokens.jsonl
    """
    from bertline.pipeline.inference.tokenize import shown

    reading = reading or old_reading
    as_json = as_json or not sys.stdout.isatty()
    at_once = not texts and sys.stdin.isatty()
    for line in shown(_given(texts), vocab, reading=reading, cased=cased, as_json=as_json, at_once=at_once):
        click.echo(line)


def _given(texts: tuple[str, ...]) -> Iterator[bytes]:
    """The texts of the command line, or else the lines of the standard input: bytes, for they may be ill-formed."""
    if texts:
        yield from map(os.fsencode, texts)
    else:
        yield from (line.removesuffix(b"\n") for line in sys.stdin.buffer)
