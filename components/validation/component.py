"""The Schema and ExampleValidator steps: the pipeline's entries to `executor.py`."""

import json
import os

from google.protobuf import text_format
from tfx.components.statistics_gen.stats_artifact_utils import load_statistics
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.types import standard_artifacts
from tfx.utils import io_utils

from bertline.components.artifacts import IngestReport
from bertline.components.validation.anomalies import Report
from bertline.components.validation.executor import gate, make_schema
from bertline.components.validation.schema import read_schema
from bertline.pipeline.config import DataConfig, ValidationConfig

_SCHEMA = "schema.pbtxt"


@component
def SchemaFromConfig(
    report: InputArtifact[IngestReport],
    schema: OutputArtifact[standard_artifacts.Schema],
    data: Parameter[str],
    validation: Parameter[str],
    slices: Parameter[str],
    code: Parameter[str],
    label: Parameter[str] = "class",
    lists: Parameter[str] = "{}",
) -> None:
    """Writes `schema.pbtxt` from the config's sections, given as JSON, and the classes of the training rows."""
    made = make_schema(
        DataConfig.model_validate_json(data),
        ValidationConfig.model_validate_json(validation),
        json.loads(slices),
        _read_report(report.uri),
        label,
        json.loads(lists),
    )
    io_utils.write_string_file(os.path.join(schema.uri, _SCHEMA), text_format.MessageToString(made, as_utf8=True))


@component
def DataGate(
    statistics: InputArtifact[standard_artifacts.ExampleStatistics],
    schema: InputArtifact[standard_artifacts.Schema],
    report: InputArtifact[IngestReport],
    anomalies: OutputArtifact[standard_artifacts.ExampleAnomalies],
    validation: Parameter[str],
    baseline_path: Parameter[str],
    code: Parameter[str],
) -> None:
    """Stops the pipeline when the data has anomalies; its artifact is laid out as that of TFX's ExampleValidator."""
    found = gate(
        {split: load_statistics(statistics, split).proto() for split in statistics.splits},
        read_schema(os.path.join(schema.uri, _SCHEMA)),
        _read_report(report.uri),
        allow_anomalies=ValidationConfig.model_validate_json(validation).allow_anomalies,
        baseline_folder=baseline_path,
        folder=anomalies.uri,
    )
    anomalies.splits = list(found)
    anomalies.span = statistics.span
    for split, findings in found.items():
        path = os.path.join(anomalies.uri, f"Split-{split}", "SchemaDiff.pb")
        io_utils.write_bytes_file(path, findings.SerializeToString())


def _read_report(uri: str) -> Report:
    return json.loads(io_utils.read_string_file(os.path.join(uri, "report.json")))
