"""Kubernetes manifests: read back from YAML and held against the API's own types."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from click.testing import CliRunner
from kubernetes import client

from bertline.pipeline.cli import main
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.launch.config_files import read_batching, read_models, read_monitoring
from bertline.serving.launch.manifests import KINDS, Deployed, as_yaml, cluster_name, deployment, kserve

MEBIBYTE = 1 << 20
REVIEWS = Deployed(
    name="my_reviews",
    image="tensorflow/serving:2.16.1",
    storage="pvc://models/reviews",
    model_bytes=400 * MEBIBYTE,
    replicas=2,
    annotations={"bertline/version": "3"},
)


def by_kind(manifests: list[dict]) -> dict[str, dict]:
    """The manifests as a cluster reads them."""
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(as_yaml(manifests))}


def as_the_api_has_it(part: dict, kind: str) -> dict:
    """What is left of a manifest when the API's type has taken what it knows; what it requires must be there."""
    api = client.ApiClient()
    return api.sanitize_for_serialization(api.deserialize(SimpleNamespace(data=json.dumps(part)), kind))


def container_of(manifests: list[dict]) -> dict:
    (container,) = by_kind(manifests)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return container


@pytest.mark.parametrize("storage", ["pvc://models/reviews", "pvc://models", "gs://bucket/reviews"])
def test_the_api_knows_every_field_of_a_deployment(storage):
    found = by_kind(deployment(replace(REVIEWS, storage=storage)))
    assert set(found) == {"ConfigMap", "Deployment", "Service"}
    for kind, manifest in found.items():
        assert as_the_api_has_it(manifest, f"V1{kind}") == manifest


def test_the_api_knows_every_field_of_kserves_container():
    found = by_kind(kserve(REVIEWS))
    assert set(found) == {"ConfigMap", "InferenceService"}
    assert as_the_api_has_it(found["ConfigMap"], "V1ConfigMap") == found["ConfigMap"]
    predictor = found["InferenceService"]["spec"]["predictor"]
    own = {"modelFormat", "protocolVersion", "runtimeVersion", "storageUri"}  # the rest is a container's
    container = {"name": "any", **{name: value for name, value in predictor["model"].items() if name not in own}}
    assert as_the_api_has_it(container, "V1Container") == container
    for volume in predictor["volumes"]:
        assert as_the_api_has_it(volume, "V1Volume") == volume


