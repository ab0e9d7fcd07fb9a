"""Statistics of small data, in this process instead of by Beam.

TensorFlow Data Validation computes both by the same generators. For Beam it merges what it finds batch by batch: sums may
differ in their last digit, and quantiles, which are approximate, within their bounds where values are many.
"""

import os

import tensorflow as tf
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from bertline.components.compat import statistics_of
from bertline.components.small_data import read_records


def write_statistics(examples: str, path: str) -> None:
    """Sums up one split.

    Args:
      examples: glob of gzipped TFRecord files of tf.train.Examples.
      path: receives a `DatasetFeatureStatisticsList`.
    """
    batch = ExamplesToRecordBatchDecoder().DecodeBatch(read_records(examples))
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(statistics_of(batch).SerializeToString())
