"""`bertline compile`: the pipeline for the engine that a team already has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bertline.pipeline.config import Config
from bertline.pipeline.core.errors import BertlineError


@click.command("compile")
@click.argument("config")
@click.option(
    "--engine",
    type=click.Choice(["kubeflow", "vertex", "tfjob"]),
    default="kubeflow",
    show_default=True,
    help="Kubeflow Pipelines, Vertex AI, or a TFJob of Kubeflow's training operator.",
)
@click.option("-o", "--out", metavar="FILE", help=".yaml, or .json for the whole job. [default: NAME.yaml]")
@click.option("--root", help="Folder that all steps share, as gs://BUCKET/FOLDER; overrides cluster.root.")
@click.option("--image", help="Container image with this package; overrides cluster.image.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a setting of the config.")
def compile_command(
    config: str, engine: Any, out: str | None, root: str | None, image: str | None, overrides: tuple[str, ...]
) -> None:
    """Compile the pipeline for Kubeflow Pipelines or Vertex AI, or its training as a TFJob.

    Each step becomes a container. The data files, epochs, learning rate and the pipeline root are parameters of a run. See
    cluster.* in `bertline settings` for the image, the resources of each step, and retries.

    \b
    bertline compile my.yaml --root gs://bucket/root -o pipeline.yaml         then: bertline submit pipeline.yaml --host URL
    bertline compile my.yaml --engine vertex --root gs://bucket/root -o pipeline.json
    bertline compile my.yaml --engine tfjob --root /mnt/shared -o job.yaml    then: kubectl apply -f job.yaml
    """
    from bertline.pipeline.settings.loader import load

    given = [f"cluster.{name}={value}" for name, value in (("root", root), ("image", image)) if value]
    loaded = load(config, [*overrides, *given])
    path = out or f"{loaded.name}.yaml"
    text = render(loaded, engine, path)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BertlineError(f"{path}: {error.strerror}; name a file that can be written by --out.") from error
    follow = f"kubectl apply -f {path}" if engine == "tfjob" else f"bertline submit {path} --host URL"
    if engine == "vertex":
        follow = f"pass {path} to aiplatform.PipelineJob(template_path=…)"
    click.echo(f"Written to {path}. Next: {follow}", err=True)


def render(config: Config, engine: Any, path: str) -> str:
    if engine == "tfjob":
        from bertline.pipeline.orchestration.tfjob import as_yaml

        return as_yaml(config)
    try:
        from bertline.pipeline.orchestration.kubeflow_runner import as_text, compile_job
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("kfp"):
            raise BertlineError("kfp is not installed; pip install 'bertline[kubeflow]'.") from None
        raise
    return as_text(compile_job(config, engine), path)
