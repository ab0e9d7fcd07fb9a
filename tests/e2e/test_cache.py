"""An unchanged step is not run again; a changed one is, with all that follows from it, and says why."""

import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import asdict

import pytest
import yaml
from lines import Line, make_rows, write_config, write_csv
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd

import bertline
from bertline.components.steps import Step
from bertline.pipeline.core.errors import BertlineError


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    """A copy of the finished line would have other paths; so another one, run once."""
    line = Line(tmp_path_factory.mktemp("cache"))
    assert line.run().exit_code == 0
    return line


def metadata_of(line):
    config = mlmd.ConnectionConfig()
    config.sqlite.filename_uri = str(line.workspace / "pipelines" / "tiny" / "metadata.db")
    return metadata_store.MetadataStore(config)


def executions(line):
    """State -> how many executions ML Metadata holds."""
    found = metadata_of(line).get_executions()
    return Counter(mlmd.Execution.State.Name(execution.last_known_state) for execution in found)


def described(store, execution):
    """All that ML Metadata says of an execution, without numbers and times."""
    links = [
        (link.type, link.artifact_id, *(str(step) for step in link.path.steps))
        for link in store.get_events_by_execution_ids([execution.id])
    ]
    contexts = [
        (context.type, "" if context.type == "pipeline_run" else context.name, str(sorted(context.properties)))
        for context in store.get_contexts_by_execution(execution.id)
    ]
    values = {key: str(value) for key, value in execution.custom_properties.items() if not key.startswith("__")}
    return execution.type, execution.last_known_state, values, sorted(links), sorted(contexts)


def versions(line):
    return sorted(path.name for path in (line.workspace / "models" / "tiny").iterdir() if path.name.isdigit())


def reasons(line, step):
    return next(s["reasons"] for s in line.summary["steps"] if s["name"] == step)


def test_three_runs(line):
    """One after the other: unchanged, one setting changed, unchanged again."""
    assert executions(line) == {"COMPLETE": 10}
    again = line.run()
    assert again.exit_code == 0 and line.steps_run() == [] and again.output.count("cached: nothing") == 10
    assert executions(line) == {"COMPLETE": 10, "CACHED": 10}
    assert versions(line) == ["1"] and line.summary["pushed_version"] == 1 and not line.summary["fresh_push"]

    assert line.run("--set", "training.epochs=11").exit_code == 0
    assert line.steps_run() == ["Trainer", "Evaluator", "ServeCheck", "Pusher"]
    assert reasons(line, "Trainer") == ["training.epochs: 10 -> 11"]
    assert reasons(line, "Evaluator") == ["its input model is new", "its input training is new"]
    assert line.summary["baseline"]["pushed"]["accuracy"] > 0.8  # it was measured against version 1
    assert executions(line) == {"COMPLETE": 14, "CACHED": 16} and versions(line) == ["1", "2"]

    assert line.run("--set", "training.epochs=11").exit_code == 0
    assert line.steps_run() == [] and versions(line) == ["1", "2"]


def test_an_unchanged_run_needs_neither_tensorflow_nor_tfx_nor_beam(line):
    script = """
import sys
from bertline.pipeline.cli import main
try:
    main()
finally:
    heavy = ("tensorflow", "keras", "tf_keras", "tfx", "apache_beam", "mlflow", "tensorflow_data_validation", "pandas",
             "sklearn")
    print("LOADED", [name for name in heavy if name in sys.modules])
"""
    command = [sys.executable, "-c", script, "run", str(line.config), "--workspace", str(line.workspace)]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "LOADED []" in found.stdout and found.stdout.count("cached: nothing") == 10


def test_python_runs_the_same_pipeline_from_the_same_cache(line, capfd, monkeypatch):
    found = bertline.run(line.config, workspace=line.workspace, quiet=True)
    assert asdict(found) == line.summary and found.blessed and all(step["cached"] for step in found.steps)
    assert capfd.readouterr() == ("", "")
    monkeypatch.chdir(line.folder)
    bertline.run(yaml.safe_load(line.config.read_text()), workspace="workspace")
    assert line.steps_run() == []
    assert "accuracy" in (printed := capfd.readouterr().out) and "Next:" not in printed


def test_what_is_looked_up_is_recorded_as_the_launcher_of_tfx_records_it(line):
    store, steps = metadata_of(line), len(line.summary["steps"])
    assert line.run().exit_code == 0
    looked_up = store.get_executions()[-steps:]
    (line.workspace / "pipelines" / "tiny" / "finished-runs.json").unlink()
    assert line.run().exit_code == 0 and line.steps_run() == []
    launched = store.get_executions()[-steps:]
    assert [described(store, execution) for execution in looked_up] == [described(store, e) for e in launched]
    runs = [
        {
            context.name
            for execution in found
            for context in store.get_contexts_by_execution(execution.id)
            if context.type == "pipeline_run"
        }
        for found in (looked_up, launched)
    ]
    assert [len(names) for names in runs] == [1, 1] and runs[0] != runs[1]
    assert line.run().exit_code == 0 and line.steps_run() == []  # which is remembered again


def test_from_runs_a_step_again_with_all_after_it_and_pushes_no_equal_model_twice(line):
    before = versions(line)
    assert line.run("--from", "Evaluator").exit_code == 0
    assert line.steps_run() == ["Evaluator", "ServeCheck", "Pusher"] and reasons(line, "Pusher") == ["run again on request"]
    assert versions(line) == before and line.summary["pushed_version"] == 1
    assert line.summary["newest_version"] == 2


