"""What `bertline new` writes can be run as it is: the line takes it, for every kind of data."""

import os

import new_files
import pytest

from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new import write_config
from bertline.pipeline.orchestration.builder import create_pipeline
from bertline.pipeline.settings.loader import load


@pytest.mark.parametrize("kind", list(new_files.KINDS))
def test_the_pipeline_takes_the_config_of_every_kind(tmp_path, kind):
    make, task = new_files.KINDS[kind]
    out = str(tmp_path / "configs" / "out.yaml")
    write_config(make(tmp_path), out)
    config = load(out, workspace=str(tmp_path / "workspace"))
    assert config.task == task
    assert [step.id for step in create_pipeline(config).components][-1] == "Pusher"


@pytest.mark.parametrize("kind, task", [("numbers", "similarity"), ("pairs", "matching"), ("numbers", "classification")])
def test_the_pipeline_takes_the_config_of_a_task_that_was_asked_for(tmp_path, kind, task):
    out = str(tmp_path / "out.yaml")
    write_config(new_files.KINDS[kind][0](tmp_path), out, task=task)
    config = load(out, workspace=str(tmp_path / "workspace"))
    assert config.task == task and create_pipeline(config)


def test_how_long_texts_are_read_reaches_the_steps_that_it_changes_and_is_refused_before_any_runs(tmp_path):
    def told(kind, **text):
        out = str(tmp_path / f"{kind}.yaml")
        if not os.path.exists(out):
            write_config(new_files.KINDS[kind][0](tmp_path), out)
        config = load(out, workspace=str(tmp_path / "workspace"))
        config = config.model_copy(update={"text": config.text.model_copy(update=text)})
        return {step.id: str(step.exec_properties) for step in create_pipeline(config).components}

    before = told("several")
    for text in ({"long": "head_tail"}, {"max_windows": 3}):
        after = told("several", **text)
        assert {name for name in before if before[name] != after[name]} == {"Transform", "Trainer"}
    with pytest.raises(BertlineError, match="windows are of one text, and an example has 2"):
        told("pairs", long="windows")
