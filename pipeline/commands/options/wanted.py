"""The options that say what is wanted of a model, as one value. It imports nothing that `--help` would wait for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from bertline.pipeline.core.errors import BertlineError

if TYPE_CHECKING:
    from bertline.pipeline.inference.predictor import Wanted


class Top(click.ParamType):
    """A number of classes, or all of them."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> int:
        from bertline.models.responses.likeliest import ALL

        if value == "all":
            return ALL
        return click.IntRange(min=1).convert(value, param, context)


_OPTIONS = (
    click.option("--mask", is_flag=True, help="Fill each [MASK] of the texts, by a pre-trained model."),
    click.option("--embed", is_flag=True, help="The vector of each text, by a model of the task matching or similarity."),
    click.option(
        "--n-best",
        type=click.IntRange(min=1),
        metavar="N",
        help="The N best translations of each text; the model has as many as translation.n_best of its config.",
    ),
    click.option("--align", is_flag=True, help="The source token that each token of a translation attends to most."),
    click.option("--sample", is_flag=True, help="Sample each translation, instead of the best one."),
    click.option("--temperature", type=float, metavar="T", help="For --sample: below 1, likelier tokens. [default: 1]"),
    click.option("--top-k", type=int, metavar="K", help="For --sample: only the K likeliest tokens. [default: 0, all]"),
    click.option(
        "--top-p", type=float, metavar="P", help="For --sample: only tokens within the top probability mass P. [default: 1]"
    ),
    click.option(
        "--seed", type=int, metavar="N", help="For --sample: seed, for the same samples each time. [default: random]"
    ),
)
_TOP = click.option(
    "--top",
    type=Top(),
    metavar="K|all",
    default="5",
    show_default=True,
    help="For classes: how many of the likeliest are returned with their probabilities.",
)
_WAYS = ("mask", "embed", "n_best", "align", "sample")
_OF_SAMPLE = ("temperature", "top_k", "top_p", "seed")


def wanted_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command these options, and its function a `wanted`: a `bertline.pipeline.inference.predictor.Wanted`."""

    @functools.wraps(command)
    def called(**given: Any) -> Any:
        ways = [name for name in _WAYS if given[name]]
        numbers = {name: given[name] for name in _OF_SAMPLE if given[name] is not None}
        limit = given["n_best"]
        rest = {name: value for name, value in given.items() if name not in (*_WAYS, *_OF_SAMPLE, "top")}
        if len(ways) > 1:
            raise BertlineError(f"{' and '.join(map(_option, ways))} exclude each other; give one of them.")
        if numbers and ways != ["sample"]:
            raise BertlineError(f"{_option(next(iter(numbers)))} goes with --sample.")
        wanted = replace(_wanted(ways[0] if ways else "", limit, numbers), top=given["top"])
        return command(wanted=wanted, **rest)

    for option in (_TOP, *reversed(_OPTIONS)):
        called = option(called)
    return called


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _wanted(way: str, limit: int | None, numbers: Mapping[str, Any]) -> Wanted:
    from bertline.models.responses.translation import ALIGN, SAMPLE, Sampling
    from bertline.models.responses.types import EMBED
    from bertline.pipeline.inference.predictor import Wanted

    if way == "sample":
        try:
            return Wanted(signature=SAMPLE, sample=Sampling(**numbers))
        except ValueError as error:
            raise BertlineError(f"--sample: {error}") from None
    return {
        "mask": Wanted(task="pretraining"),
        "embed": Wanted(signature=EMBED),
        "n_best": Wanted(task="translation", n_best=limit),
        "align": Wanted(signature=ALIGN),
    }.get(way, Wanted())
