"""The whole of ingestion as one Beam pipeline: files in, Examples, report and quarantine out."""

from __future__ import annotations

import hashlib
import heapq
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import apache_beam as beam
import tensorflow as tf
from apache_beam.io.filesystems import FileSystems

from bertline.components.ingest.files import InputFile, raw_bytes
from bertline.components.ingest.notes import notes
from bertline.components.ingest.plan import MakePlan, Plan, Seen
from bertline.components.ingest.readers.records import BadRow, Row
from bertline.components.ingest.readers.registry import check_inputs, needed_columns, read
from bertline.components.ingest.report import MAX_QUARANTINED, Tally, judge, quarantine_lines
from bertline.components.ingest.rows import Features, KeptExample, sort_example
from bertline.components.ingest.shards import write_shard
from bertline.components.ingest.spill import ORDER_BYTES, Spill
from bertline.pipeline.config import DataConfig, LabelKind

SHARD_BYTES = 32 * 2**20
"""Raw bytes a shard; a shard is put in order in memory."""
MAX_SHARDS = 256
"""A reader has as many files of each split open at once; of more data the shards are larger."""
_SPILL = ".spill"


class ReadFile(beam.DoFn):
    """A file becomes its Examples, in files by (split, shard), its bad rows and its tally. Bad data never raises here: Beam
    would wrap the error, and try the file again."""

    BAD_ROWS = "bad_rows"
    TALLIES = "tallies"
    SEEN = "seen"

    def __init__(
        self,
        data: DataConfig,
        slices: Sequence[str],
        shards: int,
        spill_folder: str,
        label: LabelKind,
        lists: Sequence[str] = (),
    ) -> None:
        self._data, self._spill_folder = data, spill_folder
        self._columns = list(needed_columns(data, slices, lists))
        self._label: LabelKind = label
        self._slices, self._lists = tuple(slices), tuple(lists)
        self._shards = shards

    def process(self, numbered: tuple[int, InputFile]) -> Iterator[Any]:
        index, file = numbered
        tally, seen, quarantined, spill = Tally(), Seen(), 0, Spill(self._spill_folder)
        for row in read(file, self._data, self._columns):
            result = (
                row if isinstance(row, BadRow) else sort_example(row, self._data, file.split, self._slices, self._label)
            )
            tally.add(row, result)
            if isinstance(result, BadRow):
                quarantined += 1
                if quarantined <= MAX_QUARANTINED:
                    yield beam.pvalue.TaggedOutput(self.BAD_ROWS, result)
            elif isinstance(result, KeptExample):
                # A hash of file and line: the order is shuffled, and equal input gives equal files.
                order = hashlib.sha256(f"{index}:{row.line}".encode()).digest()[:ORDER_BYTES]
                shard = int.from_bytes(order[-4:], "big") % self._shards
                example = make_example(result.features)
                tally.add_example(result.split, example)
                bucket, digest = seen.add(cast(Row, row), result, self._data, self._label, self._lists)
                spill.add((result.split, shard), order, example, bucket, digest)
        yield from ((shard, (split, path)) for (split, shard), path in spill.close())
        yield beam.pvalue.TaggedOutput(self.SEEN, seen)
        yield beam.pvalue.TaggedOutput(self.TALLIES, tally)


def make_example(features: Features) -> bytes:
    """A serialized tf.Example; equal features give equal bytes. A list without values is no feature at all."""
    example = tf.train.Example()
    for name, given in features.items():
        for value in given if isinstance(given, tuple) else (given,):
            if isinstance(value, int):
                example.features.feature[name].int64_list.value.append(value)
            elif isinstance(value, float):
                example.features.feature[name].float_list.value.append(value)
            else:
                example.features.feature[name].bytes_list.value.append(value.encode("utf-8"))
    return example.SerializeToString(deterministic=True)


class MergeTallies(beam.CombineFn):
    def create_accumulator(self) -> Tally:
        return Tally()

    def add_input(self, total: Tally, tally: Tally) -> Tally:
        total.merge(tally)
        return total

    def merge_accumulators(self, tallies: Iterable[Tally]) -> Tally:
        total = Tally()
        for tally in tallies:
            total.merge(tally)
        return total

    def extract_output(self, total: Tally) -> Tally:
        return total


