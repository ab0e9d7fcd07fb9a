"""`bertline rollback`, `bertline lineage` and `bertline sync`: pushed versions, taken back and told about."""

from __future__ import annotations

import json
from pathlib import Path

import click

from bertline.components.pusher.executor import Pushed
from bertline.pipeline.config import SPOOL
from bertline.pipeline.console import summary
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.storage import AnyPath, at

_SECONDS = 15.0  # for which a store is waited for


def destination_of(name: str | None, workspace: str) -> AnyPath:
    """The folder of a pipeline's versions; that of the last run without a name."""
    last = summary.read(workspace) or {}
    if name in (None, last.get("name")) and last.get("destination"):
        return at(last["destination"])
    name = name or last.get("name")
    if name is None:
        raise BertlineError(f"there was no run in {workspace} yet; run the pipeline first, or name another --workspace.")
    found = Path(workspace) / "models" / name
    if not found.is_dir():
        raise BertlineError(f"{found}: there is no such folder; give the name of a pipeline that has pushed a model.")
    return found


@click.command()
@click.argument("name", required=False)
@click.option("--to", type=click.IntRange(1), metavar="VERSION", help="The version to be served. [default: the one before]")
@click.option("--workspace", default="workspace", show_default=True)
def rollback(name: str | None, to: int | None, workspace: str) -> None:
    """Return to the version before the newest one.

    NAME is a pipeline's (that of the last run by default). The newest version is renamed so that servers ignore it, as
    withdrawn-7; a running server switches back without failing a request. Nothing is deleted, no number is reused, and a
    later run does not push a withdrawn model again. MLflow's alias champion follows.

    \b
    bertline rollback                 the last run's pipeline, one version back
    bertline rollback reviews --to 5  withdraw every version above 5
    bertline rollback --to 7          restore version 7, which was withdrawn
    """
    from bertline.components.pusher.executor import roll_back

    folder = destination_of(name, workspace)
    done = roll_back(folder, to)
    for what, versions in (("withdrawn", done.withdrawn), ("restored", done.restored)):
        if versions:
            click.echo(f"{what}: version {', '.join(map(str, versions))}")
    already = "" if done.withdrawn or done.restored else " already"
    click.echo(f"served{already}: version {done.served.version}  {done.served.path}")
    if not already:
        update_registry(done.served, folder, workspace)


def update_registry(served: Pushed, folder: AnyPath, workspace: str) -> None:
    """Lets MLflow's alias `champion` follow; a store that is down is told later."""
    from bertline.components.tracking.backend.models import champion
    from bertline.components.tracking.backend.store import is_there
    from bertline.components.tracking.sync import note_model, send_all
    from bertline.pipeline.runs.store import store_of

    uri, spool = store_of(workspace), Path(workspace) / SPOOL
    if not is_there(uri):
        return  # nothing here was ever recorded
    name = served.metadata.get("pipeline") or folder.name
    note_model(spool, uri, name, champion(name, served))
    left = send_all(spool, lambda line: None, patience=_SECONDS)
    told = "`bertline sync` sends it later" if left else f"its alias champion is version {served.version} now"
    why = next((f": {one.problem}" for one in left if one.problem), "")
    click.echo(f"MLflow: {told}{why}")


@click.command()
@click.option("--workspace", default="workspace", show_default=True)
def sync(workspace: str) -> None:
    """Send MLflow what could not be sent yet.

    A run continues when its MLflow store is down, slow or full, or refuses. What the store did not accept is kept in the
    workspace, in order; the next run sends it, and so does this command. Nothing is recorded twice. The password or token
    of a store is taken from MLFLOW_TRACKING_PASSWORD or MLFLOW_TRACKING_TOKEN, as for MLflow itself.

    Exit code: 0 everything is sent, or being sent by a run; 1 something is left.
    """
    from bertline.components.tracking.sync import send_all

    left = send_all(Path(workspace) / SPOOL, click.echo)
    under_way = [one for one in left if one.is_under_way and not one.problem]
    for one in under_way:
        click.echo(f"in progress: {one.name}: the run sends it itself")
    stuck = [one for one in left if one not in under_way]
    for one in stuck:
        click.echo(f"not sent: {one.name}: {one.problem or 'another process is sending it'}", err=True)
    if stuck:
        raise BertlineError("MLflow does not have everything yet; repair the store, and run this command again.")
    click.echo("MLflow has everything else." if under_way else "MLflow has everything.")


@click.command()
@click.argument("version", type=click.IntRange(1))
@click.argument("name", required=False)
@click.option("--workspace", default="workspace", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
def lineage(version: int, name: str | None, workspace: str, as_json: bool) -> None:
    """Show what made a version: its task and digest, data, settings, metrics and MLflow run.

    VERSION is the number in a server's responses (version of their model_spec). NAME is a pipeline's (that of
    the last run by default). A version that was withdrawn is found as well.

    \b
    bertline lineage 7               of the last run's pipeline
    bertline lineage 7 reviews --json
    """
    from bertline.pipeline.runs.lineage import find_lineage, told

    found = find_lineage(destination_of(name, workspace), version, workspace)
    click.echo(json.dumps(found, indent=1) if as_json else told(found))
