"""Kubernetes manifests for a pushed model: TensorFlow Serving behind a Service, or an InferenceService of KServe.

Each function gives plain dictionaries, as `kubectl` takes them; `as_yaml` writes them. Files and flags of the server are
those of `flags.py`, so a cluster runs what `bertline serve --engine docker` runs.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from bertline.pipeline.core.errors import BertlineError
from bertline.serving.launch.config_files import PROMETHEUS_PATH, batching_text, is_uri, monitoring_text, one_model
from bertline.serving.launch.flags import BINARY, GRPC_PORT, IMAGE, REST_PORT, files_of, server_flags
from bertline.serving.settings import Batching, ServerSettings

Manifest = dict[str, Any]

_MEBIBYTE = 1 << 20
_USER = 10001  # any but root: the image names none
_KSERVE_PORT = 8080  # of REST, in KServe's runtime for TensorFlow
_DRAIN_SECONDS = 10
_LOAD_SECONDS = 300  # for a large model from a slow volume
_CONFIG = "/config"
_CONFIG_MOUNT = {"name": "config", "mountPath": _CONFIG, "readOnly": True}
_SCRAPED = {"prometheus.io/scrape": "true", "prometheus.io/port": str(REST_PORT), "prometheus.io/path": PROMETHEUS_PATH}
_UNMADE = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Deployed:
    """What is to run in a cluster."""

    name: str
    """The model's name, by which clients ask."""
    image: str
    storage: str
    """Where the cluster finds the model's numbered versions: pvc://CLAIM/FOLDER, or a URI as gs://BUCKET/FOLDER."""
    model_bytes: int
    """Of one version; says how much memory is asked for."""
    replicas: int = 1
    annotations: dict[str, str] = field(default_factory=dict)
    """What is to be noted with the model, as its version."""
    batching: Batching = field(default_factory=Batching)

    @property
    def title(self) -> str:
        return cluster_name(self.name)


def cluster_name(name: str) -> str:
    """A model's name as Kubernetes takes it for objects: small letters, digits and dashes, beginning with a letter.

    >>> cluster_name("My_Model.2")
    'my-model-2'
    """
    made = _UNMADE.sub("-", name.lower()).strip("-")
    return (made if made[:1].isalpha() else f"model-{made}".strip("-"))[:50].rstrip("-")


def deployment(deployed: Deployed) -> list[Manifest]:
    """TensorFlow Serving as a Deployment, with its files in a ConfigMap and a Service before it."""
    claim, folder = claim_of(deployed.storage)
    if claim is None and not deployed.storage.startswith("gs://"):
        raise BertlineError(
            f"--storage {deployed.storage}: the image of TensorFlow Serving reads volumes and gs:// only; copy the model to"
            " pvc://CLAIM/FOLDER, or take --kind kserve, which fetches it first."
        )
    settings = ServerSettings(
        one_model(deployed.name, deployed.storage if claim is None else f"/models/{deployed.name}"),
        host="0.0.0.0",
        port=GRPC_PORT,
        rest_api_port=REST_PORT,
        batching=deployed.batching,
    )
    files = files_of(settings)
    mounts: list[Manifest] = [_CONFIG_MOUNT, {"name": "tmp", "mountPath": "/tmp"}]
    volumes: list[Manifest] = [_config_volume(deployed), {"name": "tmp", "emptyDir": {}}]
    if claim is not None:
        inside = {"subPath": folder} if folder else {}
        mounts.append({"name": "models", "mountPath": f"/models/{deployed.name}", "readOnly": True, **inside})
        volumes.append({"name": "models", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}})
    # A ConfigMap that changes starts no pod anew; an annotation that changes does.
    noted = {**_SCRAPED, "bertline/config": hashlib.sha256(json.dumps(files).encode()).hexdigest()[:16]}
    spec = {
        "replicas": deployed.replicas,
        "selector": {"matchLabels": _selected(deployed)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {
            "metadata": {"labels": _labels(deployed), "annotations": noted},
            "spec": _pod(_container(deployed, server_flags(settings, _CONFIG), mounts), volumes),
        },
    }
    server = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _metadata(deployed), "spec": spec}
    return [_config_map(deployed, files), server, _service(deployed)]


def kserve(deployed: Deployed) -> list[Manifest]:
    """An InferenceService that runs on KServe's own runtime for TensorFlow, and the files that it lacks.

    The runtime names the model after the InferenceService and adds our arguments behind its own. It promises Prometheus
    /metrics, which TensorFlow Serving has only where a file tells it to.
    """
    if not is_uri(deployed.storage):
        raise BertlineError(
            f"--storage {deployed.storage}: KServe takes a URI, as pvc://CLAIM/FOLDER or gs://BUCKET/FOLDER."
        )
    files = {"batching.config": batching_text(deployed.batching), "monitoring.config": monitoring_text("/metrics")}
    model = {
        "modelFormat": {"name": "tensorflow", "version": "2"},
        "protocolVersion": "v1",
        **_version_of(deployed.image),
        "storageUri": deployed.storage,
        "args": [
            "--enable_batching=true",
            f"--batching_parameters_file={_CONFIG}/batching.config",
            f"--monitoring_config_file={_CONFIG}/monitoring.config",
        ],
        # Older versions of Knative know no startupProbe: so the one that kills waits as long as a load may take.
        "readinessProbe": _ready(deployed.title, _KSERVE_PORT),
        "livenessProbe": {**_alive(_KSERVE_PORT), "initialDelaySeconds": _LOAD_SECONDS},
        "resources": _resources(deployed.model_bytes),
        "volumeMounts": [_CONFIG_MOUNT],
    }
    predictor = {"minReplicas": deployed.replicas, "model": model, "volumes": [_config_volume(deployed)]}
    metadata = _metadata(deployed)
    metadata["annotations"]["serving.kserve.io/enable-prometheus-scraping"] = "true"
    kind = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}
    return [_config_map(deployed, files), {**kind, "metadata": metadata, "spec": {"predictor": predictor}}]


