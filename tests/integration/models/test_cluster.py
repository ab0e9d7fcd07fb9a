"""Training by several processes: the same numbers as by one, and no loss when one of them is killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bertline.models.training.cluster import PEER_LOST, Cluster
from bertline.models.training.distribution import scaled
from bertline.pipeline.config import TrainingConfig
from bertline.pipeline.core.child_process import environment_of_child
from bertline.pipeline.core.errors import BertlineError

ROOT = Path(__file__).parents[3]
MEMBER = """
import json, os, sys, time
from pathlib import Path
from bertline.pipeline.core.environment import prepare
prepare()
from bertline.models.training.distribution import join
join()
from tiny_training import TASK, build, losses, rows, settings
from bertline.models.training.loop import train
told, slow = open(sys.argv[2], "a", buffering=1), float(os.environ.get("SLOW", 0))
def report(record):
    told.write(f"{record.step}\\n")
    time.sleep(slow)
chosen = settings(epochs=3, clip_norm=0.05, restore_best=True, checkpoint_steps=3, **json.loads(sys.argv[3]))
try:
    result = train(
        lambda: build(0.0), TASK, chosen, rows(70), rows(16, seed=1), checkpoint_folder=Path(sys.argv[1]), report=report,
        score=lambda model: {"accuracy": 0.5},
    )
except Exception as error:
    print(error, file=sys.stderr, flush=True)
    os._exit(138 if "abort" in str(error).lower() or "unavailable" in str(error).lower() else 1)
weights = {variable.path: variable.numpy().tolist() for variable in result.model.trainable_variables}
print(json.dumps({"losses": losses(result), "held_out": [record for record in result.history if "eval_loss" in record],
                  "resumed_at": result.resumed_at, "weights": weights}))
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Member:
    """A process of a training; without a cluster, the only one."""

    def __init__(self, folder: Path, cluster: list[str] = (), index: int = 0, slow: float = 0, **options):
        self.told = folder / f"steps-{index}.txt"
        self._output, self._errors = folder / f"output-{index}.json", folder / f"errors-{index}.txt"
        config = {"cluster": {"worker": list(cluster)}, "task": {"type": "worker", "index": index}} if cluster else {}
        environment = environment_of_child(TF_CONFIG=json.dumps(config), SLOW=str(slow), OMP_NUM_THREADS="1")
        environment["PYTHONPATH"] += f"{os.pathsep}{ROOT / 'tests' / 'helpers'}"
        command = [sys.executable, "-c", MEMBER, str(folder / "checkpoint"), str(self.told), json.dumps(options)]
        with self._output.open("w") as output, self._errors.open("w") as errors:
            self.process = subprocess.Popen(command, env=environment, stdout=output, stderr=errors)

    def result(self) -> dict:
        assert self.process.wait(timeout=300) == 0, self._errors.read_text()[-3000:]
        return json.loads(self._output.read_text())

    def wait_for_step(self, step: int) -> None:
        while not self.told.exists() or self.told.read_text().split().count(str(step)) == 0:
            assert self.process.poll() is None, self._errors.read_text()[-3000:]
            time.sleep(0.05)


def assert_same(found: dict, wanted: dict) -> None:
    np.testing.assert_allclose(found["losses"], wanted["losses"], rtol=1e-5)
    for one, other in zip(found["held_out"], wanted["held_out"], strict=True):
        assert one.pop("eval_loss") == pytest.approx(other["eval_loss"], rel=1e-5)
        assert one == {name: value for name, value in other.items() if name != "eval_loss"}
    for path, weight in wanted["weights"].items():
        np.testing.assert_allclose(found["weights"][path], weight, atol=1e-5)


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict:
    return Member(tmp_path_factory.mktemp("alone")).result()


@pytest.mark.full
def test_two_processes_train_as_one_does_and_go_on_after_one_is_killed(tmp_path, alone):
    """Killed in the second epoch, two steps after a checkpoint: those two are made once more."""
    cluster = [f"127.0.0.1:{port}" for port in free_ports(2)]
    chief, worker = (Member(tmp_path, cluster, index, slow=0.3) for index in range(2))
    worker.wait_for_step(8)
    worker.process.send_signal(signal.SIGKILL)
    assert chief.process.wait(timeout=120) == PEER_LOST
    checkpoint = tmp_path / "checkpoint"
    assert [path.name for path in checkpoint.glob("step-*")] == ["step-000000006.safetensors"]
    chief, worker = (Member(tmp_path, cluster, index) for index in range(2))
    found, of_worker = chief.result(), worker.result()
    assert found["resumed_at"] == of_worker["resumed_at"] == 6
    assert_same(found, alone)
    assert of_worker["losses"] == found["losses"]
    written = [json.loads(line) for line in (checkpoint / "history.jsonl").read_text().splitlines()]
    assert [record["step"] for record in written if "loss" in record] == list(range(1, 16)), "by the chief, once"


def test_an_own_batch_for_each_device_is_scaled_by_rule():
    given = TrainingConfig(batch_size=32, learning_rate=1e-4)
    assert scaled(given, 4) == given
    for rule, rate in (("linear", 4e-4), ("square_root", 2e-4)):
        found = scaled(given.model_copy(update={"scaling": rule}), 4)
        assert (found.batch_size, found.learning_rate, found.batch_tokens) == (128, pytest.approx(rate), None)


TFJOB = {
    "cluster": {"chief": ["reviews-chief-0.ns.svc:2222"], "worker": ["reviews-worker-0.ns.svc:2222"]},
    "task": {"type": "worker", "index": 0},
    "environment": "cloud",
}


def test_a_tfjob_names_the_chief_first():
    found = Cluster.from_environment({"TF_CONFIG": json.dumps(TFJOB)})
    assert found == Cluster(("reviews-chief-0.ns.svc:2222", "reviews-worker-0.ns.svc:2222"), 1)
    chief = Cluster.from_environment({"TF_CONFIG": json.dumps({**TFJOB, "task": {"type": "chief", "index": 0}})})
    assert chief.is_chief and not found.is_chief


@pytest.mark.parametrize("given", ["", "{}", '{"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}'])
def test_one_process_is_no_cluster(given):
    assert Cluster.from_environment({"TF_CONFIG": given}) is None
    assert Cluster.from_environment({}) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"cluster": {"worker": ["a:1", "b:1"]}}', "cannot be read"),
        (
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}',
            "worker 2 is not in its cluster",
        ),
        ('{"cluster": {"ps": ["a:1"], "worker": ["b:1"]}, "task": {"type": "ps", "index": 0}}', "names ps"),
    ],
)
def test_a_cluster_that_makes_no_sense_is_told(given, said):
    with pytest.raises(BertlineError, match=said):
        Cluster.from_environment({"TF_CONFIG": given})
