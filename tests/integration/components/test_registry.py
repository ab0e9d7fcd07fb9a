"""Models in MLflow's registry: a pointer to the pushed folder, aliases that follow push and rollback, answers to texts."""

import json

import mlflow
import pytest
from click.testing import CliRunner
from mlflow import MlflowClient
from recording import config_in, make_store, send, tracked
from tiny_models import EVERY, push

from bertline.components.pusher.executor import publish
from bertline.components.tracking.backend.models import candidate, champion
from bertline.pipeline.cli import main
from bertline.pipeline.inference.predictor import find

NAME = "reviews"


@pytest.fixture(scope="module")
def registered(tmp_path_factory):
    """Two versions that a run each has trained and pushed, with what the registry was told."""
    folder = tmp_path_factory.mktemp("registered")
    config = config_in(folder, make_store(tmp_path_factory.mktemp("store")))
    made = push(EVERY[0], folder / "made")
    for number in (1, 2):
        (made / "assets.extra" / "note").write_text(str(number))  # so that they are two models
        tracker = tracked(config, f"run {number}")
        tracker.register(lambda: candidate(config, made))
        metadata = json.loads((made / "assets.extra" / "bertline.json").read_text())
        pushed = publish(made, config.push_path, {**metadata, "pipeline": NAME})
        tracker.register(lambda pushed=pushed: champion(NAME, pushed))
        tracker.finish("FINISHED", {})
        send(config)
    return config


def aliases(config):
    client = MlflowClient(config.tracking_uri)
    found = client.get_registered_model(NAME).aliases
    return {alias: client.get_model_version(NAME, version).tags["pushed_version"] for alias, version in found.items()}


def test_each_model_is_one_version_that_points_at_its_folder(registered):
    versions = MlflowClient(registered.tracking_uri).search_model_versions(f"name = '{NAME}'")
    found = {version.tags["pushed_version"]: version.tags["path"] for version in versions}
    assert found == {"1": str(registered.push_path / "1"), "2": str(registered.push_path / "2")}
    assert all(version.run_id for version in versions) and aliases(registered) == {"candidate": "2", "champion": "2"}
    stored = sum(path.stat().st_size for path in (registered.spool_path.parent / "mlflow-artifacts").rglob("*.*"))
    assert stored < 100_000  # a description, and no weights


@pytest.mark.parametrize(
    "asked", [["a good film", "bad"], "a good film", [{"text": "a good film"}], {"text": ["a good film"]}]
)
def test_mlflow_loads_the_champion_and_asks_it_in_texts(registered, asked, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", registered.tracking_uri)
    model = mlflow.pyfunc.load_model(f"models:/{NAME}@champion")
    answers = model.predict(asked).to_dict("records")
    loaded = find(str(registered.push_path / "2"), "").load()
    expected = loaded.plain(loaded.ask([{"text": b"a good film"}])[0])
    assert answers[0]["label"] == expected["label"]
    assert answers[0]["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-6)
    mlflow.set_tracking_uri(None)


def test_the_champion_follows_a_rollback_and_comes_back(registered):
    def roll_back(*arguments):
        done = CliRunner().invoke(main, ["rollback", NAME, "--workspace", registered.workspace, *arguments])
        assert done.exit_code == 0, done.output
        return done.output

    assert "its alias champion is version 1 now" in roll_back()
    assert aliases(registered) == {"candidate": "2", "champion": "1"}
    roll_back("--to", "2")
    assert aliases(registered) == {"candidate": "2", "champion": "2"}


def test_a_withdrawn_model_can_still_be_loaded_by_its_version(registered, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", registered.tracking_uri)
    CliRunner().invoke(main, ["rollback", NAME, "--workspace", registered.workspace])
    model = mlflow.pyfunc.load_model(f"models:/{NAME}@candidate")
    assert len(model.predict(["a good film"])) == 1
    CliRunner().invoke(main, ["rollback", NAME, "--to", "2", "--workspace", registered.workspace])
    mlflow.set_tracking_uri(None)


def test_sync_says_that_nothing_is_left(registered):
    done = CliRunner().invoke(main, ["sync", "--workspace", registered.workspace])
    assert done.exit_code == 0 and "MLflow has everything." in done.output
