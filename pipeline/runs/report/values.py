"""What a report holds, section by section. What is not known is None or empty, and `Report.notes` says why."""

from __future__ import annotations

from typing import Any, Literal

from bertline.components.reports.data import Data
from bertline.components.reports.results import Results
from bertline.pipeline.config import Frozen

Section = Literal["run", "data", "model", "results", "curves", "cost", "lineage"]


class Head(Frozen):
    """Which run it is, and what became of it."""

    run_id: str
    name: str
    pipeline: str
    task: str
    status: str
    started: float | None
    """Seconds since 1970."""
    seconds: float | None
    blessed: bool | None
    reasons: tuple[str, ...] = ()
    """Why the model was refused."""
    error: str | None = None
    """Why the run failed."""
    failed_step: str | None = None
    pushed_version: str | None = None
    parent: str | None = None
    """The run of a study that it stands under."""


class Part(Frozen):
    """One run of a study."""

    run_id: str
    title: str
    settings: dict[str, str] = {}
    """What it was given, in a search."""
    status: str
    scores: dict[str, float | None]
    blessed: bool | None
    collapsed: str | None = None
    """Why it counts as a training that learned nothing."""
    pushed_version: str | None = None
    seconds: float | None = None
    error: str | None = None


class Study(Frozen):
    """Several runs of one line: seeds, or the trials of a search."""

    kind: str
    parts: tuple[Part, ...]
    best: str | None
    """The id of the run that the rest of the report is about."""
    mean: dict[str, float | None] = {}
    deviation: dict[str, float | None] = {}
    mean_of_sound: dict[str, float | None] = {}
    """Without those that collapsed, where some have."""
    deviation_of_sound: dict[str, float | None] = {}


class Model(Frozen):
    task: str
    start: str
    """What the training began with, in words."""
    instead: str = ""
    """What the model is that has no encoder, and why."""
    sizes: dict[str, Any] = {}
    parameters: int | None = None
    bytes: int | None = None
    """Of the exported model."""
    settings: dict[str, str] = {}
    """Those that are asked for first."""


class Change(Frozen):
    """Of a metric against the model that was pushed before, on the evaluation examples of both."""

    difference: float | None
    low: float | None
    high: float | None
    verdict: Literal["better", "worse", ""]
    """Nothing where the interval holds 0."""


class Against(Frozen):
    """The model that was pushed before."""

    path: str
    run_id: str | None = None
    """That has trained it; None where the record has no such run."""
    rows: int = 0
    """Evaluation examples that both have answered."""
    changes: dict[str, Change] = {}


class Drawn(Frozen):
    """A run whose learning curves are drawn."""

    run_id: str
    name: str
    cached: bool


class Step(Frozen):
    name: str
    seconds: float
    cached: bool
    execution: int | None = None
    """Its number in ML Metadata."""
    artifacts: dict[str, int] = {}


class Cost(Frozen):
    seconds: float | None = None
    steps: tuple[Step, ...] = ()
    machine: dict[str, str] = {}
    peak_megabytes: float | None = None
    """The most memory that the process of the pipeline was seen to have."""
    tokens_per_second: float | None = None
    """The mean over the training."""
    served: dict[str, Any] | None = None
    """What ServeCheck saw."""


class Version(Frozen):
    """In MLflow's registry."""

    name: str
    version: str
    aliases: tuple[str, ...] = ()


class Lineage(Frozen):
    store: str
    line_run_id: str | None = None
    """TFX's name of the run."""
    commit: str | None = None
    is_dirty: bool = False
    """Whether the code differed from its commit."""
    encoder_run: str | None = None
    pushed_path: str | None = None
    pushed_digest: str | None = None
    registered: tuple[Version, ...] = ()
    versions: dict[str, str] = {}
    """Of the libraries."""
    settings: dict[str, str] = {}
    """All of them."""
    pages: dict[str, str] = {}
    """Pages that were recorded with the run: what they are about -> their names."""


class Report(Frozen):
    head: Head
    study: Study | None = None
    data: Data | None = None
    model: Model
    results: Results | None = None
    against: Against | None = None
    drawn: tuple[Drawn, ...] = ()
    curves: dict[str, tuple[tuple[tuple[float, float, float], ...], ...]] = {}
    """Metric -> step, seconds and value, of each run in `drawn`."""
    cost: Cost
    lineage: Lineage
    notes: dict[Section, tuple[str, ...]] = {}
    """What a section lacks, and why, in sentences."""

    def to_json(self) -> str:
        return self.model_dump_json(indent=1)
