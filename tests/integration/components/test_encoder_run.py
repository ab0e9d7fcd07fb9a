"""`model.checkpoint: runs:/ID` finds the encoder of a recorded pre-training, or says in a sentence why it cannot."""

import os
import re
import socket
import uuid
from pathlib import Path

import pytest
import yaml
from mlflow.tracking import MlflowClient
from recording import runs_of, send, tracked

from bertline.components.pusher.executor import publish
from bertline.components.tracking import encoder_run
from bertline.components.tracking.backend.store import PATIENCE
from bertline.components.tracking.encoder_run import find_run
from bertline.components.tracking.tracker import Tracker
from bertline.pipeline.config import Config
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.settings.loader import load
from bertline.serving.contract import ENCODER

CONFIG = {
    "name": "tickets",
    "data": {"path": "tickets.csv"},
    "evaluation": {"thresholds": {"accuracy": 0.8}},
}


def push(folder: Path, destination: Path, *, encoder: bool = True):
    """A model as the Pusher leaves it, with files that have the right names."""
    (folder / ENCODER).mkdir(parents=True)
    (folder / "saved_model.pb").write_text(folder.name)
    if encoder:
        (folder / ENCODER / "config.json").write_text("{}")
        (folder / ENCODER / "model.safetensors").write_text("")
        (folder / ENCODER / "vocab.txt").write_text("[PAD]\n")
        (folder / ENCODER / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    else:
        (folder / ENCODER).rmdir()
    return publish(folder, destination, {})


def tags_of(pushed) -> dict[str, str]:
    return {
        "status": "succeeded",
        "blessed": "true",
        "pushed_version": str(pushed.version),
        "pushed_path": str(pushed.path),
        "pushed_digest": pushed.metadata["digest"],
    }


class Store:
    """A real store in a workspace, and pre-trainings recorded by the pipeline's own tracker."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workspace = folder, folder / "workspace"
        self.uri = f"sqlite:///{self.workspace}/mlflow.db"
        self.client = MlflowClient(self.uri)

    def config(self, **changes) -> str:
        path = self.folder / "tickets.yaml"
        path.write_text(yaml.safe_dump(CONFIG | changes))
        return str(path)

    def record(self, tags: dict[str, str], task: str = "pretraining") -> str:
        measured = {"perplexity": 60} if task == "pretraining" else {"accuracy": 0.8}
        config = load(self.config(task=task, evaluation={"thresholds": measured}), workspace=str(self.workspace))
        return self._sent(tracked(config, f"run {uuid.uuid4()}"), config, tags)

    def record_tuning(self, checkpoint: str) -> str:
        config = self.load(checkpoint)
        return self._sent(tracked(config, f"run {uuid.uuid4()}"), config, {})

    def _sent(self, tracker: Tracker, config: Config, tags: dict[str, str]) -> str:
        tracker.finish("FINISHED", tags)
        send(config)
        (run,) = runs_of(self.uri, line_run_id=tracker.key)
        return run.info.run_id

    def load(self, checkpoint: str, **changes) -> Config:
        return load(self.config(model={"checkpoint": checkpoint}, **changes), workspace=str(self.workspace))

    def refusal(self, checkpoint: str, **changes) -> str:
        with pytest.raises(BertlineError) as error:
            self.load(checkpoint, **changes)
        assert str(error.value).count("\n") == 0
        return str(error.value)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def pushed(store):
    return push(store.folder / "first", store.workspace / "models" / "bert")


@pytest.fixture(scope="module")
def run_id(store, pushed) -> str:
    return store.record(tags_of(pushed))


def test_a_run_stands_for_the_folder_that_it_pushed(store, pushed, run_id):
    config = store.load(f"runs:/{run_id}")
    by_path = store.load(str(pushed.path))
    assert config.model.checkpoint == str(pushed.path / ENCODER)
    # All that the steps are given is the same, and so are their cache keys; only the record knows of the run.
    assert config.tracking.encoder_run == run_id and by_path.tracking.encoder_run is None
    assert config.model_copy(update={"tracking": by_path.tracking}) == by_path
    assert (
        not config.text.lowercase
        and config.text.tokenizer_variant == "huggingface"
        and config.training.learning_rate == 5e-5
    )
    assert Config.from_json(config.to_json()) == config


def test_the_start_of_an_id_is_enough_while_no_other_run_begins_so(store, run_id, monkeypatch):
    assert store.load(f"runs:/{run_id[:6]}").tracking.encoder_run == run_id
    # Two ids with six equal digits do not come about by chance.
    monkeypatch.setattr(encoder_run, "_REFERENCE", re.compile("runs:/([0-9a-f]{0,32})"))
    store.record({})
    assert "matches several runs" in store.refusal("runs:/")


def test_a_fine_tuning_records_the_run_that_it_starts_from(store, run_id):
    tuned = store.record_tuning(f"runs:/{run_id[:8]}")
    assert store.client.get_run(tuned).data.tags["encoder_run"] == run_id


@pytest.mark.parametrize(
    "reference", ["runs:/", "runs:/12345", "runs:/latest", "runs:/" + "a" * 33, "runs://abcdef", "runs:x"]
)
def test_what_is_no_id_is_refused(store, reference):
    assert f"model.checkpoint: {reference} is not runs:/ and the id of an MLflow run" in store.refusal(reference)


@pytest.mark.parametrize("missing", ["0" * 32, "0" * 10])
def test_a_run_that_is_not_in_the_store_is_refused_with_the_store(store, run_id, missing):
    assert f"there is no run {missing} in the MLflow store {store.uri};" in store.refusal(f"runs:/{missing}")


def test_a_deleted_run_is_not_there(store, pushed):
    deleted = store.record(tags_of(pushed))
    store.client.delete_run(deleted)
    for reference in (deleted, deleted[:12]):
        assert f"there is no run {reference}" in store.refusal(f"runs:/{reference}")


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        (
            {
                "status": "succeeded",
                "blessed": "false",
                "reasons": "perplexity 90.0000 is above its threshold 60 on all examples",
            },
            "its model was refused, because perplexity 90.0000 is above its threshold 60 on all examples",
        ),
        ({"status": "failed", "blessed": "none"}, "it failed"),
        ({"status": "interrupted", "blessed": "none"}, "it was interrupted"),
        ({}, "it has not ended"),
    ],
)
def test_a_run_that_pushed_nothing_is_refused_with_the_reason(store, tags, reason):
    run_id = store.record({**tags, "pushed_version": "none", "pushed_path": "none"} if tags else {})
    assert f"the run {run_id} has pushed nothing: {reason}." in store.refusal(f"runs:/{run_id}")


def test_only_a_pretraining_hands_on_an_encoder(store, pushed):
    run_id = store.record(tags_of(pushed), task="classification")
    assert f"the run {run_id} has the task classification; only the task pretraining" in store.refusal(f"runs:/{run_id}")
    other = store.client.create_run("0").info.run_id
    assert f"the run {other} is not one of Bertline;" in store.refusal(f"runs:/{other}")


def test_a_folder_without_an_encoder_or_with_another_model_or_gone_is_refused(store, pushed):
    without = push(store.folder / "without", store.workspace / "models" / "other", encoder=False)
    assert f"has no {ENCODER}" in store.refusal(f"runs:/{store.record(tags_of(without))}")
    replaced = store.record({**tags_of(pushed), "pushed_digest": "of what was there before"})
    assert f"{pushed.path} is no longer what the run {replaced} has pushed" in store.refusal(f"runs:/{replaced}")
    gone = store.record({**tags_of(pushed), "pushed_path": f"{store.folder}/gone/1"})
    assert f"{store.folder}/gone/1, which the run {gone} has pushed, was deleted" in store.refusal(f"runs:/{gone}")
    unsaid = store.record({"pushed_version": "1"})
    assert f"the record of the run {unsaid} does not say where its model is" in store.refusal(f"runs:/{unsaid}")


def test_the_store_is_that_of_the_config_the_environment_or_the_workspace(store, run_id, tmp_path, monkeypatch):
    def found(**changes) -> str | None:
        config = load(store.config(model={"checkpoint": f"runs:/{run_id}"}, **changes), workspace=str(tmp_path))
        return config.tracking.encoder_run

    with pytest.raises(BertlineError, match=f"no MLflow store sqlite:///{tmp_path}/mlflow.db"):
        found()
    assert found(tracking={"uri": store.uri}) == run_id
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store.uri)
    assert found() == run_id
    with pytest.raises(BertlineError, match=f"no MLflow store sqlite:///{tmp_path}/other.db"):
        found(tracking={"uri": f"sqlite:///{tmp_path}/other.db"})


def test_asking_makes_no_store(tmp_path):
    for name in ("none.db", "deep/none.db", "empty.db", "text.db"):
        (tmp_path / "empty.db").touch()
        (tmp_path / "text.db").write_text("no database at all " * 100)
        before = {path: path.stat().st_size for path in tmp_path.iterdir()}
        with pytest.raises(BertlineError, match="there is no MLflow store sqlite:"):
            find_run("runs:/abcdef", f"sqlite:///{tmp_path}/{name}")
        assert {path: path.stat().st_size for path in tmp_path.iterdir()} == before
    for uri in (str(tmp_path / "mlruns"), f"file://{tmp_path}/mlruns", "sqlite://"):
        with pytest.raises(BertlineError, match="there is no MLflow store"):
            find_run("runs:/abcdef", uri)
    assert not (tmp_path / "mlruns").exists()


@pytest.mark.timeout(120)  # MLflow by itself would go on asking for minutes
@pytest.mark.parametrize("listens", [True, False])
def test_a_dead_server_is_told_soon_and_without_its_password(monkeypatch, listens):
    monkeypatch.setitem(PATIENCE, "MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    environment = dict(os.environ)
    with socket.socket() as dead:  # takes connections and never answers, or refuses them
        dead.bind(("127.0.0.1", 0))
        if listens:
            dead.listen()
        uri = f"http://me:hunter2@127.0.0.1:{dead.getsockname()[1]}"
        with pytest.raises(BertlineError) as error:
            find_run("runs:/" + "a" * 32, uri)
    message = str(error.value)
    assert f"the MLflow store {uri.replace('me:hunter2', '…')} cannot be queried" in message and "\n" not in message
    assert "hunter2" not in message
    assert dict(os.environ) == environment  # the run itself keeps MLflow's patience


def test_every_other_mistake_is_told_before_a_store_is_asked(store, monkeypatch):
    monkeypatch.setattr("bertline.pipeline.settings.loader.find_run", lambda *_: pytest.fail("the store was asked"))
    assert "training.epoch is not a setting" in store.refusal("runs:/abcdef", training={"epoch": 1})
    assert "MLFLOW_TRACKING_PASSWORD" in store.refusal("runs:/abcdef", tracking={"uri": "https://me:hunter2@example.org"})
