"""`bertline prune`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click

from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.prune.heads import MAX_DROP, MAX_EXAMPLES, PruneReport, Request, find_model, prune_at

REFUSED = 3


@click.command()
@click.argument("model", required=False)
@click.option("--keep", type=float, metavar="FRACTION", help="Fraction of the heads to keep. [default: 0.5]")
@click.option("--heads", type=click.IntRange(1), metavar="N", help="Number of heads to keep, instead of --keep.")
@click.option("--look", is_flag=True, help="Show the importance of the heads, and remove none.")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(["gradient", "ablation"]),
    help="How importance is measured; given twice, both are shown and the first decides. [default: gradient]",
)
@click.option("--metric", metavar="NAME", help="Metric of the ablation and the curve. [default: the task's first]")
@click.option(
    "--data", metavar="FILE", help="Labelled examples to evaluate on. [default: the evaluation examples of the pipeline]"
)
@click.option(
    "--rows", type=click.IntRange(1, 100_000), default=MAX_EXAMPLES, show_default=True, help="Limit of evaluation examples."
)
@click.option("--out", metavar="DIR", help="Folder for the smaller model. [default: one in WORKSPACE/pruned]")
@click.option("--push", is_flag=True, help="Push it as the next version, beside the original.")
@click.option(
    "--max-drop",
    type=click.FloatRange(0),
    default=MAX_DROP,
    show_default=True,
    help="For --push: how much worse the metric may be.",
)
@click.option("--workspace", metavar="DIR", help="[default: the one that MODEL is in, or ./workspace]")
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
def prune(model: str | None, keep: float | None, look: bool, by: tuple[Any, ...], as_json: bool, **others: Any) -> None:
    """Remove the least important attention heads of a pushed model.

    MODEL is the folder of a pushed model, or the name of a pipeline, whose newest version is taken (that of the last run by
    default). It is unchanged: a smaller model is written beside it, with everything that a pushed model has. Sizes, speed
    and every metric of both, on the same examples, are printed, and recorded in MLflow under the model's run.

    The importance of a head is measured on evaluation examples: by the gradient of the loss with respect to a mask over
    the heads (one pass), or by ablation, each head masked alone (one pass a head). Many heads can often be removed at a
    small cost (arXiv 1905.10650): the table of kept heads shows how many. A layer may lose all of its heads.

    \b
    bertline prune --look                         importance of each head of the last run's model
    bertline prune reviews --keep 0.5             half of the heads of the pipeline reviews
    bertline prune reviews --heads 20 --by ablation
    bertline prune workspace/models/reviews/1 --keep 0.4 --out smaller --data test.csv
    bertline prune reviews --keep 0.7 --push      serve it, if accuracy falls by at most 0.01

    Exit code: 0 done, 3 not pushed (the metric drops too far, or ServeCheck refused it), 130 interrupted, 1 anything else.
    """
    if look and (keep is not None or others["heads"] is not None or others["push"]):
        raise BertlineError("--look removes nothing, and goes without --keep, --heads and --push.")
    if keep is not None and others["heads"] is not None:
        raise BertlineError("--keep and --heads exclude each other; give one of them.")
    fraction = None if look or others["heads"] is not None else 0.5 if keep is None else keep
    report = run_prune(Request(model=model, keep=fraction, by=by or ("gradient",), **others), as_json=as_json)
    sys.exit(REFUSED if report.refused else 0)


def run_prune(request: Request, *, as_json: bool = False) -> PruneReport:
    """With a display and a log file around it."""
    place = find_model(request)
    from bertline.pipeline.console.session import stage
    from bertline.pipeline.prune.record import address
    from bertline.pipeline.prune.tables import show

    config = address(place.name, place.workspace)
    with stage(config, as_json=as_json) as at:
        try:
            with at.working():
                report = prune_at(place, request, config)
        except KeyboardInterrupt:
            at.console.print("\ninterrupted; the model is unchanged, and the same command starts over.")
            sys.exit(130)
        report.log = str(at.log)
        if as_json:
            at.print_json(asdict(report))
        else:
            show(at.console, report)
    return report
