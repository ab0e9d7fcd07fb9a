"""The ops of exported graphs, held against what TensorFlow Serving links: TensorFlow's own and tensorflow_text's."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tensorflow.core.protobuf import saved_model_pb2

_SCRIPT = """
import json, sys
import tensorflow as tf
from tensorflow.python.framework import op_def_registry
import tensorflow_text
print(json.dumps([name for name in json.load(sys.stdin) if op_def_registry.get(name) is None]))
"""


def ops(model: Path) -> set[str]:
    saved = saved_model_pb2.SavedModel.FromString((model / "saved_model.pb").read_bytes())
    graph = saved.meta_graphs[0].graph_def
    used = {node.op for node in graph.node} | {node.op for function in graph.library.function for node in function.node_def}
    return used - {function.signature.name for function in graph.library.function}


def unknown_ops(models: Iterable[Path]) -> dict[Path, list[str]]:
    """Of each model the ops that a process does not know which has these two alone; models without any are left out."""
    used = {model: ops(model) for model in models}
    asked = json.dumps(sorted(set().union(*used.values())))
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run([sys.executable, "-c", _SCRIPT], input=asked, capture_output=True, text=True, cwd=elsewhere)
    assert done.returncode == 0, done.stderr[-2000:]
    unknown = set(json.loads(done.stdout.splitlines()[-1]))
    return {model: sorted(found & unknown) for model, found in used.items() if found & unknown}
