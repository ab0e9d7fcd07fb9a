"""`bertline prune`: what each head of a pushed model is worth, and a smaller model without those that are worth least.

From Python, in a notebook say:

    report = prune(Request(model="reviews", keep=0.5))
    report.importance["gradient"], report.curve, report.folder
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bertline.components.pusher.executor import publish
from bertline.components.steps import Step
from bertline.pipeline.config import Config
from bertline.pipeline.core import environment, events
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.inference.pushed_model import model_folder
from bertline.pipeline.prune.report import PruneReport, compared
from bertline.pipeline.runs.eval_examples import evaluation_records, records_of_file
from bertline.serving.contract import read_metadata

if TYPE_CHECKING:
    from bertline.components.pruning.heads import PushedHeads

MAX_EXAMPLES = 2000
MAX_DROP = 0.01


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked for."""

    model: str | None = None
    """Folder of a SavedModel, folder of versions, or name of a pipeline; what was pushed last by default."""
    keep: float | None = 0.5
    """Share of the heads that stays; None to look at them only."""
    heads: int | None = None
    """So many stay, in place of a share."""
    by: tuple[Literal["gradient", "ablation"], ...] = ("gradient",)
    """How importance is measured; the first decides."""
    metric: str | None = None
    """What is looked at first; by default the task's own first."""
    data: str | None = None
    """File with rows to judge by; the evaluation examples of the pipeline that made the model by default."""
    rows: int = MAX_EXAMPLES
    """So many of them at most."""
    out: str | None = None
    """Folder for the smaller model, which must not be there yet; by default one in the workspace."""
    push: bool = False
    max_drop: float = MAX_DROP
    """It is not pushed if the metric falls by more."""
    workspace: str | None = None


@dataclass(frozen=True)
class ModelLocation:
    """Where a model is, and the workspace of its pipeline."""

    folder: Path
    metadata: Mapping[str, Any]
    workspace: str

    @property
    def name(self) -> str:
        return str(self.metadata.get("pipeline", "model"))


def find_model(request: Request) -> ModelLocation:
    """Finds the model, and refuses what can be told to be wrong at once."""
    if request.heads is None and request.keep is not None and not 0 < request.keep < 1:
        raise BertlineError(f"--keep: a fraction of the heads, above 0 and below 1. Received: {request.keep:g}")
    if request.out and Path(request.out).exists():
        raise BertlineError(f"{request.out} already exists; name another folder by --out, or remove it first.")
    workspace = request.workspace or "workspace"
    folder = model_folder(request.model, workspace)
    if request.push and not folder.name.isdigit():
        raise BertlineError(f"--push: {folder} is not a numbered version, so there is no next version.")
    metadata = read_metadata(folder)
    home = folder.absolute().parent.parent.parent  # of workspace/models/NAME/VERSION
    if request.workspace is None and (home / "pipelines" / str(metadata.get("pipeline"))).is_dir():
        workspace = str(home)
    return ModelLocation(folder, metadata, str(Path(workspace).absolute()))


def prune(request: Request) -> PruneReport:
    """Measures the heads of a pushed model and, unless they are only looked at, writes it without some of them."""
    from bertline.pipeline.prune.record import address

    place = find_model(request)
    return prune_at(place, request, address(place.name, place.workspace))


def prune_at(place: ModelLocation, request: Request, config: Config) -> PruneReport:
    """The same for a model that is found.

    Args:
      config: says where it is recorded.
    """
    environment.prepare()
    from bertline.components.pruning.heads import PushedHeads, check_prunable, line_digest
    from bertline.pipeline.prune.record import recorded

    began = time.perf_counter()
    check_prunable(place.folder)
    digest = line_digest(place.folder)
    with events.step("Rebuild"):
        if request.data:
            records = records_of_file(request.data, place.metadata, request.rows)
        else:
            records = evaluation_records(place.metadata, digest, place.workspace, request.rows)
        heads = PushedHeads(place.folder, records)
    metric = heads.metric(request.metric)
    report = PruneReport(
        name=place.name,
        task=heads.task.name,
        model=str(place.folder),
        digest=digest,
        metric=metric,
        better=heads.task.evaluation.metrics[metric].better,
        rows=len(records),
        heads_before=heads.count,
    )
    told = {name: value for name, value in asdict(request).items() if value is not None} | {"by": ", ".join(request.by)}
    with recorded(config, place.metadata, report, told) as tracker:
        lost = _look(heads, request, report)
        if lost:
            out = _export(heads, lost, request, place, report)
            _compare(heads, out, records, report)
            if request.push:
                _push(out, request, report, place, tracker)
    report.seconds = round(time.perf_counter() - began, 1)
    return report


def _look(heads: PushedHeads, request: Request, report: PruneReport) -> Mapping[int, Sequence[int]] | None:
    """What each head is worth, and which are to go."""
    found = {}
    for by in dict.fromkeys(request.by):
        with events.step(by.capitalize()):
            found[by] = heads.importance(by, report.metric, events.progress)
        report.importance[by] = [[_known(value) for value in row] for row in found[by]]
    deciding = found[request.by[0]]
    with events.step("Curve"):
        points = heads.curve(deciding, report.metric, progress=events.progress)
    report.curve = [{**point._asdict(), "value": _known(point.value)} for point in points]
    if request.heads is not None:
        return heads.least_important(deciding, request.heads)
    if request.keep is not None:
        return heads.least_important(deciding, min(heads.count - 1, max(1, round(request.keep * heads.count))))
    return None


def _known(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _export(
    heads: PushedHeads, lost: Mapping[int, Sequence[int]], request: Request, place: ModelLocation, report: PruneReport
) -> Path:
    report.lost = {str(layer): list(some) for layer, some in lost.items()}
    report.heads_after = heads.count - sum(len(some) for some in lost.values())
    version = place.metadata.get("version", report.digest[:8])
    name = f"{place.name}-{version}-{report.heads_after}-of-{report.heads_before}-heads"
    with events.step("Export"):
        out = heads.export(lost, request.out or Path(place.workspace) / "pruned" / name)
    report.folder = str(out)
    return out


def _compare(heads: PushedHeads, out: Path, records: Sequence[bytes], report: PruneReport) -> None:
    from bertline.components.pruning.side_by_side import side_by_side

    with events.step("Evaluate"):
        both = side_by_side(heads.folder, out, heads.task, heads.context.labels, records, progress=events.progress)
    report.compared = compared(both)


def _push(out: Path, request: Request, report: PruneReport, place: ModelLocation, tracker: Any) -> None:
    """Pushes it as the next version, if it is not much worse and a server answers as it does."""
    from bertline.components.serve_check.executor import serve_check
    from bertline.components.tracking.backend.models import champion

    if not report.keeps_within(request.max_drop):
        measured = report.compared["metrics"][report.metric]
        worse = f"{report.metric} {measured['pruned']:.4f} is worse than {measured['original']:.4f} by more than"
        report.refused.append(f"{worse} {request.max_drop:g} (--max-drop)")
        return
    with events.step(Step.SERVE_CHECK):
        report.refused += serve_check(out, name=place.name, max_ms=math.inf).reasons
    if report.refused:
        return
    run = tracker.mlflow_run_id
    pushed = publish(out, place.folder.absolute().parent, {**read_metadata(out), **({"mlflow_run_id": run} if run else {})})
    if pushed.withdrawn:
        report.refused.append(f"this model is version {pushed.version}, which was withdrawn")
        return
    report.pushed_version, report.pushed_path = pushed.version, str(pushed.path)
    tracker.register(lambda: champion(place.name, pushed))
