"""Which versions of a model are to be served: a pure function of what stands on the disk and of its policy."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from tensorflow_serving.config import file_system_storage_path_source_pb2

Policy: TypeAlias = file_system_storage_path_source_pb2.FileSystemStoragePathSourceConfig.ServableVersionPolicy


def on_disk(base_path: Path) -> dict[int, Path]:
    """Folders whose name is a number; `00000123` is 123. Of two with one number the last by name is taken."""
    try:
        children = sorted(base_path.iterdir(), key=lambda child: child.name)
    except OSError:  # not there yet, or taken away: the versions that are loaded go on
        return {}
    return {
        int(child.name): child
        for child in children
        if child.name.isascii() and child.name.isdigit() and int(child.name) < 1 << 63 and os.path.isdir(child)
    }


def wanted(found: Iterable[int], policy: Policy) -> list[int]:
    """The versions that the policy asks for, of those that are found; the highest one without a policy."""
    versions = sorted(found)
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return versions
    if choice == "specific":
        return [version for version in versions if version in policy.specific.versions]
    return versions[-(policy.latest.num_versions or 1) :]
