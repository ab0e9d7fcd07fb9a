"""What of a run's tags, params and metrics a report tells: the run itself, its model, its cost, where all came from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from bertline.models.kinds import without_encoder
from bertline.pipeline.config import without_password
from bertline.pipeline.runs.lineage import SHOWN_PARAMS
from bertline.pipeline.runs.report.values import Cost, Head, Lineage, Model, Step, Version
from bertline.pipeline.runs.store import Run, RunStore

_SECONDS = ("step/", "/seconds")
_NO_SETTINGS = ("version.", "machine.")
_OF_DATA = ("data.path", "data.train", "data.eval", "data.test", "model.checkpoint", "model.size")  # told elsewhere
Note = Callable[[str], None]


def head_of(run: Run) -> Head:
    refused = run.blessed is False and run.tags.get("reasons", "none") != "none"
    return Head(
        run_id=run.run_id,
        name=run.name,
        pipeline=run.pipeline,
        task=run.task,
        status=run.status,
        started=run.started,
        seconds=run.seconds,
        blessed=run.blessed,
        reasons=tuple(run.tags["reasons"].split("; ")) if refused else (),
        error=run.tags.get("error"),
        failed_step=run.tags.get("failed_step"),
        pushed_version=run.pushed_version,
        parent=run.parent,
    )


def model_of(run: Run, size: Mapping[str, Any] | None, note: Note) -> Model:
    """Args: size: what the run has recorded as model.json."""
    params = run.params
    if size is None:
        note("Its number of parameters and its size are not recorded.")
    size = size or {}
    return Model(
        task=run.task,
        start=_start(run),
        instead=_instead(run),
        sizes=size.get("sizes") or {},
        parameters=size.get("parameters"),
        bytes=size.get("bytes"),
        settings={
            name: params[name] for name in SHOWN_PARAMS if name not in _OF_DATA and params.get(name, "None") != "None"
        },
    )


def _instead(run: Run) -> str:
    name = without_encoder(run.tags.get("model_kind"), run.task)
    return f"{name}, no encoder: {run.tags.get('model_kind_why', '')}" if name else ""


def _start(run: Run) -> str:
    checkpoint = run.params.get("model.checkpoint", "None")
    if checkpoint != "None":
        return f"the checkpoint {checkpoint}"
    size = run.params.get("model.size")
    return f"from scratch, size {size}" if size else "not recorded"


def cost_of(run: Run, subject: Run, served: dict[str, Any] | None, store: RunStore, note: Note) -> Cost:
    """Args:
    run: whose time it is.
    subject: whose steps are told: the best run of a study, or the run itself.
    """
    begin, end = _SECONDS
    names = [key[len(begin) : -len(end)] for key in subject.metrics if key.startswith(begin) and key.endswith(end)]
    steps = sorted((_step(subject, name) for name in names), key=lambda step: step.execution or 0)
    if not steps:
        note("The duration of its steps is not recorded.")
    memory = [value for *_, value in _history(store, subject, "system/process_memory_megabytes")]
    speed = [value for *_, value in _history(store, subject, "train/tokens_per_second") if math.isfinite(value)]
    if served is None or served.get("skipped"):
        note("ServeCheck did not run, so its latency is unknown.")
        served = None
    machine = {key.removeprefix("machine."): value for key, value in subject.params.items() if key.startswith("machine.")}
    return Cost(
        seconds=run.seconds,
        steps=tuple(steps),
        machine=machine,
        peak_megabytes=max(memory, default=None),
        tokens_per_second=sum(speed) / len(speed) if speed and not subject.was_cached else None,
        served=served,
    )


def _history(store: RunStore, run: Run, metric: str) -> list[tuple[int, float, float]]:
    return store.curve(run.run_id, metric) if metric in run.metrics else []


def _step(run: Run, name: str) -> Step:
    execution = run.tags.get(f"mlmd.execution.{name}", "")
    prefix = f"mlmd.artifact.{name}."
    return Step(
        name=name,
        seconds=run.metrics[f"step/{name}/seconds"],
        cached=run.tags.get(f"step.{name}") == "cached",
        execution=int(execution) if execution.isdecimal() else None,
        artifacts={
            key.removeprefix(prefix): int(value)
            for key, value in run.tags.items()
            if key.startswith(prefix) and value.isdecimal()
        },
    )


def lineage_of(store: RunStore, run: Run) -> Lineage:
    tags = run.tags
    digest = tags.get("pushed_digest", "none")
    return Lineage(
        store=without_password(store.uri),
        line_run_id=tags.get("line_run_id"),
        commit=tags.get("git.commit"),
        is_dirty=tags.get("git.dirty") == "true",
        encoder_run=tags.get("encoder_run"),
        pushed_path=None if tags.get("pushed_path", "none") == "none" else tags["pushed_path"],
        pushed_digest=None if digest == "none" else digest,
        registered=tuple(
            Version(name=found.name, version=found.version, aliases=found.aliases)
            for found in store.registered(run.run_id, None if digest == "none" else digest)
        ),
        versions={key.removeprefix("version."): value for key, value in run.params.items() if key.startswith("version.")},
        settings={key: value for key, value in sorted(run.params.items()) if not key.startswith(_NO_SETTINGS)},
        pages={key.removeprefix("page."): value for key, value in tags.items() if key.startswith("page.")},
    )
