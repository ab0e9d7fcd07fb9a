"""MirroredStrategy, proved with two logical CPU devices in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from models.encoder import Encoder, EncoderSize

TWO_DEVICES = """
import json, sys, tempfile
from pathlib import Path
from pipeline.environment import prepare
prepare()
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
sys.path.insert(0, "tests/component")
from test_training import TASK, build, losses, rows, settings
from models.training import train
found = {}
for devices, dropout in (((), 0.0), (("CPU:0", "CPU:1"), 0.0), (("CPU:0", "CPU:1"), 0.1)):
    chosen = settings(devices=devices, clip_norm=0.05)
    with tempfile.TemporaryDirectory() as folder:
        result = train(lambda: build(dropout), TASK, chosen, rows(70), rows(16), checkpoint_folder=Path(folder))
    found[f"{len(devices)} devices, dropout {dropout}"] = losses(result)
print(json.dumps(found))
"""


def test_two_replicas_give_the_losses_of_one():
    """With 70 rows and batches of 16 some batches are not full; the clip bound is low enough to bind at every step."""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", TWO_DEVICES], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    one, two, two_with_dropout = found.values()
    np.testing.assert_allclose(two, one, rtol=1e-5)
    assert np.isfinite(two_with_dropout).all()


MIRRORED = """
import json
import numpy as np, tensorflow as tf
from models.encoder import Encoder, EncoderSize

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    encoder = Encoder(EncoderSize(vocab_size=30, layers=2, hidden=8, heads=2, intermediate=16), seed=1)
tokens = tf.constant([[2, 7, 9, 3, 0], [2, 11, 3, 0, 0]])

@tf.function
def run(training):
    results = strategy.run(lambda: encoder(tokens, None, tokens > 0, training=training))
    return strategy.experimental_local_results(results)

def states():
    return [[copy.numpy().tolist() for copy in variable.value.values] for variable in encoder.non_trainable_variables]

plain, noisy, after_one, again = run(False), run(True), states(), run(True)
print(json.dumps({
    "plain_equal": bool(np.array_equal(*plain)),
    "noise_differs": not np.array_equal(*noisy),
    "noise_goes_on": not np.array_equal(noisy[0], again[0]),
    "first_replica_like_one_device": bool(np.allclose(noisy[0], ONE_DEVICE, atol=1e-6)),
    "states": after_one,
}))
"""


def test_replicas_share_weights_and_counters_but_not_their_noise():
    tokens = np.array([[2, 7, 9, 3, 0], [2, 11, 3, 0, 0]])
    encoder = Encoder(EncoderSize(vocab_size=30, layers=2, hidden=8, heads=2, intermediate=16), seed=1)
    alone = encoder(tokens, None, tokens > 0, training=True).numpy().tolist()
    code = MIRRORED.replace("ONE_DEVICE", json.dumps(alone))
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    states = found.pop("states")
    assert found == dict.fromkeys(found, True)
    assert len(states) == 1 + 2 * 3
    assert all(first == second and first[1] == 1 for first, second in states)
