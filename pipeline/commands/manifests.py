"""`bertline manifests`: a pushed model for a Kubernetes cluster."""

from __future__ import annotations

from pathlib import Path

import click

from bertline.pipeline.commands.options.serving import named_model
from bertline.pipeline.core.errors import BertlineError


@click.command()
@click.option("--name", help="The model's name in requests. [default: the pipeline's, or the folder's]")
@click.option("--model_base_path", metavar="DIR", help="Folder of its numbered versions. [default: what was pushed last]")
@click.option("--workspace", default="workspace", show_default=True, help="Where to look for what was pushed last.")
@click.option("--kind", type=click.Choice(["deployment", "kserve"]), default="deployment", show_default=True)
@click.option("--storage", metavar="URI", help="Where the cluster finds that folder. [default: pvc://NAME-models]")
@click.option("--image", help="[default: tensorflow/serving, of the version that this package supports]")
@click.option("--replicas", type=click.IntRange(1), default=1, show_default=True)
@click.option("-o", "--out", "out", metavar="FILE", help="Write it there. [default: the standard output]")
def manifests(
    name: str | None,
    model_base_path: str | None,
    workspace: str,
    kind: str,
    storage: str | None,
    image: str | None,
    replicas: int,
    out: str | None,
) -> None:
    """Write Kubernetes manifests that serve a pushed model by TensorFlow Serving.

    The memory request follows from the size of the newest version. The model itself is not included: copy the folder of its
    versions to where --storage says.

    \b
    bertline manifests -o serving.yaml                             a Deployment, a Service and a ConfigMap
    bertline manifests --storage pvc://models/reviews --replicas 2 | kubectl apply -f -
    bertline manifests --kind kserve --storage gs://bucket/reviews | kubectl apply -f -

    \b
    --storage pvc://CLAIM/FOLDER    a folder of a PersistentVolumeClaim
    --storage gs://BUCKET/FOLDER    a bucket that the cluster may read
    --storage s3://… and others     with --kind kserve only, which fetches the model first
    """
    text, storage = render(name, model_base_path, workspace, kind, storage, image, replicas)
    if out is None:
        click.echo(text, nl=False)
    else:
        try:
            Path(out).write_text(text, encoding="utf-8")
        except OSError as error:
            raise BertlineError(f"{out}: {error.strerror}; name a file that can be written by --out.") from error
        click.echo(f"Written to {out}. Copy the versions to {storage}, then: kubectl apply -f {out}", err=True)


def render(
    name: str | None,
    model_base_path: str | None,
    workspace: str,
    kind: str,
    storage: str | None,
    image: str | None,
    replicas: int,
) -> tuple[str, str]:
    """The manifests as YAML, and the place that they take the model from."""
    from bertline.components.pusher.executor import latest
    from bertline.serving.contract import folder_bytes
    from bertline.serving.launch.flags import default_image
    from bertline.serving.launch.manifests import KINDS, Deployed, as_yaml, cluster_name

    if model_base_path is not None and name is None:
        name = Path(model_base_path).absolute().name
    model = named_model(name, model_base_path, workspace)
    newest = latest(model.base_path)
    if newest is None:
        raise BertlineError(f"{model.base_path}: there is no numbered version here yet; `bertline run` pushes one.")
    noted = {"bertline/version": str(newest.version)}
    if digest := newest.metadata.get("digest"):
        noted["bertline/digest"] = str(digest)
    storage = storage or f"pvc://{cluster_name(model.name)}-models"
    deployed = Deployed(
        name=model.name,
        image=image or default_image(),
        storage=storage.rstrip("/"),
        model_bytes=folder_bytes(newest.path),
        replicas=replicas,
        annotations=noted,
    )
    return as_yaml(KINDS[kind](deployed)), storage
