"""MirroredStrategy, proved with two logical CPU devices in a process of their own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bertline.models.encoders.bert.backbone import Encoder, EncoderSize

TWO_DEVICES = """
import json, sys, tempfile
from pathlib import Path
from bertline.pipeline.core.environment import prepare
prepare()
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
sys.path.insert(0, "tests/helpers")
from tiny_training import TASK, build, losses, rows, settings
from bertline.models.training.loop import train
def run(devices, dropout=0.0, **options):
    chosen = settings(epochs=1, devices=devices, clip_norm=0.05, **options)
    with tempfile.TemporaryDirectory() as folder:
        result = train(lambda: build(dropout), TASK, chosen, rows(70), rows(16), checkpoint_folder=Path(folder))
    return losses(result)
one, two = (), ("CPU:0", "CPU:1")
import tiny_translation as other
def translate(devices):
    with tempfile.TemporaryDirectory() as folder:
        given = other.context(Path(folder))
        learned = other.corpus(some := other.texts(41), some, given)
        chosen = other.settings(epochs=1, devices=devices, batch_tokens=200, label_smoothing=0.1)
        result = train(lambda: other.build(16), other.TASK, chosen, learned, learned, checkpoint_folder=Path(folder) / "c")
    return losses(result)
def exported(devices):
    from bertline.models.tasks.base.task import Context
    from bertline.models.tokenization.tokenizer import TextEncoder
    from bertline.serving.export.saved_model import ServedModel, export
    from wordpiece import write_vocab
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        chosen = settings(epochs=1, devices=devices)
        model = train(build, TASK, chosen, rows(32), rows(16), checkpoint_folder=folder / "c").model
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
        context = Context(TextEncoder(write_vocab(folder, tokens), seq_len=16), ("no", "yes"))
        served, texts = ServedModel(TASK, context, model), tf.constant(["a b", "", "c c a b"])
        own = served.predict(texts)["probabilities"].numpy().tolist()
        export(served, str(folder / "model"), {"task": TASK.name})
        answer = tf.saved_model.load(str(folder / "model")).signatures["serving_default"](text=texts)
        return own, answer["probabilities"].numpy().tolist()
options = {"optimizer": "lamb", "lora_rank": 2, "restore_best": True, "layer_decay": 0.5}
print(json.dumps({
    "one": run(one),
    "two": run(two),
    "one, all at once": run(one, **options),
    "two, in parts": run(two, gradient_accumulation_steps=4, gradient_checkpointing=True, **options),
    "two with dropout, in parts, half precision": run(two, 0.1, gradient_accumulation_steps=2, precision="float16"),
    "one, batches by tokens": translate(one),
    "two, batches by tokens": translate(two),
    "two, exported": exported(two),
}))
"""


@pytest.mark.full
def test_two_replicas_give_the_losses_of_one():
    """With 70 rows and batches of 16 some batches are not full; the clip bound is low enough to bind at every step."""
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", TWO_DEVICES], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    one, two, one_at_once, two_in_parts, with_dropout, one_by_tokens, two_by_tokens, (own, saved) = found.values()
    np.testing.assert_allclose(two, one, rtol=1e-5)
    np.testing.assert_allclose(two_in_parts, one_at_once, rtol=1e-5)
    np.testing.assert_allclose(two_by_tokens, one_by_tokens, rtol=1e-5)
    assert np.isfinite(with_dropout).all()
    np.testing.assert_allclose(saved, own, atol=1e-6)


MIRRORED = """
import json
import numpy as np, tensorflow as tf
from bertline.models.encoders.bert.backbone import Encoder, EncoderSize

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
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    states = found.pop("states")
    assert found == dict.fromkeys(found, True)
    assert len(states) == 1 + 2 * 3
    assert all(first == second and first[1] == 1 for first, second in states)