def test_the_server_reads_its_files_where_the_configmap_is_mounted(tmp_path):
    found = by_kind(deployment(REVIEWS))
    files = found["ConfigMap"]["data"]
    container = container_of(deployment(REVIEWS))
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in found["Deployment"]["spec"]["template"]["spec"]["volumes"]}
    assert volumes["config"]["configMap"]["name"] == found["ConfigMap"]["metadata"]["name"]
    named = {flag.partition("=")[2] for flag in container["args"] if "_file=" in flag}
    assert named == {f"{mounts['config']['mountPath']}/{name}" for name in files}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (model,) = read_models(tmp_path / "models.config").model_config_list.config
    assert (model.name, model.base_path) == ("my_reviews", mounts["models"]["mountPath"])
    assert read_batching(tmp_path / "batching.config") == REVIEWS.batching
    annotations = found["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == read_monitoring(tmp_path / "monitoring.config")
    assert (
        annotations["prometheus.io/scrape"] == "true"
        and f"--rest_api_port={annotations['prometheus.io/port']}" in (container["args"])
    )


def test_the_model_comes_from_a_claim_and_cannot_be_written_to():
    found = by_kind(deployment(REVIEWS))["Deployment"]["spec"]["template"]["spec"]
    (volume,) = (volume for volume in found["volumes"] if volume["name"] == "models")
    (mount,) = (mount for mount in found["containers"][0]["volumeMounts"] if mount["name"] == "models")
    assert volume["persistentVolumeClaim"] == {"claimName": "models", "readOnly": True}
    assert (mount["subPath"], mount["readOnly"]) == ("reviews", True)
    whole = container_of(deployment(replace(REVIEWS, storage="pvc://models")))
    assert all("subPath" not in mount for mount in whole["volumeMounts"])


def test_a_bucket_is_read_by_the_server_itself():
    found = by_kind(deployment(replace(REVIEWS, storage="gs://bucket/reviews")))
    assert 'base_path: "gs://bucket/reviews"' in found["ConfigMap"]["data"]["models.config"]
    assert "models" not in [volume["name"] for volume in found["Deployment"]["spec"]["template"]["spec"]["volumes"]]


def test_the_container_may_do_nothing_but_serve():
    found = by_kind(deployment(REVIEWS))["Deployment"]["spec"]["template"]["spec"]
    assert found["securityContext"]["runAsNonRoot"] and found["securityContext"]["runAsUser"] > 0
    own = found["containers"][0]["securityContext"]
    assert (
        own["readOnlyRootFilesystem"] and not own["allowPrivilegeEscalation"] and own["capabilities"] == {"drop": ["ALL"]}
    )
    assert found["automountServiceAccountToken"] is False
    assert found["containers"][0]["command"] == ["/usr/bin/tensorflow_model_server"]


def test_probes_ask_for_the_model_and_for_the_port():
    container = container_of(deployment(REVIEWS))
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["httpGet"] == {"path": "/v1/models/my_reviews", "port": ports["http"]}
    assert container["livenessProbe"]["tcpSocket"] == {"port": ports["grpc"]}
    startup = container["startupProbe"]
    assert startup["failureThreshold"] * startup["periodSeconds"] == 300


def test_a_pod_goes_on_answering_while_it_is_taken_out_of_service():
    pod = by_kind(deployment(REVIEWS))["Deployment"]["spec"]["template"]["spec"]
    _, seconds = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert 0 < int(seconds) < pod["terminationGracePeriodSeconds"]


def test_the_service_finds_the_pods():
    found = by_kind(deployment(REVIEWS))
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selector = found["Service"]["spec"]["selector"]
    assert selector == found["Deployment"]["spec"]["selector"]["matchLabels"] and selector.items() <= labels.items()
    names = {port["name"] for port in container_of(deployment(REVIEWS))["ports"]}
    assert {port["targetPort"] for port in found["Service"]["spec"]["ports"]} == names
    assert found["Deployment"]["spec"]["replicas"] == 2


def test_memory_holds_two_versions_at_the_limit():
    resources = container_of(deployment(REVIEWS))["resources"]
    asked, most = (int(resources[kind]["memory"].removesuffix("Mi")) for kind in ("requests", "limits"))
    assert asked > 2 * 400 and most == 2 * asked and "cpu" not in resources["limits"]


def test_another_config_starts_the_pods_anew():
    def noted(deployed: Deployed) -> str:
        return by_kind(deployment(deployed))["Deployment"]["spec"]["template"]["metadata"]["annotations"]["bertline/config"]

    other = replace(REVIEWS, batching=replace(REVIEWS.batching, max_batch_size=8))
    assert noted(other) != noted(REVIEWS) == noted(replace(REVIEWS, replicas=5))


def test_kserve_runs_its_own_runtime_on_our_model(tmp_path):
    found = by_kind(kserve(replace(REVIEWS, storage="s3://bucket/reviews")))
    service = found["InferenceService"]
    model = service["spec"]["predictor"]["model"]
    assert service["apiVersion"] == "serving.kserve.io/v1beta1" and service["spec"]["predictor"]["minReplicas"] == 2
    assert model["modelFormat"]["name"] == "tensorflow" and model["runtimeVersion"] == "2.16.1"
    assert model["storageUri"] == "s3://bucket/reviews" and "image" not in model
    assert model["readinessProbe"]["httpGet"]["path"] == f"/v1/models/{service['metadata']['name']}"
    assert model["livenessProbe"]["tcpSocket"] and model["livenessProbe"]["initialDelaySeconds"] >= 300
    (tmp_path / "monitoring.config").write_text(found["ConfigMap"]["data"]["monitoring.config"])
    assert read_monitoring(tmp_path / "monitoring.config") == "/metrics"
    named = {flag.partition("=")[2] for flag in model["args"] if "_file=" in flag}
    assert named == {f"/config/{name}" for name in found["ConfigMap"]["data"]}


def test_kserve_takes_another_image_as_it_is():
    model = by_kind(kserve(replace(REVIEWS, image="mirror:5000/serving:2.16.1")))["InferenceService"]["spec"]["predictor"][
        "model"
    ]
    assert model["image"] == "mirror:5000/serving:2.16.1" and "runtimeVersion" not in model


@pytest.mark.parametrize(
    ("kind", "storage", "told"),
    [
        ("deployment", "s3://bucket/m", "reads volumes and gs:// only"),
        ("deployment", "/data/m", "reads volumes and gs:// only"),
        ("deployment", "pvc://", "this names no folder of a claim"),
        ("deployment", "pvc://Claim_1/m", "this names no folder of a claim"),
        ("deployment", "pvc://claim/../../etc", "this names no folder of a claim"),
        ("kserve", "/data/m", "KServe takes a URI"),
    ],
)
def test_storage_that_a_cluster_cannot_read_is_told(kind, storage, told):
    with pytest.raises(BertlineError, match=told):
        KINDS[kind](replace(REVIEWS, storage=storage))


@pytest.mark.parametrize(
    ("name", "made"),
    [("reviews", "reviews"), ("My_Model.2", "my-model-2"), ("2nd", "model-2nd"), ("-", "model"), ("a" * 90, "a" * 50)],
)
def test_a_models_name_becomes_one_that_kubernetes_takes(name, made):
    assert cluster_name(name) == made


@pytest.fixture
def pushed(tmp_path, monkeypatch) -> Path:
    """A workspace with two pushed versions, of which the newer one is larger."""
    folder = tmp_path / "workspace" / "models" / "reviews"
    for version, size in ((2, 1), (10, 200)):
        (folder / str(version) / "assets.extra").mkdir(parents=True)
        (folder / str(version) / "saved_model.pb").write_bytes(b"")
        with (folder / str(version) / "variables").open("wb") as file:
            file.truncate(size * MEBIBYTE)
        (folder / str(version) / "assets.extra" / "bertline.json").write_text(json.dumps({"digest": f"d{version}"}))
    told = {"name": "my-reviews", "pushed_path": str(folder / "2")}
    (tmp_path / "workspace" / "summary.json").write_text(json.dumps(told))
    monkeypatch.chdir(tmp_path)
    return folder


def test_the_command_describes_the_newest_version(pushed):
    done = CliRunner().invoke(main, ["manifests", "--replicas=3"])
    assert done.exit_code == 0, done.output
    found = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(done.stdout)}
    noted = found["Deployment"]["metadata"]["annotations"]
    assert noted == {"bertline/model": "my-reviews", "bertline/version": "10", "bertline/digest": "d10"}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert int(pod["containers"][0]["resources"]["requests"]["memory"].removesuffix("Mi")) > 400
    assert found["Deployment"]["spec"]["replicas"] == 3 and found["Service"]["metadata"]["name"] == "my-reviews"
    assert {"claimName": "my-reviews-models", "readOnly": True} in [
        volume.get("persistentVolumeClaim") for volume in pod["volumes"]
    ]


def test_the_command_writes_a_file_and_says_what_is_left_to_do(pushed, tmp_path):
    flags = ["--kind=kserve", "--model_base_path", str(pushed), "--storage=gs://bucket/m", "-o", "out.yaml"]
    done = CliRunner().invoke(main, ["manifests", *flags])
    assert done.exit_code == 0 and not done.stdout
    assert done.stderr == "Written to out.yaml. Copy the versions to gs://bucket/m, then: kubectl apply -f out.yaml\n"
    service = list(yaml.safe_load_all((tmp_path / "out.yaml").read_text()))[-1]
    assert (
        service["metadata"]["name"] == "reviews" and service["spec"]["predictor"]["model"]["storageUri"] == "gs://bucket/m"
    )


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--workspace=elsewhere"], "no run in elsewhere has pushed a model yet"),
        (["--model_base_path=workspace"], "there is no numbered version here yet"),
        (["-o", "nowhere/out.yaml"], "nowhere/out.yaml: No such file or directory; name a file that can be written"),
    ],
)
def test_the_command_tells_what_is_wrong_in_a_sentence(pushed, flags, told):
    done = CliRunner().invoke(main, ["manifests", *flags])
    assert done.exit_code == 1 and told in done.stderr and "Traceback" not in done.output
