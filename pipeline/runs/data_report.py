"""The page of a run's data: written as soon as the data steps are done, before anything is trained."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

from bertline.components.reports.data import PAGE, VALUES, look
from bertline.components.reports.data_page import data_page
from bertline.components.steps import Step
from bertline.components.tracking.tracker import Tracker
from bertline.pipeline.config import Config
from bertline.pipeline.core.paths import from_here

FILE_NAME = "data.html"
_JUDGE = Step.VALIDATION
_STEPS = (Step.INGEST, Step.STATISTICS, _JUDGE)


class DataReport:
    """Remembers what the data steps have left behind, and makes the page of it.

    A page that cannot be made never fails a run: it is only looked at.

    Args:
      say: is told in a sentence where the page is.
    """

    def __init__(self, config: Config, say: Callable[[str], None]) -> None:
        self._config, self._say = config, say
        self._folders: dict[str, Path] = {}

    def learn_from(self, step: str, outputs: Mapping[str, str], tracker: Tracker) -> None:
        """Args: outputs: the folder of each artifact of the step."""
        if step in _STEPS:
            self._folders |= {name: Path(folder) for name, folder in outputs.items()}
        if step == _JUDGE:
            self._make(tracker, None)

    def refused(self, judgement: Mapping[str, Any], tracker: Tracker) -> None:
        """The data gate has stopped the pipeline, and left nothing but its reasons."""
        self._make(tracker, judgement)

    def _make(self, tracker: Tracker, judgement: Mapping[str, Any] | None) -> None:
        try:
            path = self._written(tracker, judgement)
        except Exception:
            logging.exception("the page of the data")
        else:
            self._say(f"data report (examples, labels, lengths, anomalies): {from_here(path)}")

    def _written(self, tracker: Tracker, judgement: Mapping[str, Any] | None) -> Path:
        config = self._config
        texts = config.tracking.texts
        statistics = {
            path.parent.name.removeprefix("Split-"): DatasetFeatureStatisticsList.FromString(path.read_bytes())
            for path in sorted(self._folders["statistics"].glob("Split-*/FeatureStats.pb"), reverse=True)  # train first
        }
        report = json.loads((self._folders["report"] / "report.json").read_text())
        if judgement is None:
            judgement = json.loads((self._folders["anomalies"] / "report.json").read_text())
        data = look(report, statistics, judgement, slices=config.evaluation.slices, texts=texts)
        page = data_page(data, config.name)
        path = config.home / FILE_NAME
        page.write(path)
        tracker.keep(VALUES, data.model_dump_json(indent=1))
        tracker.keep_page(PAGE, "data", page.html)
        return path