class FirstBadRows(beam.CombineFn):
    """The first MAX_QUARANTINED bad rows, in the order of file and line."""

    def create_accumulator(self) -> list[BadRow]:
        return []

    def add_input(self, first: list[BadRow], bad: BadRow) -> list[BadRow]:
        first.append(bad)
        return self._cut(first) if len(first) >= 2 * MAX_QUARANTINED else first

    def merge_accumulators(self, parts: Iterable[list[BadRow]]) -> list[BadRow]:
        return self._cut([bad for part in parts for bad in part])

    def extract_output(self, first: list[BadRow]) -> list[BadRow]:
        return self._cut(first)

    def _cut(self, rows: list[BadRow]) -> list[BadRow]:
        return heapq.nsmallest(MAX_QUARANTINED, rows, key=lambda bad: (bad.file, bad.line))


def report_text(tally: Tally, plan: Plan, files: Sequence[InputFile], label: LabelKind) -> str:
    report = tally.as_report(files, plan)
    return json.dumps({**report, "notes": list(notes(report, label))}, ensure_ascii=False, indent=2)


def write_text(text: str, path: str) -> None:
    with FileSystems.create(path, mime_type="text/plain") as stream:
        stream.write(text.encode("utf-8"))


def count_shards(files: Sequence[InputFile]) -> int:
    return min(MAX_SHARDS, max(1, math.ceil(raw_bytes(files) / SHARD_BYTES)))


def ingest(
    make_pipeline: Callable[[], beam.Pipeline],
    data: DataConfig,
    slices: Sequence[str],
    examples_uri: str,
    report_uri: str,
    keep_quarantine: str | None = None,
    label: LabelKind = "class",
    lists: Sequence[str] = (),
) -> dict[str, Any]:
    """Reads the raw files and writes Examples, `report.json` and `quarantine.jsonl`.

    Args:
      make_pipeline: makes the Beam pipeline to run on.
      data: which files, and what their columns mean.
      slices: further columns that become features.
      examples_uri: receives `Split-train` and `Split-eval`.
      report_uri: folder that receives the report and the quarantine file.
      keep_quarantine: path of a second quarantine file. TFX removes the outputs of a failed step, and this one is
        what the user is then sent to.
      label: what the labels are.
      lists: columns with any number of values in a row, which become features as well.

    Returns:
      The report.

    Raises:
      BertlineError: the files cannot be read, too many rows are bad, or nothing can be learned from the rest.
    """
    files = check_inputs(data, slices, lists)
    shards, spill = count_shards(files), os.path.join(report_uri, _SPILL)
    tf.io.gfile.makedirs(report_uri)
    report_path, quarantine_path = (os.path.join(report_uri, name) for name in ("report.json", "quarantine.jsonl"))
    with make_pipeline() as pipeline:
        read_files = (
            pipeline
            | "Files" >> beam.Create(list(enumerate(files)))
            | "Spread" >> beam.Reshuffle()
            | "Read"
            >> beam.ParDo(ReadFile(data, slices, shards, spill, label, lists)).with_outputs(
                ReadFile.BAD_ROWS, ReadFile.TALLIES, ReadFile.SEEN, main="pieces"
            )
        )
        made = read_files[ReadFile.SEEN] | "Plan" >> beam.CombineGlobally(MakePlan(data.split.eval_fraction))
        plan = beam.pvalue.AsSingleton(made)
        corrections = (
            read_files.pieces
            | "ByShard" >> beam.GroupByKey()
            | "WriteShards" >> beam.Map(write_shard, plan, examples_uri, shards, data, label)
        )
        _ = (
            read_files[ReadFile.BAD_ROWS]
            | "FirstBadRows" >> beam.CombineGlobally(FirstBadRows())
            | "Show" >> beam.Map(quarantine_lines)
            | "WriteQuarantine" >> beam.Map(write_text, quarantine_path)
        )
        _ = (
            (read_files[ReadFile.TALLIES], corrections)
            | "AllTallies" >> beam.Flatten()
            | "MergeTallies" >> beam.CombineGlobally(MergeTallies())
            | "Report" >> beam.Map(report_text, plan, files, label)
            | "WriteReport" >> beam.Map(write_text, report_path)
        )
    if tf.io.gfile.exists(spill):
        tf.io.gfile.rmtree(spill)
    report = json.loads(_read_text(report_path))
    first_bad = _read_text(quarantine_path).partition("\n")[0]
    if keep_quarantine:
        _keep(quarantine_path, keep_quarantine, wanted=bool(first_bad))
    judge(report, data, json.loads(first_bad) if first_bad else None, keep_quarantine or quarantine_path, label)
    return report


def _read_text(path: str) -> str:
    with tf.io.gfile.GFile(path, "rb") as stream:
        return stream.read().decode("utf-8")


def _keep(source: str, target: str, *, wanted: bool) -> None:
    """Copies the quarantine file; one of an earlier run must not be taken for this one's."""
    if wanted:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        tf.io.gfile.copy(source, target, overwrite=True)
    else:
        Path(target).unlink(missing_ok=True)
