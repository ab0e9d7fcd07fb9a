"""`bertline submit`: a compiled line, handed to Kubeflow Pipelines."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
from pathlib import Path
from typing import Any

import click
import yaml

from bertline.pipeline.config import nearest
from bertline.pipeline.core.errors import BertlineError

TOKEN = "KFP_TOKEN"
_KINDS = {"NUMBER_INTEGER": "a whole number", "NUMBER_DOUBLE": "a number", "BOOLEAN": "true or false"}


@click.command()
@click.argument("pipeline", type=click.Path())
@click.option(
    "--host",
    envvar="KF_PIPELINES_ENDPOINT",
    required=True,
    help="Address of Kubeflow Pipelines. [env: KF_PIPELINES_ENDPOINT]",
)
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="Parameter of this run: data-path, epochs, learning-rate, …",
)
@click.option("--root", help="Pipeline root of this run, instead of the compiled one.")
@click.option("--experiment", help="[default: the pipeline's name]")
@click.option("--namespace", help="Namespace, for a multi-user deployment.")
def submit(
    pipeline: str, host: str, parameters: tuple[str, ...], root: str | None, experiment: str | None, namespace: str | None
) -> None:
    """Start a run of a pipeline that `bertline compile` has written, and print its URL.

    A token goes into KFP_TOKEN, never onto the command line.

    \b
    bertline submit pipeline.yaml --host https://kubeflow.example.com/pipeline
    bertline submit pipeline.yaml --host localhost:8080 --parameter epochs=3 --parameter data-path=gs://bucket/new.csv
    """
    spec = _read(pipeline)
    arguments = dict(_argument(text, spec) for text in parameters)
    name = spec["pipelineInfo"]["name"]
    stamp = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S")
    started = _start(
        host,
        namespace,
        pipeline_file=pipeline,
        arguments=arguments,
        run_name=f"{name} {stamp}",
        experiment_name=experiment or name,
        pipeline_root=root,
    )
    address = host if "://" in host else f"http://{host}"
    click.echo(f"{address.rstrip('/')}/#/runs/details/{started}")


def _read(path: str) -> dict[str, Any]:
    try:
        spec = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        spec["pipelineInfo"]["name"]  # noqa: B018
    except OSError as error:
        raise BertlineError(f"{path}: {error.strerror}; `bertline compile` writes such a file.") from None
    except (yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError):
        raise BertlineError(
            f"{path}: not a compiled pipeline; `bertline compile CONFIG -o pipeline.yaml` writes one."
        ) from None
    return dict(spec)


def _argument(text: str, spec: dict[str, Any]) -> tuple[str, Any]:
    """A parameter by its name and its type in the spec."""
    known = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    name, sign, value = text.partition("=")
    if not sign or name not in known:
        raise BertlineError(
            f"--parameter {text}: the pipeline has no parameter {name!r}{nearest(name, known)}; it has {', '.join(known)}."
        )
    kind = known[name]["parameterType"]
    try:
        if kind == "STRING":
            return name, value
        return name, int(value) if kind == "NUMBER_INTEGER" else float(value) if kind == "NUMBER_DOUBLE" else json.loads(
            value
        )
    except ValueError:
        raise BertlineError(f"--parameter {text}: {name} is {_KINDS.get(kind, kind)}.") from None


def _start(host: str, namespace: str | None, **run: Any) -> str:
    """The run's id."""
    try:
        import kfp
    except ModuleNotFoundError:
        raise BertlineError("kfp is not installed; pip install 'bertline[kubeflow]'.") from None
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints links of its own
            client = kfp.Client(
                host=host, existing_token=os.environ.get(TOKEN), **({"namespace": namespace} if namespace else {})
            )
            return str(client.create_run_from_pipeline_package(**run, namespace=namespace).run_id)
    except Exception as error:  # urllib3's, kfp_server_api's, and what its proxies send
        status = getattr(error, "status", None)
        reason = (
            f"it answered {status} {getattr(error, 'reason', '')}".strip() if status else str(error).splitlines()[0][:300]
        )
        hint = f"; a token goes into {TOKEN}" if status in (401, 403) else ""
        raise BertlineError(f"{host}: Kubeflow Pipelines did not start the run: {reason}{hint}.") from error
