"""MirroredStrategy, proved with two logical CPU devices in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

TWO_DEVICES = """
import json, sys, tempfile
from pathlib import Path
from pipeline.environment import prepare
prepare()
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
sys.path.insert(0, "tests/unit")
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
