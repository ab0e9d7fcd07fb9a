"""The Pusher in a real line: what it pushes, what it refuses, and what it writes into the metadata."""

from pathlib import Path

import pytest
from ml_metadata.proto import metadata_store_pb2
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.metadata import Metadata, sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.types.standard_artifacts import Model, ModelBlessing

from bertline.components.pusher.component import Publish
from bertline.components.pusher.executor import latest, model_digest, pushed_by


def push(tmp_path: Path, blessed: int | None, served: int | None = None) -> metadata_store_pb2.Artifact:
    """Runs the Pusher on an imported model with these verdicts of the Evaluator and ServeCheck; returns its artifact."""
    serving = tmp_path / "model" / "Format-Serving"
    serving.mkdir(parents=True, exist_ok=True)
    (serving / "saved_model.pb").write_bytes(b"graph")
    model = Importer(source_uri=str(tmp_path / "model"), artifact_type=Model).with_id("ImportModel")
    nodes, inputs = [model], {"model": model.outputs["result"]}
    for name, verdict in (("blessing", blessed), ("served", served)):
        if verdict is not None:
            folder = tmp_path / f"{name}-{verdict}"
            folder.mkdir(exist_ok=True)
            imported = Importer(
                source_uri=str(folder), artifact_type=ModelBlessing, custom_properties={"blessed": verdict}
            ).with_id(f"Import-{name}")
            nodes.append(imported)
            inputs[name] = imported.outputs["result"]
    pusher = Publish(**inputs, destination=str(tmp_path / "served"), card='{"pipeline": "reviews"}', code="")
    connection = sqlite_metadata_connection_config(str(tmp_path / "metadata.db"))
    LocalDagRunner().run(
        Pipeline(
            pipeline_name="push",
            pipeline_root=str(tmp_path / "artifacts"),
            components=[*nodes, pusher.with_id("Pusher")],
            metadata_connection_config=connection,
            enable_cache=False,
        )
    )
    with Metadata(connection) as metadata:
        return max(metadata.store.get_artifacts_by_type("PushedModel"), key=lambda artifact: artifact.id)


@pytest.mark.parametrize(("blessed", "served"), [(0, None), (0, 0), (1, 0)])
def test_an_unblessed_model_is_refused_and_nothing_is_written(tmp_path, blessed, served):
    artifact = push(tmp_path, blessed, served)
    assert artifact.custom_properties["pushed"].int_value == 0
    assert "pushed_version" not in artifact.custom_properties
    assert not (tmp_path / "served").exists()


@pytest.mark.parametrize(("blessed", "served"), [(1, 1), (1, None), (None, None)])
def test_a_push_is_written_into_the_metadata_and_happens_once(tmp_path, blessed, served):
    for fresh in (1, 0):
        with pushed_by("5ca1ab1e"):
            properties = push(tmp_path, blessed, served).custom_properties
        assert properties["pushed"].int_value == 1
        assert properties["pushed_version"].string_value == "1"
        assert properties["pushed_destination"].string_value == str(tmp_path / "served" / "1")
        assert properties["digest"].string_value == model_digest(tmp_path / "model" / "Format-Serving")
        assert properties["fresh"].int_value == fresh
    metadata = latest(tmp_path / "served").metadata
    assert metadata["pipeline"] == "reviews" and metadata["mlflow_run_id"] == "5ca1ab1e"
