"""What MLflow loads of ours when it is imported: models that were recorded under an earlier name go on being loaded by it.

Their `MLmodel` names `pipeline.pyfunc` as the loader. That module is `bertline.pipeline.pyfunc` now, and nothing that is
installed is called `pipeline`. MLflow imports the module by that name, and takes what is in `sys.modules` without looking
for its package; so a user's own `pipeline` stays what it is, and `import pipeline` fails where there is none.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

_LOADER = "bertline.pipeline.pyfunc"
_EARLIER = "pipeline.pyfunc"


class _Forwarded(ModuleType):
    """`pipeline.pyfunc`, which becomes the present one when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of the import system, which is told nothing
            raise AttributeError(name)
        return getattr(import_module(_LOADER), name)


def _is_someones(module: str) -> bool:
    """Whether a module of this name is there, without importing it or its package."""
    package, _, _ = module.partition(".")
    found = PathFinder.find_spec(package)
    folders = found.submodule_search_locations if found else None
    return bool(folders) and PathFinder.find_spec(module, list(folders or ())) is not None


def forward() -> None:
    if _EARLIER not in sys.modules and not _is_someones(_EARLIER):
        sys.modules[_EARLIER] = _Forwarded(_EARLIER, __doc__)


forward()


class Repository(LocalArtifactRepository):
    """What the entry point has to give for the scheme under which it stands; nothing has an address of it."""
