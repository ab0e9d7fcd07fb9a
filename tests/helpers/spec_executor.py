"""A small engine for compiled pipelines: what Kubeflow's backend does with a spec, on this machine.

It reads nothing but the spec. Each task runs by its own container's command line, in a process with an environment of its
own, and is told in JSON where its inputs are and where its outputs go. What a task tells of its outputs is handed on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2 as kfp_spec

_INPUT = "{{$}}"


def read_spec(path: Path) -> kfp_spec.PipelineSpec:
    """By Kubeflow's own schema: a field that it does not know is an error."""
    return json_format.ParseDict(yaml.safe_load(path.read_text()), kfp_spec.PipelineSpec())


class Engine:
    """Runs a spec once.

    Args:
      spec: a compiled pipeline.
      log: folder that receives what each task says.
      environment: of the containers, beside their own.
    """

    def __init__(self, spec: kfp_spec.PipelineSpec, log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._spec, self._log, self._environment = spec, log, environment or {}
        self._root = f"{spec.default_pipeline_root}/{spec.pipeline_info.name}/run"
        deployment = kfp_spec.PipelineDeploymentConfig()
        self._executors = json_format.ParseDict(json_format.MessageToDict(spec.deployment_spec), deployment).executors
        self.outputs: dict[str, dict[str, list[dict[str, Any]]]] = {}
        """Task -> name -> artifacts."""
        self.attempts: dict[str, int] = {}

    def run(self, **given: Any) -> None:
        """To the end, or to the first task that fails as often as its policy allows."""
        known = self._spec.root.input_definitions.parameters
        assert given.keys() <= known.keys(), f"unknown parameters: {given.keys() - known.keys()}"
        parameters = {
            name: given.get(name, json_format.MessageToDict(parameter.default_value)) for name, parameter in known.items()
        }
        waiting = dict(self._spec.root.dag.tasks)
        while waiting:
            name = next(name for name, task in waiting.items() if self._needs(task) <= self.outputs.keys())
            self._run_task(name, waiting.pop(name), parameters)

    @staticmethod
    def _needs(task: Any) -> set[str]:
        producers = {given.task_output_artifact.producer_task for given in task.inputs.artifacts.values()}
        return {*task.dependent_tasks, *producers}

    def _run_task(self, name: str, task: Any, parameters: Mapping[str, Any]) -> None:
        component = self._spec.components[task.component_ref.name]
        folder = f"{self._root}/{name}"
        # In the container itself, as Kubeflow has it, wherever the artifacts are.
        written = self._log / name / "executor_output.json"
        told = {
            "inputs": {
                "parameterValues": {
                    key: self._value(given, component.input_definitions.parameters[key], parameters)
                    for key, given in task.inputs.parameters.items()
                },
                "artifacts": {
                    key: {"artifacts": self.outputs[source.producer_task][source.output_artifact_key]}
                    for key, given in task.inputs.artifacts.items()
                    for source in [given.task_output_artifact]
                },
            },
            "outputs": {
                "artifacts": {
                    key: {"artifacts": [_artifact(f"{name}/{key}", made.artifact_type, f"{folder}/{key}")]}
                    for key, made in component.output_definitions.artifacts.items()
                },
                "outputFile": str(written),
            },
        }
        json_format.ParseDict(told, kfp_spec.ExecutorInput())  # as Kubeflow defines it, or an error
        for attempt in range(1, task.retry_policy.max_retry_count + 2):
            self.attempts[name] = attempt
            done = self._start(name, self._executors[component.executor_label].container, told)
            if done == 0:
                break
        else:
            raise RuntimeError(f"{name} failed {attempt} times:\n{(self._log / f'{name}.log').read_text()[-3000:]}")
        found = json.loads(written.read_text()).get("artifacts", {})
        self.outputs[name] = {
            key: [{**made["artifacts"][0], **found.get(key, {}).get("artifacts", [{}])[0]}]
            for key, made in told["outputs"]["artifacts"].items()
        }

    @staticmethod
    def _value(given: Any, definition: Any, parameters: Mapping[str, Any]) -> Any:
        if given.WhichOneof("kind") == "component_input_parameter":
            return parameters[given.component_input_parameter]
        return json_format.MessageToDict(given.runtime_value.constant)

    def _start(self, name: str, container: Any, told: Mapping[str, Any]) -> int:
        assert container.image
        command = [json.dumps(told) if part == _INPUT else part for part in (*container.command, *container.args)]
        path = f"{Path(sys.executable).parent}{os.pathsep}/usr/bin:/bin"
        environment = {"PATH": path, "HOME": str(self._log), **self._environment}
        self._log.mkdir(parents=True, exist_ok=True)
        with (self._log / f"{name}.log").open("a") as log:
            return subprocess.run(command, env=environment, cwd=self._log, stdout=log, stderr=log).returncode


def _artifact(name: str, kind: Any, uri: str) -> dict[str, Any]:
    return {"name": name, "type": json_format.MessageToDict(kind), "uri": uri}
