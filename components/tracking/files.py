"""Which files of a run's steps are kept with its record, and what is drawn from them, as plots and as pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bertline.components.step_files import HISTORY, SERVE_CHECK
from bertline.components.steps import Step
from bertline.pipeline.config import Config

_VERDICT, _ROWS = "verdict.json", "evaluation/rows.parquet"
_MAX_BYTES = 200 << 20


class Kept(NamedTuple):
    output: str
    """The artifact's name among the step's outputs."""
    pattern: str
    name: str
    """In MLflow; `{folder}` is that of the file."""
    plots: tuple[str, ...] = ()
    has_texts: bool = False
    """Whether it holds texts of the user's."""


_OF_STEP: Mapping[str, tuple[Kept, ...]] = {
    Step.INGEST: (
        Kept("report", "report.json", "data/report.json"),
        Kept("report", "quarantine.jsonl", "data/quarantine.jsonl", has_texts=True),
    ),
    # The most frequent texts are among them.
    Step.STATISTICS: (Kept("statistics", "*/FeatureStats.pb", "data/statistics/{folder}.pb", has_texts=True),),
    Step.SCHEMA: (Kept("schema", "schema.pbtxt", "data/schema.pbtxt"),),
    Step.VALIDATION: (
        Kept("anomalies", "report.json", "data/anomalies.json"),
        Kept("anomalies", "report.txt", "data/anomalies.txt"),
    ),
    Step.VOCABULARY: (Kept("vocabulary", "vocab.txt", "vocab.txt"),),
    Step.TRAINER: (Kept("model_run", HISTORY, f"training/{HISTORY}", ("learning_curves",)),),
    Step.EVALUATOR: (
        Kept("evaluation", "verdict.json", _VERDICT, ("confusion_matrix",)),
        Kept("evaluation", "rows.parquet", _ROWS, ("rows",), has_texts=True),
    ),
    Step.SERVE_CHECK: (Kept("served", SERVE_CHECK, SERVE_CHECK),),
    "Prune": (Kept("report", "prune.json", "prune.json", ("heads",)),),
}


def files_of(step: str, outputs: Mapping[str, str], *, texts: bool) -> Iterator[tuple[Path, str, tuple[str, ...]]]:
    """Path, name in MLflow, and the kinds of plots, of each file that is there and says something.

    Args:
      outputs: the folder of each of the step's artifacts.
      texts: whether files that hold texts of the user's are among them.
    """
    for kept in (kept for kept in _OF_STEP.get(step, ()) if texts or not kept.has_texts):
        for path in sorted(Path(outputs[kept.output]).glob(kept.pattern)) if kept.output in outputs else ():
            if 0 < path.stat().st_size <= _MAX_BYTES:
                yield path, kept.name.format(folder=path.parent.name.removeprefix("Split-")), kept.plots


def draw(kind: str, path: Path) -> dict[str, Any]:
    """Plots (matplotlib's figures) and texts by their names in MLflow."""
    return _DRAWN[kind](path)


PAGE_TITLE = "evaluation"
"""What the page of a run is about, in a word."""


def load_plotting() -> None:
    """Imports what draws: matplotlib takes as long as a plot."""
    import bertline.components.evaluator.predictions.plots
    import bertline.components.reports.plots
    import bertline.components.reports.results_page  # noqa: F401


def page_of(step: str, config: Config) -> dict[str, Any] | None:
    """What `make_page` is to be told beside the files of a step; None where a step has no page."""
    if step != Step.EVALUATOR:
        return None
    asked = config.evaluation.model_dump(include={"thresholds", "slice_thresholds", "min_slice_examples"})
    return {"pipeline": config.name, "bounds": asked}


def make_page(paths: Mapping[str, Path], told: Mapping[str, Any]) -> dict[str, str]:
    """The page of an evaluation, under its name in MLflow.

    Args:
      paths: of the step's files, by their names in MLflow.
      told: what `page_of` gave.
    """
    from bertline.components.evaluator.predictions.rows import EvaluationPredictions
    from bertline.components.evaluator.verdict import Verdict
    from bertline.components.reports.results import PAGE, Bounds, results_of
    from bertline.components.reports.results_page import results_page

    rows = EvaluationPredictions.read(paths[_ROWS]) if _ROWS in paths else None
    results = results_of(Verdict.from_json(paths[_VERDICT].read_text()), rows, Bounds(**told["bounds"]))
    return {PAGE: results_page(results, told["pipeline"]).html}


def _learning_curves(path: Path) -> dict[str, Any]:
    from bertline.components.reports.plots import learning_curves

    return {"learning_curves.png": learning_curves([json.loads(line) for line in path.read_text().splitlines()])}


def _confusion_matrix(path: Path) -> dict[str, Any]:
    from bertline.components.evaluator.verdict import Verdict
    from bertline.components.reports.plots import confusion_matrix

    verdict = Verdict.from_json(path.read_text())
    return {"confusion_matrix.png": confusion_matrix(verdict)} if verdict.confusion else {}


def _rows(path: Path) -> dict[str, Any]:
    from bertline.components.evaluator.predictions.error_records import error_json
    from bertline.components.evaluator.predictions.plots import draw_plots
    from bertline.components.evaluator.predictions.rows import EvaluationPredictions

    rows = EvaluationPredictions.read(path)
    return {**draw_plots(rows), "evaluation/worst.json": error_json(rows)}


def _heads(path: Path) -> dict[str, Any]:
    from bertline.components.pruning.plots import draw_plots

    return draw_plots(json.loads(path.read_text()))


_DRAWN: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    "learning_curves": _learning_curves,
    "confusion_matrix": _confusion_matrix,
    "rows": _rows,
    "heads": _heads,
}
