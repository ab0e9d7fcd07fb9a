"""Which data is so small that a step does its work in this process, without Beam.

Beam's way to a result, and TFX's around it, costs the same for three examples as for thousands: pipelines are built, made
into protos, optimised and read back. In a run of 300 examples StatisticsGen took 2.1 s of processor time by Beam, and
Transform 4.0 s; without it they take 0.1 s and 1.2 s, for the same result (medians of four runs each). Ingest and
Vocabulary always go through Beam: they have one short pipeline each, of 0.2 to 0.3 s.

One number decides, for all steps: bytes of what a step reads, which are known without reading it. Beam's own one worker
would run in this very process too, so that the limit only has to keep what is read at once well inside the memory.

The limit is one of Beam's arguments, which `pipeline/orchestration/beam.py` gives where data is seen by the process that
will work on it, the DirectRunner's one worker. Whoever asks for another runner, or compiles the pipeline for Kubeflow,
gives none, and goes through Beam. Being an argument, it is in TFX's cache key already, and in the user's hands:
`--small_data_bytes=0`.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence

import tensorflow as tf
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions

SMALL_BYTES = 4 * 2**20
"""Bytes in files up to which data is small: of gzipped Examples about 10,000 of 1 kB of text."""


class SmallDataOptions(PipelineOptions):
    """How Beam is told of an argument that is not its own."""

    @classmethod
    def _add_argparse_args(cls, parser: ArgumentParser) -> None:
        parser.add_argument("--small_data_bytes", type=int, default=0, help="up to which a step does without Beam")


def is_small(beam_args: Sequence[str], patterns: Iterable[str]) -> bool:
    """Whether a step that reads these files does without Beam.

    Args:
      beam_args: what the step is told of Beam.
      patterns: globs of the files that it reads.
    """
    options = PipelineOptions(list(beam_args))
    direct = options.view_as(DirectOptions)
    limit = options.view_as(SmallDataOptions).small_data_bytes
    in_this_process = (direct.direct_running_mode, direct.direct_num_workers) == ("in_memory", 1)
    if not (limit and in_this_process and options.view_as(StandardOptions).runner in (None, "DirectRunner")):
        return False
    return sum(tf.io.gfile.stat(path).length for pattern in patterns for path in tf.io.gfile.glob(pattern)) <= limit


def read_records(pattern: str) -> list[bytes]:
    """What gzipped TFRecord files hold."""
    files = sorted(tf.io.gfile.glob(pattern))
    return list(tf.data.TFRecordDataset(files, compression_type="GZIP").as_numpy_iterator()) if files else []
