"""A line whose model is trained by several machines, as a TFJob of Kubeflow's training operator.

The operator gives every process its TF_CONFIG, and starts one again that was lost. The chief runs the whole pipeline, the
others `bertline worker`; they share a volume, which is the pipeline's workspace.
"""

from __future__ import annotations

import json
from typing import Any

from bertline.components.steps import Step
from bertline.pipeline.config import Config, ResourcesConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.launch.manifests import as_yaml as dump
from bertline.serving.launch.manifests import claim_of, cluster_name

WORKSPACE = "/workspace"
_CONFIG = "/config/line.yaml"
_PORT = {"name": "tfjob-port", "containerPort": 2222}  # the operator looks for this name


def as_yaml(config: Config) -> str:
    return dump(manifests(config))


def manifests(config: Config) -> list[dict[str, Any]]:
    """The config as a ConfigMap, and the job."""
    root = config.cluster.root or ""
    claim, folder = claim_of(root, "cluster.root")
    if claim is None:
        raise BertlineError(
            f"cluster.root: a TFJob needs a shared volume; write pvc://CLAIM/FOLDER (received {root or 'none'})."
        )
    name = cluster_name(config.name)
    inside = config.model_copy(update={"workspace": WORKSPACE, "cluster": config.cluster.model_copy(update={"root": None})})
    asked = config.cluster.resources_of(Step.TRAINER)

    def replicas(count: int, *command: str) -> dict[str, Any]:
        container = {
            "name": "tensorflow",  # the operator gives TF_CONFIG to the container of this name
            "image": config.cluster.image,
            "command": ["bertline", *command, _CONFIG, "--workspace", WORKSPACE],
            "ports": [_PORT],
            "volumeMounts": [
                {"name": "config", "mountPath": "/config", "readOnly": True},
                {"name": "workspace", "mountPath": WORKSPACE, **({"subPath": folder} if folder else {})},
            ],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            **({"resources": _limits(asked)} if asked else {}),
        }
        volumes = [
            {"name": "config", "configMap": {"name": name}},
            {"name": "workspace", "persistentVolumeClaim": {"claimName": claim}},
        ]
        return {
            "replicas": count,
            # A code of 128 or more (killed, or another was lost) is tried again; a mistake in the config is not.
            "restartPolicy": "ExitCode",
            "template": {"spec": {"containers": [container], "volumes": volumes}},
        }

    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/managed-by": "bertline"}
    metadata = {"name": name, "labels": labels}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"line.yaml": json.dumps(json.loads(inside.to_json()), indent=2, ensure_ascii=False) + "\n"},
        },
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "TFJob",
            "metadata": metadata,
            "spec": {
                # The chief's end is the job's: workers that wait for a training that was cached are ended with it.
                "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": config.cluster.retries},
                "tfReplicaSpecs": {
                    "Chief": replicas(1, "run"),
                    "Worker": replicas(config.cluster.workers - 1, "worker"),
                },
            },
        },
    ]


def _limits(asked: ResourcesConfig) -> dict[str, Any]:
    gpu = {asked.gpu_type or "nvidia.com/gpu": asked.gpus} if asked.gpus else {}
    wanted = {"cpu": asked.cpu and f"{asked.cpu:g}", "memory": asked.memory and f"{asked.memory:g}G", **gpu}
    return {"limits": {name: value for name, value in wanted.items() if value}}
