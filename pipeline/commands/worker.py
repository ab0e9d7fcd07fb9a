"""`bertline worker`: one more process for the Trainer of a pipeline that runs elsewhere."""

from __future__ import annotations

import os

import click

from bertline.pipeline.core import events
from bertline.pipeline.core.errors import BertlineError


@click.command()
@click.argument("config")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="The same as the chief's.")
@click.option("--workspace", help="The chief's workspace, on a shared file system. [default: that of the config]")
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to wait for the training to start. [default: no limit]",
)
def worker(config: str, overrides: tuple[str, ...], workspace: str | None, wait: float | None) -> None:
    """Train together with `bertline run`, as the process that TF_CONFIG names.

    The chief, the first of the cluster, runs the whole pipeline; in the Trainer, all processes compute each step together.
    If a worker is lost, the others wait: start it again, and training resumes from the last checkpoint.

    \b
    export TF_CONFIG='{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}'
    bertline run my.yaml --workspace /shared/work        on the machine a
    bertline worker my.yaml --workspace /shared/work     on the machine b, with "index": 1
    """
    from bertline.pipeline.core.environment import prepare
    from bertline.pipeline.settings.loader import load

    loaded = load(config, list(overrides), workspace=workspace)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # TensorFlow warns at the end of every epoch of such a training
    prepare()
    from bertline.components.trainer.cluster import JOB, work
    from bertline.models.training.cluster import VARIABLE, Cluster

    cluster = Cluster.from_environment()
    if cluster is None or cluster.is_chief:
        who = "names no other processes" if cluster is None else "makes this process the chief"
        raise BertlineError(f"{VARIABLE} {who}; the chief runs `bertline run`. See `bertline worker --help`.")
    click.echo(f"worker {cluster.index} of {len(cluster)} processes; waiting for {cluster.addresses[0]} …", err=True)

    def hear(event: events.Event) -> None:
        if isinstance(event, events.Note):
            click.echo(event.text, err=True)

    work(loaded.home / "checkpoints" / JOB, hear, wait)
    click.echo("the training is done", err=True)
