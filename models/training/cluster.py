"""Several processes that train one model together: who they are.

They are named by TF_CONFIG, which TensorFlow's documentation and Kubeflow's TFJob both write:

    {"cluster": {"worker": ["host-0:2222", "host-1:2222"]}, "task": {"type": "worker", "index": 1}}

The first is the chief: it alone writes. All read the same files, so they share a file system.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from bertline.pipeline.core.errors import BertlineError

VARIABLE = "TF_CONFIG"
PEER_LOST = 138
"""Code that a process ends with when another is gone. Kubeflow starts a process again that ended with 128 or more, and
leaves this one to programs."""


@dataclass(frozen=True)
class Cluster:
    """The processes of a training, and which of them this one is."""

    addresses: tuple[str, ...]
    """HOST:PORT of each, the chief first."""
    index: int

    @property
    def is_chief(self) -> bool:
        return self.index == 0

    def __len__(self) -> int:
        return len(self.addresses)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Cluster | None:
        """None where TF_CONFIG is missing, or names this process alone."""
        given = environment.get(VARIABLE, "").strip()
        try:
            found = json.loads(given or "{}")
            named = found.get("cluster", {})
            members = [(kind, at) for kind in ("chief", "worker") for at, _ in enumerate(named.get(kind, ()))]
            addresses = tuple(str(named[kind][at]) for kind, at in members)
            others = sorted(named.keys() - {"chief", "worker"})
            task = (str(found["task"]["type"]), int(found["task"]["index"])) if addresses else ("worker", 0)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            example = '{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}'
            raise BertlineError(f"{VARIABLE} cannot be read ({error!r}); it should be as {example}.") from None
        if others:
            raise BertlineError(
                f"{VARIABLE} names {', '.join(others)}; a model is trained by a chief and workers here, which all compute."
            )
        if len(addresses) < 2:
            return None
        if task not in members:
            known = ", ".join(f"{kind} {at}" for kind, at in members)
            raise BertlineError(f"{VARIABLE}: the task {task[0]} {task[1]} is not in its cluster, which has {known}.")
        return cls(addresses, members.index(task))
