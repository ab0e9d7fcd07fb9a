"""Tasks, readers and metrics of other packages."""

import sys

import foreign
import numpy as np
import pytest
from pydantic import ValidationError

from bertline.components.ingest.files import InputFile
from bertline.components.ingest.readers.registry import read
from bertline.models.decisions.decision import LIKELIEST
from bertline.models.metrics.accumulators import families, family_of
from bertline.models.responses.types import CLASSIFIED
from bertline.models.tasks.base.task import get_task, kind_for
from bertline.pipeline.config import Config, DataConfig, task_names
from bertline.pipeline.core import plugins
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.orchestration.fingerprints import added_to, code_fingerprint


@pytest.fixture
def installed(tmp_path, monkeypatch):
    def install(**given):
        monkeypatch.syspath_prepend(str(foreign.install(tmp_path / given.get("package", "quantities"), **given)))

    yield install
    sys.modules.pop("quantities", None)


def config(**given):
    raw = {
        "name": "x", "task": "quantity", "data": {"path": "a.csv", "label": "amount"},
        "evaluation": {"thresholds": {"pearson": 0.1}}, **given,
    }  # fmt: skip
    return Config.model_validate(raw)


def test_a_registered_task_may_be_named_and_is_imported_only_then(installed):
    installed()
    assert "quantity" in task_names() and "quantities" not in sys.modules
    assert config().task == "quantity" and "quantities" not in sys.modules
    assert get_task("quantity").preprocessing.label == "number" and kind_for("quantity").call == "quantity"
    assert kind_for("classification") is CLASSIFIED


def test_a_misspelt_task_is_told_the_nearest_of_all_that_there_are(installed):
    installed()
    with pytest.raises(ValidationError, match="there is no task 'quantiti'; did you mean quantity"):
        config(task="quantiti")


def test_a_registered_reader_reads_its_format(installed, tmp_path):
    installed()
    path = tmp_path / "a.arrows"
    path.write_text("three cats -> 3\nno arrow here\n")
    data = DataConfig(path=str(path), format="arrows", label="amount")
    good, bad = read(InputFile(str(path), "arrows", None), data)
    assert good.values == {"text": "three cats", "amount": "3"} and bad.line == 2
    with pytest.raises(ValidationError, match="there is no format 'arows'; did you mean arrows"):
        DataConfig(path=str(path), format="arows")


def test_a_registered_metric_is_of_every_task_that_has_one_of_its_family(installed):
    installed()
    for name in ("quantity", "regression", "similarity"):
        metric = get_task(name).evaluation.metrics["mean_error"]
        assert metric.better == "lower" and family_of(metric.tfma) == "values"
    assert "mean_error" not in get_task("classification").evaluation.metrics
    score = families(LIKELIEST)["values"].scores["mean_error"]
    assert score((np.asarray([1.0, 2.0]), np.zeros(2))) == 1.5


def test_what_is_broken_or_taken_twice_is_told_with_its_package(installed):
    installed(points="[bertline.tasks]\nlost = nowhere:TASK\nother = quantities:ARROWS\nchoice = quantities:TASK\n")
    with pytest.raises(BertlineError, match="task 'lost' of the package quantities 1.2 cannot be loaded from nowhere:TASK"):
        get_task("lost")
    with pytest.raises(BertlineError, match="quantities:ARROWS is no Task but a Reader"):
        get_task("other")
    with pytest.raises(BertlineError, match="registered more than once, by Bertline itself and by quantities 1.2"):
        get_task("choice")
    installed(package="copies", version="3", points="[bertline.tasks]\nlost = elsewhere:TASK\n")
    with pytest.raises(BertlineError, match="by copies 3 and by quantities 1.2"):
        get_task("lost")


def test_a_step_is_known_by_the_code_that_a_package_adds_to_it(installed, tmp_path):
    installed()
    given = config(data={"path": "a.x", "format": "arrows", "label": "amount"})
    task, reader = added_to(given, plugins.TASKS), added_to(given, plugins.READERS)
    before = code_fingerprint("bertline.components.transform.component", added=task)
    assert "quantities 1.2: quantities.py" in before and "models/heads/pooled.py" in before
    assert "quantities 1.2" in code_fingerprint("bertline.components.ingest.component", added=reader)
    assert [point.name for point in added_to(config(task="regression"), plugins.TASKS, plugins.METRICS)] == ["mean_error"]
    path = tmp_path / "quantities" / "quantities.py"
    path.write_text(path.read_text() + "\nSIZE = 1\n")
    assert code_fingerprint("bertline.components.transform.component", added=task) != before
