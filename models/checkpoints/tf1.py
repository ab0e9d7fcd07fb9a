"""The original BERT's checkpoints: `bert_config.json` and `bert_model.ckpt.*`, with TensorFlow 1's names."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from bertline.models.checkpoints.names import weights_of
from bertline.models.checkpoints.saving import save_text
from bertline.models.checkpoints.settings import to_tf1
from bertline.models.checkpoints.source import Source, StoredTensor, sort_out
from bertline.models.encoders.bert.backbone import Encoder
from bertline.pipeline.core.checkpoint_formats import TF1_CONFIG, TF1_WEIGHTS
from bertline.pipeline.core.errors import BertlineError

# The original's heads, by the scripts that train them. Their output weights are [outputs, inputs] already.
_HEAD_NAMES = {
    "cls/predictions/output_bias": "cls.predictions.bias",
    "cls/predictions/transform/dense/kernel": "cls.predictions.transform.dense.weight",
    "cls/predictions/transform/dense/bias": "cls.predictions.transform.dense.bias",
    "cls/predictions/transform/LayerNorm/gamma": "cls.predictions.transform.LayerNorm.weight",
    "cls/predictions/transform/LayerNorm/beta": "cls.predictions.transform.LayerNorm.bias",
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
    "cls/squad/output_weights": "qa_outputs.weight",
    "cls/squad/output_bias": "qa_outputs.bias",
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
}
_KINDS = {tf.float32: "F32", tf.float16: "F16", tf.bfloat16: "BF16", tf.float64: "F64"}
_READ_ERRORS = (tf.errors.OpError, ValueError, RuntimeError, LookupError)  # TensorFlow translates some errors, not all
_OPTIMIZER = re.compile(r"(^|/)(adam_[mv]|lamb_[mv]|Adam(_\d+)?|global_step|beta[12]_power)$")


@contextmanager
def open_tf1(prefix: Path) -> Iterator[Source]:
    """The tensors of the checkpoint files whose names begin with `prefix`."""
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        shapes, kinds = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    except _READ_ERRORS as error:
        raise BertlineError(
            f"{prefix}: not a whole TensorFlow checkpoint ({_first_line(error)}); fetch it again."
        ) from None
    if any(name.endswith("/.ATTRIBUTES/VARIABLE_VALUE") for name in shapes):
        raise BertlineError(f"{prefix}: a checkpoint of TensorFlow 2, whose names depend on the program; convert it there.")
    entries, aside = [], []
    for name, shape in shapes.items():
        if _OPTIMIZER.search(name):
            aside.append(name)
            continue
        kind = _KINDS.get(kinds[name], tf.dtypes.as_dtype(kinds[name]).name)
        tensor = StoredTensor(name, tuple(shape), kind, partial(_read, reader, prefix, name))
        entries.append((_to_hugging_face(name), tensor.transposed() if name.endswith("/kernel") else tensor))
    yield sort_out(prefix, entries, aside=aside)


def save_tf1(
    encoder: Encoder,
    folder: str | Path,
    *,
    heads: Mapping[str, np.ndarray] | None = None,
    vocab: str | Path | None = None,
    without: Collection[str] = (),
) -> None:
    """Writes an encoder as `bert_config.json` and `bert_model.ckpt.*`, which the original's scripts read.

    Args:
      encoder: BERT itself, with all its heads.
      folder: made if it is not there.
      heads: Hugging Face's name -> weights, as `load_heads` gives them.
      vocab: the vocabulary's file, copied to `vocab.txt`.
      without: weights that are not written, such as a pooler that a checkpoint did not have (`LoadReport.fresh`).
    """
    folder = Path(folder)
    config = to_tf1(encoder.size)
    arrays = {_to_tf1(name): weight.value() for name, weight in weights_of(encoder).items() if name not in without}
    known = {theirs: ours for ours, theirs in _HEAD_NAMES.items()}
    unknown = sorted(set(heads or {}) - set(known))
    if unknown:
        raise BertlineError(
            f"The original format cannot store {', '.join(unknown)}; leave the heads out, or choose another."
        )
    arrays |= {known[name]: np.asarray(array) for name, array in (heads or {}).items()}
    folder.mkdir(parents=True, exist_ok=True)
    _write({name: array.T if name.endswith("/kernel") else array for name, array in arrays.items()}, folder / TF1_WEIGHTS)
    save_text(folder, vocab=vocab)
    (folder / TF1_CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _write(arrays: Mapping[str, np.ndarray], prefix: Path) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        fed = {}
        for name, array in arrays.items():
            # Fed, not written into the graph as constants: a graph has room for 2 GB.
            fed[tf.compat.v1.placeholder(array.dtype, array.shape)] = array
            tf.compat.v1.Variable(list(fed)[-1], name=name, use_resource=False)
        session.run(tf.compat.v1.global_variables_initializer(), fed)
        # No state file: it would hold the path of today's folder.
        tf.compat.v1.train.Saver().save(session, str(prefix), write_meta_graph=False, write_state=False)


def _read(reader: tf.train.CheckpointReader, prefix: Path, name: str) -> np.ndarray:
    try:
        return reader.get_tensor(name)
    except _READ_ERRORS as error:
        raise BertlineError(f"{prefix}: {name} cannot be read ({_first_line(error)}); fetch the files again.") from None


def _to_hugging_face(name: str) -> str:
    """bert/encoder/layer_0/output/dense/kernel -> bert.encoder.layer.0.output.dense.weight"""
    if name in _HEAD_NAMES:
        return _HEAD_NAMES[name]
    if name.endswith("_embeddings"):
        name += "/weight"
    name = re.sub(r"/kernel$", "/weight", name)
    return re.sub(r"/layer_(\d+)/", r"/layer/\1/", name).replace("/", ".")


def _to_tf1(name: str) -> str:
    """encoder.layer.0.output.dense.weight -> bert/encoder/layer_0/output/dense/kernel"""
    name = re.sub(r"\.layer\.(\d+)\.", r".layer_\1.", f"bert.{name}").replace(".", "/")
    if name.endswith("_embeddings/weight"):
        return name.removesuffix("/weight")
    if "/LayerNorm/" in name:
        return name.replace("/LayerNorm/weight", "/LayerNorm/gamma").replace("/LayerNorm/bias", "/LayerNorm/beta")
    return re.sub(r"/weight$", "/kernel", name)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
