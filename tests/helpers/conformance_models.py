"""The models of the conformance suite, written in a moment; no server but a SavedModel's loader is needed.

For a server of your own: `python tests/helpers/conformance_models.py FOLDER` writes them with their
models.config, to be served with --allow_version_labels_for_unavailable_models=true.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

v1 = tf.compat.v1
PREDICT, CLASSIFY, REGRESS = (f"tensorflow/serving/{name}" for name in ("predict", "classify", "regress"))
DTYPES = (
    "float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint32", "uint64", "bool", "string"
)  # fmt: skip
HALF_PLUS_TWO_VERSION = 123
LABELS = {"stable": 1, "canary": 2}
Tensors = Mapping[str, tf.Tensor]
Signatures = dict[str, tuple[str, Tensors, Tensors]]
"""By name: the method, the inputs and the outputs."""


def write_all(folder: Path) -> model_server_config_pb2.ModelServerConfig:
    """Writes every model, and returns what a server of them all is told."""
    config = model_server_config_pb2.ModelServerConfig()
    for name, write in WRITERS.items():
        write(folder / name)
        model = config.model_config_list.config.add(name=name, base_path=str(folder / name), model_platform="tensorflow")
        if name == "numbered":
            model.model_version_policy.all.SetInParent()
            model.version_labels.update(LABELS)
    return config


def put(version: Path, base: Path, number: int | str) -> Path:
    """Copies a version under a number, whole at once: a server may be looking."""
    base.mkdir(parents=True, exist_ok=True)
    whole = shutil.copytree(version, base / f"copy-of-{number}")
    return whole.rename(base / str(number))


def put_broken(base: Path, number: int) -> None:
    """A version that no server can load."""
    half_done = base / f"copy-of-{number}"
    half_done.mkdir(parents=True)
    (half_done / "saved_model.pb").write_bytes(b"no SavedModel")
    half_done.rename(base / str(number))


def put_warm_up(version: Path, records: list[bytes | prediction_log_pb2.PredictionLog]) -> None:
    path = version / "assets.extra" / "tf_serving_warmup_requests"
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record if isinstance(record, bytes) else record.SerializeToString())


def _save(folder: Path, build: Callable[[], Signatures]) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        signatures = build()
        session.run(v1.global_variables_initializer())
        info = v1.saved_model.build_tensor_info
        made = {
            name: v1.saved_model.build_signature_def(
                {key: info(tensor) for key, tensor in inputs.items()},
                {key: info(tensor) for key, tensor in outputs.items()},
                method,
            )
            for name, (method, inputs, outputs) in signatures.items()
        }
        builder = v1.saved_model.builder.SavedModelBuilder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"], made)
        builder.save()


def _half_plus(two: float) -> Callable[[], Signatures]:
    def build() -> Signatures:
        half, more = v1.Variable(0.5, name="a"), v1.Variable(two, name="b")
        serialized = v1.placeholder(tf.string, [None], "tf_example")
        parsed = v1.parse_example(serialized, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]
        x = v1.placeholder(tf.float32, [None], "x")
        y, of_examples = half * x + more, half * parsed + more
        names = tf.tile(tf.constant([["low", "middle", "high"]]), [tf.shape(parsed)[0], 1])
        scores = tf.concat([of_examples, of_examples * 2, of_examples * 3], 1)
        source = {"inputs": serialized}
        return {
            "serving_default": (PREDICT, {"x": x}, {"y": y}),
            "regress_x_to_y": (REGRESS, source, {"outputs": of_examples}),
            "regress_x_to_y_and_one": (REGRESS, source, {"outputs": of_examples[:, 0] + 1}),
            "classify_x_to_y": (CLASSIFY, source, {"scores": of_examples}),
            "classify_by_name": (CLASSIFY, source, {"classes": names, "scores": scores}),
            "classes_alone": (CLASSIFY, source, {"classes": names}),
            # Signatures that classify or regress by their method, and not by their tensors.
            "regress_wide": (REGRESS, source, {"outputs": scores}),
            "regress_double": (REGRESS, source, {"outputs": tf.cast(of_examples, tf.float64)}),
            "regress_short": (REGRESS, source, {"outputs": of_examples[1:]}),
            "regress_renamed": (REGRESS, source, {"y": of_examples}),
            "classify_flat": (CLASSIFY, source, {"scores": of_examples[:, 0]}),
            "classify_double": (CLASSIFY, source, {"scores": tf.cast(scores, tf.float64)}),
            "classify_uneven": (CLASSIFY, source, {"classes": names, "scores": scores[:, :2]}),
            "classify_renamed": (CLASSIFY, source, {"y": of_examples}),
        }

    return build


def half_plus_two(base: Path) -> None:
    _save(base / f"{HALF_PLUS_TWO_VERSION:08d}", _half_plus(2.0))


def half_plus_three(base: Path) -> None:
    """As TensorFlow 2 saves: functions, and no method names but that of Predict."""

    class HalfPlusThree(tf.Module):
        def __init__(self) -> None:
            self.half, self.three = tf.Variable(0.5), tf.Variable(3.0)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
        def predict(self, x):
            return {"y": self.half * x + self.three}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "inputs")])
        def regress(self, inputs):
            x = tf.io.parse_example(inputs, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]
            return {"outputs": self.half * x + self.three}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "inputs")])
        def classify(self, inputs):
            return {"scores": self.regress(inputs)["outputs"]}

    model = HalfPlusThree()
    signatures = {"serving_default": model.predict, "regress_x_to_y": model.regress, "classify_x_to_y": model.classify}
    tf.saved_model.save(model, str(base / "1"), signatures)


def by_default(base: Path) -> None:
    """Regresses where no signature is named."""

    def build() -> Signatures:
        serialized = v1.placeholder(tf.string, [None], "tf_example")
        parsed = v1.parse_example(serialized, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]
        return {"serving_default": (REGRESS, {"inputs": serialized}, {"outputs": parsed * 2})}

    _save(base / "1", build)


def numbered(base: Path) -> None:
    """Version N adds N."""
    for number in (1, 2):
        _save(base / str(number), _half_plus(float(number)))


def two_inputs(base: Path) -> None:
    def build() -> Signatures:
        text, number = v1.placeholder(tf.string, [None], "text"), v1.placeholder(tf.float32, [None], "number")
        spoken = tf.strings.join([text, text], "-")
        inputs = {"text": text, "number": number}
        return {
            "serving_default": (PREDICT, inputs, {"doubled": number * 2, "spoken": spoken, "spoken_bytes": spoken}),
            "bytes_alone": (PREDICT, {"text": text}, {"spoken_bytes": spoken}),
        }

    _save(base / "1", build)


def types(base: Path) -> None:
    """A signature for each type that gives back what it gets, of any shape; and none by default."""

    def build() -> Signatures:
        made: Signatures = {}
        for name in DTYPES:
            value = v1.placeholder(tf.as_dtype(name), None, name)
            made[name] = (PREDICT, {"value": value}, {"value": tf.identity(value)})
        return made

    _save(base / "1", build)


def shapes(base: Path) -> None:
    """Outputs that are no rows, and one that tells how many rows were run together."""

    def build() -> Signatures:
        x = v1.placeholder(tf.float32, [None], "x")
        other = v1.placeholder(tf.float32, [None], "other")
        rows = tf.fill([tf.shape(x)[0]], tf.shape(x)[0])
        return {
            "serving_default": (PREDICT, {"x": x}, {"y": x / 2 + 2, "rows": rows}),
            "one_for_all": (PREDICT, {"x": x}, {"mean": tf.reduce_mean(x)}),
            "uneven": (PREDICT, {"x": x}, {"a": tf.identity(x), "b": tf.concat([x, x], 0)}),
            "matrix": (PREDICT, {"x": x}, {"squares": x[:, None] * x[None, :]}),
            "longer": (PREDICT, {"x": x}, {"b": tf.concat([x, x], 0)}),
            "two": (PREDICT, {"x": x, "other": other}, {"sums": tf.reduce_sum(x) + other}),
        }

    _save(base / "1", build)


def counter(base: Path) -> None:
    """Tells how often it was asked."""

    def build() -> Signatures:
        asked = v1.Variable(0, name="asked", use_resource=True)
        x = v1.placeholder(tf.float32, [None], "x")
        return {"serving_default": (PREDICT, {"x": x}, {"asked": tf.fill([tf.shape(x)[0]], asked.assign_add(1))})}

    _save(base / "1", build)


WRITERS: Mapping[str, Callable[[Path], None]] = {
    write.__name__: write
    for write in (half_plus_two, half_plus_three, by_default, numbered, two_inputs, types, shapes, counter)
}

if __name__ == "__main__":
    root = Path(sys.argv[1]).absolute()
    (root / "models.config").write_text(text_format.MessageToString(write_all(root)))