def test_a_version_that_somebody_removed_is_pushed_again(line):
    assert line.run().exit_code == 0
    shutil.rmtree(line.workspace / "models" / "tiny" / "1")
    assert line.run().exit_code == 0
    assert line.steps_run() == ["Pusher"] and reasons(line, "Pusher") == ["its last result was deleted"]
    assert line.summary["pushed_version"] == 3  # numbers only rise


def test_a_run_does_not_push_again_what_was_withdrawn(line):
    assert versions(line) == ["2", "3"] and line.call("rollback", "tiny").exit_code == 0 and versions(line) == ["2"]
    for _ in range(2):
        result = line.run()
        assert result.exit_code == 0 and line.steps_run() == ["Pusher"] and versions(line) == ["2"]
        assert line.summary["pushed_version"] is None and line.summary["withdrawn_version"] == 3
        assert "version 3, which was withdrawn" in " ".join(result.output.split())
    assert line.call("predict", "a wonderful film").exit_code == 0  # by version 2, which is served now
    assert line.call("rollback", "--to", "3").exit_code == 0 and line.run().exit_code == 0
    assert line.summary["pushed_version"] == 3 and line.summary["withdrawn_version"] is None


@pytest.mark.full
def test_changed_data_goes_through_the_whole_pipeline(line):
    rows = make_rows()
    write_csv(line.folder / "reviews.csv", [*rows, *({**row, "text": row["text"] + " indeed"} for row in rows[:20])])
    assert line.run().exit_code == 0
    assert sorted(line.steps_run()) == sorted({*Step} - {Step.SENTENCE_PAIRS})  # a step of pre-training alone
    assert reasons(line, "Ingest") == ["inputs changed"]
    write_csv(line.folder / "reviews.csv", rows)


def test_a_changed_threshold_judges_again_but_does_not_train_again(line):
    assert line.run().exit_code == 0
    write_config(line.folder, evaluation={"thresholds": {"accuracy": 1.5}})  # which no model reaches
    result = line.run()
    assert result.exit_code == 3 and line.summary["blessed"] is False
    assert "Trainer" not in line.steps_run() and line.steps_run()[0] == "Evaluator"
    (reason,) = line.summary["reasons"]
    assert "accuracy" in reason and "below its threshold 1.5 on all examples" in reason
    assert line.summary["pushed_version"] is None


@pytest.mark.full
def test_a_model_that_is_not_served_well_is_refused_until_it_is(line):
    """A machine that was busy may be to blame: a refusal is looked at anew."""
    write_config(line.folder)
    assert line.run().exit_code == 0
    for first in (True, False):
        result = line.run("--set", "serve_check.max_latency_ms=0.000001")
        assert result.exit_code == 3 and line.summary["blessed"] is False and line.summary["pushed_version"] is None
        assert line.steps_run() == ["ServeCheck", "Pusher"]
        (reason,) = line.summary["reasons"]
        assert "above serve_check.max_latency_ms 1e-06" in reason and reason in " ".join(result.output.split())
        (why,) = reasons(line, "ServeCheck")
        assert "max_ms" in why if first else why == "it refused the last time"
    assert line.run().exit_code == 0 and line.summary["pushed_version"]
    assert line.run("--set", "serve_check.enabled=false").exit_code == 0
    assert line.summary["serve_check"] == {} and "ServeCheck" not in [step["name"] for step in line.summary["steps"]]


def test_the_file_for_tfxs_own_command_runs_the_same_line(line, monkeypatch):
    """In this process; `tfx` itself is given it in test_tfx_cli.py."""
    from bertline.pipeline.orchestration import local_runner

    write_config(line.folder)
    assert line.run().exit_code == 0
    before = line.summary["mlflow_run_id"]
    monkeypatch.setenv("BERTLINE_CONFIG", str(line.config))
    monkeypatch.setenv("BERTLINE_WORKSPACE", str(line.workspace))
    local_runner.main()
    assert line.summary["status"] == "succeeded" and line.summary["mlflow_run_id"] != before
    assert line.steps_run() == []
    monkeypatch.setenv("BERTLINE_CONFIG", str(write_config(line.folder, seeds=[1, 2])))
    with pytest.raises(BertlineError, match="TFX's command runs the pipeline once"):
        local_runner.main()
    write_config(line.folder)


def test_a_step_that_the_task_does_not_have_cannot_be_run_again(line):
    result = line.run("--from", "SentencePairs")
    assert result.exit_code == 1 and "the task classification has no step SentencePairs" in result.output


@pytest.mark.full
def test_a_result_of_a_later_run_is_taken_in_place_of_a_remembered_one(line):
    """As when the Trainer was run again, and the run broke off after it: the cache of TFX gives the newest model."""
    remembered = line.workspace / "pipelines" / "tiny" / "finished-runs.json"
    assert line.run().exit_code == 0
    before = remembered.read_text()
    assert line.run("--from", "Trainer").exit_code == 0 and line.steps_run()[0] == "Trainer"
    newest = line.artifact("Trainer", "model")
    remembered.write_text(before)  # the run before is the last one that came to its end
    assert line.run().exit_code == 0 and line.steps_run() == []
    store = metadata_of(line)
    (trained,) = [e for e in store.get_executions()[-10:] if e.type.endswith("Trainer")]
    outputs = [e.artifact_id for e in store.get_events_by_execution_ids([trained.id]) if e.type == mlmd.Event.OUTPUT]
    assert str(newest) in {artifact.uri for artifact in store.get_artifacts_by_id(outputs)}
