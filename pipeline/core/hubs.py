"""Checkpoints by the names that people know them by: on the Hugging Face Hub, and KerasHub's presets.

The hubs' own clients download, each into its own cache, which other programs of the user share. What has been downloaded
once is read without a network. Only what a checkpoint needs is fetched: a repository often holds its weights five times.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from bertline.pipeline.core import checkpoint_formats as formats
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.storage import HUBS, local_copy

T = TypeVar("T")
HUGGING_FACE, KAGGLE = HUBS
_REPOSITORY = re.compile(r"hf://(?P<name>[\w.-]+(?:/[\w.-]+)?)(?:@(?P<revision>[\w.-]+))?(?:/(?P<inside>[^@]+))?")
_KAGGLE_MODEL = re.compile(r"kaggle://(?P<name>[\w.-]+/[\w.-]+/[\w.-]+/[\w.-]+(?:/\d+)?)(?:/(?P<inside>.+))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_PRESET_NAME = re.compile(r"[a-z][a-z0-9]*_[\w.-]+")
_SETTINGS = [
    formats.CONFIG, formats.VOCAB, formats.TOKENIZER, "tokenizer.json", "modules.json", "metadata.json",
    "1_Pooling/config.json", "assets/tokenizer/*",
]  # fmt: skip
_WEIGHTS = (
    ["model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors"],
    [formats.PRESET_WEIGHTS],
    ["pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin"],
)
"""Kinds of files with weights, of which the first that a repository has is fetched."""


def preset_handle(name: str, beside: Path | None = None) -> str | None:
    """Where KerasHub's own preset of BERT with this name is, as `bert_tiny_en_uncased`; None where it has none.

    Args:
      beside: the folder that a path is relative to; what is there under the name is meant, and no preset.
    """
    if not _PRESET_NAME.fullmatch(name) or Path(beside or "", name).exists():
        return None
    handle = _presets().get(name, {}).get("kaggle_handle")
    return str(handle) if handle else None


def local_checkpoint(named: str) -> Path:
    """A checkpoint that somebody names on a command line: a folder, a name on a hub, or a place in a bucket."""
    return Path(local_copy(preset_handle(named) or named))


def pinned(path: str) -> str:
    """A name on a hub with the very commit that is taken now, so that a run says what it started from.

    A branch moves on; the commit is read from the cache ever after, also without a network.
    """
    found = _REPOSITORY.fullmatch(path)
    if found is None:
        return path
    copy = Path(_repository(path, found["name"], found["revision"]))
    return "/".join(filter(None, (f"{HUGGING_FACE}{found['name']}@{copy.name}", found["inside"])))


def downloaded_copy(path: str) -> str:
    """The folder, or the file in it, on this machine; it is downloaded if the cache does not have it."""
    if found := _REPOSITORY.fullmatch(path):
        folder = _repository(path, found["name"], found["revision"])
    elif found := _KAGGLE_MODEL.fullmatch(path):
        folder = _kaggle(path, found["name"])
    else:
        raise BertlineError(
            f"{path} is no name of a model; write hf://ORGANISATION/NAME or kaggle://OWNER/MODEL/keras/NAME."
        )
    inside = found["inside"]
    if not inside:
        return folder
    if ".." in Path(inside).parts:
        raise BertlineError(f"{path}: a path inside a checkpoint may not lead out of it.")
    return str(Path(folder, inside))


def _repository(path: str, name: str, revision: str | None) -> str:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    # What the client says of its own retries would stand between our lines.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)

    def fetch(files: list[str], **where: Any) -> str:
        return str(huggingface_hub.snapshot_download(name, allow_patterns=files, etag_timeout=5, **where))

    commit = revision if revision and _COMMIT.fullmatch(revision) else _newest(path, name, revision)
    with suppress(LocalEntryNotFoundError):
        folder = fetch(_SETTINGS, revision=commit or revision, local_files_only=True)
        if _is_whole(Path(folder)):
            return folder
    # By the name that was given: the cache then knows its commit where there is no network.
    folder = _reached(path, lambda: fetch(_SETTINGS, revision=revision))
    for files in _WEIGHTS:
        if _is_whole(Path(folder)):
            break
        _reached(path, lambda files=files: fetch(files, revision=revision))  # type: ignore[misc]
    return folder


def _newest(path: str, name: str, revision: str | None) -> str | None:
    """The commit that a branch or a tag is at now; None where nobody answers, and the cache has to know."""
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    def ask() -> str | None:
        try:
            return huggingface_hub.model_info(name, revision=revision, timeout=5).sha
        except (HfHubHTTPError, HFValidationError):
            raise
        except Exception:  # of whichever HTTP client this version of the hub's is built on
            return None

    return _reached(path, ask)


def _is_whole(folder: Path) -> bool:
    """Whether the folder has weights, in all of their shards."""
    found = formats.look(folder)
    if found is None or not found.weights.name.endswith(formats.INDEX):
        return found is not None
    shards = json.loads(found.weights.read_text(encoding="utf-8")).get("weight_map", {}).values()
    return all((folder / shard).is_file() for shard in {*shards})


def _kaggle(path: str, name: str) -> str:
    import kagglehub

    return _reached(path, lambda: str(kagglehub.model_download(name)))


def _reached(path: str, fetch: Callable[[], T]) -> T:
    try:
        return fetch()
    except Exception as error:  # each client has dozens of its own
        raise BertlineError(f"{path}: {_explained(path, error)}") from error


_UNKNOWN = ("RepositoryNotFoundError", "RevisionNotFoundError", "HFValidationError", "NotFoundError")
_REFUSED = ("GatedRepoError", "UnauthenticatedError", "CredentialError", "DisabledRepoError")


def _explained(path: str, error: Exception) -> str:
    names = [kind.__name__ for kind in type(error).__mro__]
    status = getattr(getattr(error, "response", None), "status_code", None)
    how = "HF_TOKEN in the environment" if path.startswith(HUGGING_FACE) else "KAGGLE_API_TOKEN in the environment"
    if status in (401, 403) or any(name in _REFUSED for name in names):
        # The Hub answers so for what is private, and for what does not exist.
        return f"the hub does not give it to you; check the name, accept its terms on its page, and give {how}."
    if status == 404 or any(name in _UNKNOWN for name in names):
        return f"the hub has no such model; check the name and the revision, or give {how} if it is private."
    return (
        f"it is not in the cache, and the hub cannot be reached ({type(error).__name__}). Where there is a network, run the"
        " same config once, or copy the checkpoint's folder to this machine and name the folder."
    )


def _presets() -> dict[str, Any]:
    """KerasHub's table, read from its file: to import KerasHub takes all of TensorFlow."""
    package = importlib.util.find_spec("keras_hub")
    if package is None or not package.submodule_search_locations:
        return {}
    path = Path(package.submodule_search_locations[0], "src", "models", "bert", "bert_presets.py")
    spec = importlib.util.spec_from_file_location("bertline_keras_hub_bert_presets", path)
    if not path.is_file() or spec is None or spec.loader is None:
        return {}
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(getattr(module, "backbone_presets", {}))
