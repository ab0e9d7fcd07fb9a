"""Where a pushed model is that a command is to look into."""

from __future__ import annotations

from pathlib import Path

from bertline.components.pusher.executor import latest
from bertline.pipeline.console import summary
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.storage import is_remote


def model_folder(model: str | Path | None, workspace: str) -> Path:
    """The folder of one version.

    Args:
      model: that folder; or that of all versions of a model, or the name of a pipeline in the workspace, of which the
        newest version is taken; None for what was pushed last.
    """
    found = summary.served_now(workspace) if model is None else model
    if found is None:
        raise BertlineError(f"no run in {workspace} has pushed a model yet; `bertline run` does, or name one as MODEL.")
    if is_remote(found):
        raise BertlineError(f"{found}: a model is looked into on this machine; copy its folder here, and name the copy.")
    if model is None:
        return Path(str(found))
    for folder in (Path(model), Path(workspace) / "models" / model):
        if (folder / "saved_model.pb").is_file():
            return folder
        if newest := latest(folder):
            return Path(str(newest.path))
    raise BertlineError(f"{model}: no SavedModel here, nor has a pipeline of that name in {workspace} pushed one.")
