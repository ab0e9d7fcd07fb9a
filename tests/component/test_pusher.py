"""The Pusher in a real line: what it pushes, what it refuses, and what it writes into the metadata."""

from pathlib import Path

import pytest
from ml_metadata.proto import metadata_store_pb2
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.orchestration.metadata import Metadata, sqlite_metadata_connection_config
from tfx.orchestration.pipeline import Pipeline
from tfx.types.standard_artifacts import Model, ModelBlessing

from components.publish import latest, model_digest
from components.pusher import Publish


def push(tmp_path: Path, blessed: int | None) -> metadata_store_pb2.Artifact:
    """Runs the Pusher on an imported model; returns its artifact."""
    serving = tmp_path / "model" / "Format-Serving"
    serving.mkdir(parents=True, exist_ok=True)
    (serving / "saved_model.pb").write_bytes(b"graph")
    model = Importer(source_uri=str(tmp_path / "model"), artifact_type=Model).with_id("ImportModel")
    nodes, inputs = [model], {"model": model.outputs["result"]}
    if blessed is not None:
        (tmp_path / f"blessing-{blessed}").mkdir(exist_ok=True)
        blessing = Importer(
            source_uri=str(tmp_path / f"blessing-{blessed}"),
            artifact_type=ModelBlessing,
            custom_properties={"blessed": blessed},
        ).with_id("ImportBlessing")
        nodes.append(blessing)
        inputs["blessing"] = blessing.outputs["result"]
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


def test_an_unblessed_model_is_refused_and_nothing_is_written(tmp_path):
    artifact = push(tmp_path, blessed=0)
    assert artifact.custom_properties["pushed"].int_value == 0
    assert "pushed_version" not in artifact.custom_properties
    assert not (tmp_path / "served").exists()


@pytest.mark.parametrize("blessed", [1, None])
def test_a_push_is_written_into_the_metadata_and_happens_once(tmp_path, blessed):
    for fresh in (1, 0):
        properties = push(tmp_path, blessed).custom_properties
        assert properties["pushed"].int_value == 1
        assert properties["pushed_version"].string_value == "1"
        assert properties["pushed_destination"].string_value == str(tmp_path / "served" / "1")
        assert properties["digest"].string_value == model_digest(tmp_path / "model" / "Format-Serving")
        assert properties["fresh"].int_value == fresh
    assert latest(tmp_path / "served").card["pipeline"] == "reviews"