KINDS = {"deployment": deployment, "kserve": kserve}


def as_yaml(manifests: list[Manifest]) -> str:
    return yaml.dump_all(manifests, Dumper=_Readable, sort_keys=False, explicit_start=True, allow_unicode=True, width=120)


class _Readable(yaml.SafeDumper):
    """Writes files line by line, and a value that stands in two places twice: `kubectl` takes anchors, people do not."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def _selected(deployed: Deployed) -> dict[str, str]:
    return {"app.kubernetes.io/name": "tensorflow-serving", "app.kubernetes.io/instance": deployed.title}


def _labels(deployed: Deployed) -> dict[str, str]:
    return {**_selected(deployed), "app.kubernetes.io/managed-by": "bertline"}


def _metadata(deployed: Deployed) -> Manifest:
    noted = {"bertline/model": deployed.name, **deployed.annotations}
    return {"name": deployed.title, "labels": _labels(deployed), "annotations": noted}


def _config_map(deployed: Deployed, files: dict[str, str]) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _metadata(deployed), "data": files}


def _config_volume(deployed: Deployed) -> Manifest:
    return {"name": "config", "configMap": {"name": deployed.title}}


def _container(deployed: Deployed, flags: list[str], mounts: list[Manifest]) -> Manifest:
    ready = _ready(deployed.name, REST_PORT)
    return {
        "name": "serving",
        "image": deployed.image,
        "command": [f"/usr/bin/{BINARY}"],
        "args": flags,
        "ports": [{"name": "grpc", "containerPort": GRPC_PORT}, {"name": "http", "containerPort": REST_PORT}],
        # The server opens its ports when the model is loaded.
        "startupProbe": {**ready, "failureThreshold": _LOAD_SECONDS // ready["periodSeconds"]},
        "readinessProbe": ready,
        "livenessProbe": _alive(GRPC_PORT),
        # TensorFlow Serving ends at once at SIGTERM: by then no new requests must come, and old ones must be answered.
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(_DRAIN_SECONDS)]}}},
        "resources": _resources(deployed.model_bytes),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _pod(container: Manifest, volumes: list[Manifest]) -> Manifest:
    return {
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": _DRAIN_SECONDS + 30,
        "containers": [container],
        "volumes": volumes,
    }


def _service(deployed: Deployed) -> Manifest:
    ports = [
        {"name": "grpc", "port": GRPC_PORT, "targetPort": "grpc", "appProtocol": "kubernetes.io/h2c"},
        {"name": "http", "port": REST_PORT, "targetPort": "http"},
    ]
    spec = {"selector": _selected(deployed), "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(deployed), "spec": spec}


def _ready(name: str, port: int) -> Manifest:
    asked = {"path": f"/v1/models/{name}", "port": port}
    return {"httpGet": asked, "periodSeconds": 5, "timeoutSeconds": 3, "failureThreshold": 3}


def _alive(port: int) -> Manifest:
    return {"tcpSocket": {"port": port}, "periodSeconds": 10, "timeoutSeconds": 3, "failureThreshold": 3}


def _resources(model_bytes: int) -> Manifest:
    """Memory for the model twice over what it takes on the disk, and the same again at most.

    A new version is loaded before the old one goes, so for a moment there are two. Processors have no limit: one would stop
    the threads of a batch in the middle of it.
    """
    asked = 64 * math.ceil((2 * model_bytes / _MEBIBYTE + 256) / 64)
    return {"requests": {"cpu": "1", "memory": f"{asked}Mi"}, "limits": {"memory": f"{2 * asked}Mi"}}


def claim_of(storage: str, option: str = "--storage") -> tuple[str | None, str]:
    """The claim and the folder in it that pvc://CLAIM/FOLDER names; None where it is no claim."""
    if not storage.startswith("pvc://"):
        return None, ""
    claim, _, folder = storage.removeprefix("pvc://").partition("/")
    folder = os.path.normpath(folder).strip("/") if folder else ""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", claim) or folder.split("/")[0] in (".", ".."):
        raise BertlineError(f"{option} {storage}: this names no folder of a claim; write pvc://CLAIM/FOLDER.")
    return claim, folder


def _version_of(image: str) -> Manifest:
    """KServe knows which image its runtime has; a tag of it is its version, any other image stands for itself."""
    repository, _, tag = image.rpartition(":")
    return {"runtimeVersion": tag} if repository == IMAGE and tag else {"image": image}
