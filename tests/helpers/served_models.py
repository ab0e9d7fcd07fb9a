"""A small SavedModel for tests of model servers: quick to make and to load, with a signature for each kind of mischief.

serving_default   x: float [n]                      y = x / 2 + bias, of two variables
texts             text: string [n]                  upper: the text in capitals, length: its bytes
numbers           text: string [n]                  number: the text as a number; a text that is none fails
sums              x: int64 [n, any]                 sum: of each row
held              mark, until: string [n]           files: for each row, `mark` is written, then `until` awaited
"""

from __future__ import annotations

import os
from pathlib import Path

import tensorflow as tf

HALVES, TEXTS, NUMBERS, SUMS, HELD = "halves", "texts", "numbers", "sums", "held"


def save(folder: Path | str, bias: float = 2.0, default: str = HALVES) -> Path:
    """Writes it whole: into a folder beside, which is then renamed, as one does under a server's eyes.

    Args:
      default: the signature that is `serving_default` too.
    """
    v1 = tf.compat.v1
    beside = Path(folder).with_name(f"{Path(folder).name}.making")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None], "x")
        halves, biases = v1.get_variable("half", initializer=0.5), v1.get_variable("bias", initializer=float(bias))
        y = tf.add(halves * x, biases, "y")
        text = v1.placeholder(tf.string, [None], "text")
        rows = v1.placeholder(tf.int64, [None, None], "rows")
        mark, until = v1.placeholder(tf.string, [None], "mark"), v1.placeholder(tf.string, [None], "until")
        waited = tf.map_fn(_wait, (mark, until), fn_output_signature=tf.int32)
        signatures = {
            HALVES: ({"x": x}, {"y": y}),
            TEXTS: ({"text": text}, {"upper": tf.strings.upper(text), "length": tf.strings.length(text)}),
            NUMBERS: ({"text": text}, {"number": tf.strings.to_number(text)}),
            SUMS: ({"x": rows}, {"sum": tf.reduce_sum(rows, -1)}),
            HELD: ({"mark": mark, "until": until}, {"looks": waited}),
        }
        signatures["serving_default"] = signatures[default]
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(beside))
        predict = v1.saved_model.predict_signature_def
        builder.add_meta_graph_and_variables(
            session, ["serve"], signature_def_map={name: predict(*both) for name, both in signatures.items()}
        )
        builder.save()
    os.rename(beside, folder)
    return Path(folder)


def _wait(row: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
    """How often it was looked for the file."""
    mark, until = row

    def is_missing(looks: tf.Tensor) -> tf.Tensor:
        # Of `looks`, so that the optimizer does not take it for the same thing each time.
        return tf.equal(tf.size(tf.io.matching_files(tf.strings.join([until, tf.where(looks < 0, "-", "")]))), 0)

    with tf.control_dependencies([tf.io.write_file(mark, "it runs")]):
        start = tf.constant(0)
    return tf.while_loop(is_missing, lambda looks: (looks + 1,), (start,), parallel_iterations=1)[0]
