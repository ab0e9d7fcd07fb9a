"""The schema that the config asks for, and the gate that holds the data against it.

TFX's ExampleValidator reports anomalies and lets the pipeline run on. Here an anomaly stops it before anything is trained,
in words that name the rows and the remedy, unless the user allows it.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import tensorflow as tf
from tensorflow_metadata.proto.v0.anomalies_pb2 import Anomalies
from tensorflow_metadata.proto.v0.schema_pb2 import BYTES, FLOAT, INT, Schema
from tensorflow_metadata.proto.v0.statistics_pb2 import DatasetFeatureStatisticsList

from bertline.components.validation.anomalies import Report, Statistics, drifts, explain, validate
from bertline.models.data import tag_schemes
from bertline.models.decisions.positive_class import check_positive
from bertline.models.tasks.base.task import LABELS
from bertline.pipeline.config import DataConfig, LabelKind, ValidationConfig
from bertline.pipeline.core import events
from bertline.pipeline.core.errors import AnomaliesError, BertlineError
from bertline.pipeline.core.storage import at, is_remote, join, reaching

_BASELINE = "statistics.pb"


def make_schema(
    data: DataConfig,
    validation: ValidationConfig,
    slices: Sequence[str],
    report: Report,
    label: LabelKind = "class",
    lists: Mapping[str, str] | None = None,
) -> Schema:
    """The features of an Example, as the config and the kind of the task's labels want them.

    Classes that `data.labels` does not name come from the Ingest report, which counts every label. TFDV's statistics
    keep the 20 most frequent values and a histogram of 1000, so they would lose the rare ones.
    """
    classes: Sequence[str] = data.labels or sorted(report["labels"]["train"])
    if label == "tags":
        classes = _checked_tags(data.labels) or tag_schemes.complete(classes)
    least = {"class": 2, "tags": 2, "classes": 1}.get(label, 0)
    if data.label and len(classes) < least:
        raise BertlineError(
            f"The training examples have {f'only the class {classes[0]!r}' if classes else 'no labels'} in column"
            f" {data.label!r}, and at least {('one class is', 'two classes are')[least - 1]} needed; check"
            " data.label and data.split."
        )
    if label == "class":
        check_positive(data.positive, classes)
    schema = Schema()
    types = {"string": BYTES, "float32": FLOAT, "int64": INT}
    of_label = {"label": types[LABELS[label].dtype]} if data.label else {}
    of_target = {"label_words": INT} if data.label and label == "text" else {}
    kinds = dict.fromkeys(data.columns_of_texts, BYTES) | of_label | {"words": INT} | of_target
    for name, kind in kinds.items():
        # No shapes: a row may lack a feature, and it is for the gate to say so.
        feature = schema.feature.add(name=name, type=kind)
        if not (name == "label" and label == "classes"):  # a row may have none of them
            feature.presence.min_fraction = 1.0
            feature.presence.min_count = 1
        if name == "label" and least:
            feature.string_domain.value.extend(classes)
            feature.drift_comparator.infinity_norm.threshold = validation.label_drift
        elif name == "label" and label != "text":
            feature.drift_comparator.jensen_shannon_divergence.threshold = validation.label_drift
        if name == "words" or name in of_target:
            feature.drift_comparator.jensen_shannon_divergence.threshold = validation.length_drift
    for name in slices:
        schema.feature.add(name=name, type=BYTES)
    for name, kind in (lists or {}).items():
        schema.feature.add(name=name, type=types[kind])
    return schema


def _checked_tags(named: Sequence[str]) -> Sequence[str]:
    if named and (problem := tag_schemes.problem(named, "any")):
        raise BertlineError(f"data.labels: {problem}.")
    if named and tag_schemes.OUTSIDE not in named:
        raise BertlineError(
            f"data.labels: {tag_schemes.OUTSIDE}, the tag of words outside of entities, is not among them; add it."
        )
    return named


def gate(
    statistics: Statistics,
    schema: Schema,
    report: Report,
    *,
    allow_anomalies: bool,
    baseline_folder: str,
    folder: str,
) -> dict[str, Anomalies]:
    """Lets the data pass, or raises an AnomaliesError that lists what is wrong with it.

    Data that passes becomes the baseline of the next run's drift; a refusal leaves the baseline as it was.

    Args:
      statistics: of each split.
      schema: what `make_schema` made.
      report: the Ingest report.
      allow_anomalies: let data with anomalies pass, and write that down.
      baseline_folder: holds the statistics of the last data that passed.
      folder: receives `report.txt` and `report.json`.

    Returns:
      TFDV's findings for each split.
    """
    baseline = read_baseline(baseline_folder)
    found = validate(statistics, schema, baseline)
    anomalies = explain(found, statistics, schema, report, baseline)
    text = "\n".join(f"- {anomaly}" for anomaly in anomalies)
    record = {
        "anomalies": [asdict(anomaly) for anomaly in anomalies],
        "allowed": bool(anomalies) and allow_anomalies,
        "drift": drifts(found),
    }
    if anomalies and not allow_anomalies:
        raise AnomaliesError(
            f"The data has anomalies, and nothing was trained on it:\n{text}\n"
            "--allow-anomalies continues in spite of them, and records them with the run.",
            {**record, "refused": True},
        )
    if anomalies:
        events.emit(events.Note(f"The data has anomalies, and they were allowed:\n{text}"))
    tf.io.gfile.makedirs(folder)
    written = {"report.txt": text or "No anomalies.", "report.json": json.dumps(record, indent=2, ensure_ascii=False)}
    for name, content in written.items():
        with tf.io.gfile.GFile(os.path.join(folder, name), "w") as file:
            file.write(f"{content}\n")
    write_baseline(baseline_folder, statistics)
    return found


def read_baseline(folder: str) -> dict[str, DatasetFeatureStatisticsList]:
    """The statistics of the last accepted data; empty before the first."""
    path = at(join(folder, _BASELINE))
    with reaching(folder):
        if not path.is_file():
            return {}
        stored = DatasetFeatureStatisticsList.FromString(path.read_bytes())
    return {dataset.name: DatasetFeatureStatisticsList(datasets=[dataset]) for dataset in stored.datasets}


def write_baseline(folder: str, statistics: Statistics) -> None:
    """Replaces the baseline at one stroke: all splits are in one file, so nobody reads a mixture of two runs."""
    stored = DatasetFeatureStatisticsList()
    for split, current in statistics.items():
        stored.datasets.add().CopyFrom(current.datasets[0])
        stored.datasets[-1].name = split
    content, path = stored.SerializeToString(), at(join(folder, _BASELINE))
    if is_remote(folder):  # where a file appears when it is whole
        with reaching(folder):
            path.write_bytes(content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    incoming = path.with_name(f"{_BASELINE}.{os.getpid()}")
    incoming.write_bytes(content)
    incoming.replace(path)
