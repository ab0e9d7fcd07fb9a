"""The pipeline for engines of containers: Kubeflow Pipelines, and Vertex, which runs the same specs.

Every step becomes a container of its own, started by `pipeline/orchestration/kubeflow_step.py`. The graph is that of
`builder.py`, which has nothing that Kubeflow cannot run: no driver, no resolver, no InfraValidator. `bertline compile` is
the way in; TFX's own command line comes through `main`, as to `local_runner.py`:

    BERTLINE_CONFIG=my.yaml tfx pipeline create --engine vertex --pipeline_path pipeline/orchestration/kubeflow_runner.py
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "bertline" / "__init__.py").is_file())
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from bertline.components.steps import Step  # noqa: E402
from bertline.pipeline.core.environment import prepare  # noqa: E402

prepare()

import yaml  # noqa: E402
from google.protobuf import json_format  # noqa: E402
from kfp.pipeline_spec import pipeline_spec_pb2 as kfp_spec  # noqa: E402
from tfx.dsl.components.base.base_component import BaseComponent  # noqa: E402
from tfx.orchestration.data_types import RuntimeParameter  # noqa: E402
from tfx.orchestration.kubeflow.v2.kubeflow_v2_dag_runner import (  # noqa: E402
    KubeflowV2DagRunner,
    KubeflowV2DagRunnerConfig,
)
from tfx.orchestration.pipeline import Pipeline  # noqa: E402

from bertline.components.ingest.component import GIVEN_AT_RUN as FILES_AT_RUN  # noqa: E402
from bertline.pipeline.config import Config, ResourcesConfig, nearest  # noqa: E402
from bertline.pipeline.core.errors import BertlineError  # noqa: E402
from bertline.pipeline.orchestration.builder import create_pipeline  # noqa: E402
from bertline.pipeline.orchestration.placement import RunLocation  # noqa: E402
from bertline.pipeline.settings.loader import load  # noqa: E402

Engine = Literal["kubeflow", "vertex"]
COMMAND = ("python", "-m", "bertline.pipeline.orchestration.kubeflow_step")
_GPU = {"kubeflow": "nvidia.com/gpu", "vertex": "NVIDIA_TESLA_T4"}


def compile_job(config: Config, engine: Engine) -> dict[str, Any]:
    """A PipelineJob of Kubeflow's, as JSON has it: `pipelineSpec`, and where it runs in `runtimeConfig`."""
    job = runner(config).run(make_pipeline(config, engine), write_out=False)
    spec = json_format.ParseDict(job["pipelineSpec"], kfp_spec.PipelineSpec())
    spec.default_pipeline_root = _root(config)
    for _, parameter in _parameters(config):  # TFX leaves the defaults out, and Kubeflow would ask for every one
        json_format.ParseDict(parameter.default, spec.root.input_definitions.parameters[parameter.name].default_value)
    for name, task in spec.root.dag.tasks.items():
        if config.cluster.retries:
            task.retry_policy.max_retry_count = config.cluster.retries
        if name == Step.INGEST:  # an engine sees the names of the raw files and not what is in them
            task.caching_options.enable_cache = False
    return {**job, "pipelineSpec": json_format.MessageToDict(spec)}


def as_text(job: dict[str, Any], path: str) -> str:
    """As the file is named: JSON of the whole job, or YAML of the spec alone, as both engines take them."""
    if path.endswith(".json"):
        return json.dumps(job, indent=2, sort_keys=True) + "\n"
    return yaml.safe_dump(job["pipelineSpec"], sort_keys=True, allow_unicode=True)


def make_pipeline(config: Config, engine: Engine) -> Pipeline:
    """The pipeline as it is compiled."""
    if engine == "vertex" and not _root(config).startswith("gs://"):
        raise BertlineError(f"cluster.root: Vertex keeps its files in gs://BUCKET/FOLDER; received {_root(config)}.")
    if config.seeds:
        raise BertlineError("seeds: an engine runs the pipeline once; leave seeds out, and set training.seed.")
    pipeline = create_pipeline(config, place=_place(config))
    known = [component.id for component in pipeline.components]
    for name in config.cluster.resources.keys() - {"default", *known}:
        raise BertlineError(
            f"cluster.resources: there is no step {name!r}{nearest(name, known)}; there are {', '.join(known)}."
        )
    for component in pipeline.components:
        asked = config.cluster.resources_of(component.id)
        if asked and isinstance(component, BaseComponent):
            component.with_platform_config(_resources(asked, engine))
    return pipeline


def runner(config: Config, **where: str) -> KubeflowV2DagRunner:
    return KubeflowV2DagRunner(
        KubeflowV2DagRunnerConfig(
            display_name=config.name,
            default_image=config.cluster.image,
            default_commands=list(COMMAND),
            use_pipeline_spec_2_1=True,  # which has parameters that are given when a run is started
        ),
        **where,
    )


def _place(config: Config) -> RunLocation:
    root = _root(config).rstrip("/")
    return RunLocation(
        root=root,
        destination=config.push.destination or f"{root}/models/{config.name}",
        accepted_statistics=f"{root}/pipelines/{config.name}/accepted-statistics",
        given_at_run=dict(_parameters(config)),
    )


def _parameters(config: Config) -> Iterator[tuple[str, RuntimeParameter]]:
    """What may be given when a run is started, and is the config's own otherwise."""
    for name in FILES_AT_RUN:
        if value := getattr(config.data, name):
            yield name, RuntimeParameter(f"data-{name}", str, default=value)
    if "epochs" not in config.training.recipe:  # which no one number stands for before the data is read
        yield "epochs", RuntimeParameter("epochs", int, default=config.training.epochs)
    if config.training.learning_rate and "learning_rate" not in config.training.recipe:
        yield "learning_rate", RuntimeParameter("learning-rate", float, default=config.training.learning_rate)


def _root(config: Config) -> str:
    if not config.cluster.root:
        raise BertlineError(
            "cluster.root: name a folder that every step sees, as gs://BUCKET/FOLDER, in the config or by --root."
        )
    return config.cluster.root


def _resources(asked: ResourcesConfig, engine: Engine) -> Any:
    """TFX passes them on as they are. Kubeflow's older backends read the numbers, newer ones the texts."""
    made = kfp_spec.PipelineDeploymentConfig.PipelineContainerSpec.ResourceSpec()
    if asked.cpu:
        made.cpu_limit, made.resource_cpu_limit = asked.cpu, f"{asked.cpu:g}"
    if asked.memory:
        made.memory_limit, made.resource_memory_limit = asked.memory, f"{asked.memory:g}G"
    if asked.gpus:
        kind = asked.gpu_type or _GPU[engine]
        made.accelerator.count, made.accelerator.type = asked.gpus, kind
        made.accelerator.resource_count, made.accelerator.resource_type = str(asked.gpus), kind
    return made


def main() -> None:
    config = load(os.environ.get("BERTLINE_CONFIG", "reviews"))
    runner(config).run(make_pipeline(config, "vertex"))


if __name__ == "__main__":
    main()
