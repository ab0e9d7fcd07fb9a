"""As much of TensorFlow as loads and runs a SavedModel: a session, its errors, types, records and messages.

`import tensorflow` makes the whole public API: Keras, estimators, `compat.v1`, distribution strategies, and Google's client
libraries because of one of these. That is 3 of the 4 seconds in which `bertline predict` answered one text, and most of
what a fresh server took until it listened. A session needs a tenth of it. So, where nothing has imported TensorFlow yet, a
bare package stands in its place while the parts are imported, and is then taken away: whoever imports TensorFlow later in
this process gets the real one, made of these same parts. Where TensorFlow is there, its parts are taken as they are.

The parts are TensorFlow's own modules and no public API, and nothing else in `serving` names them. This is known to work
with TensorFlow 2.16.2 and tensorflow_text 2.16.1, and `tests/integration/serving/test_lean_tensorflow.py` holds it; where
a lean import does not, everything is imported as usual.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
import site
import sys
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

_PARTS = (
    "client.pywrap_tf_session",
    "client.session",
    "framework.dtypes",
    "framework.errors_impl",
    "framework.ops",
    "lib.io._pywrap_record_io",
    "lib.io.tf_record",
    "saved_model.loader_impl",
    "util.compat",
)
_MESSAGES = (
    "example.example_pb2",
    "framework.tensor_pb2",
    "framework.types_pb2",
    "protobuf.config_pb2",
    "protobuf.error_codes_pb2",
    "protobuf.meta_graph_pb2",
    "protobuf.named_tensor_pb2",
)
"""Also those that the messages of TensorFlow Serving are made of: these can then be imported at any time."""
_TEXT_OPS = "python/ops/*.so"


def _import_parts() -> None:
    if "tensorflow" not in sys.modules:
        try:
            _import_lean()
            return
        except Exception as error:  # of whatever kind: the usual way is slower, and no less right
            logging.getLogger(__name__).info("TensorFlow is imported as a whole: %s: %s", type(error).__name__, error)
    importlib.import_module("tensorflow")
    importlib.import_module("tensorflow_text")  # the ops inside the models


def _import_lean() -> None:
    tensorflow, text = _spec("tensorflow"), _spec("tensorflow_text")
    if any((Path(folder) / "tensorflow-plugins").exists() for folder in (*sys.path, site.getusersitepackages())):
        raise ImportError("only TensorFlow itself loads the devices of tensorflow-plugins")
    with _bare_package(tensorflow):
        os.environ["TF2_BEHAVIOR"] = "1"  # as TensorFlow does before all else: some modules ask for it at their import
        importlib.import_module("tensorflow.python.tf2").enable()
        for name in _PARTS:
            importlib.import_module(f"tensorflow.python.{name}")
        for name in _MESSAGES:
            importlib.import_module(f"tensorflow.core.{name}")
    # The ops of texts and their kernels, without tensorflow_text's Python. One that is loaded is not loaded again.
    libraries = sorted(Path(_folder(text)).glob(_TEXT_OPS))
    if not libraries:
        raise ImportError(f"tensorflow_text has no {_TEXT_OPS}")
    for library in libraries:
        _module("python.client.pywrap_tf_session").TF_LoadLibrary(str(library))


@contextlib.contextmanager
def _bare_package(spec: ModuleSpec) -> Iterator[None]:
    package = types.ModuleType(spec.name)
    package.__path__, package.__spec__ = [_folder(spec)], spec
    sys.modules[spec.name] = package
    try:
        yield
    finally:
        if sys.modules.get(spec.name) is package:
            del sys.modules[spec.name]


def _spec(name: str) -> ModuleSpec:
    found = importlib.util.find_spec(name)
    if found is None:
        raise ImportError(f"there is no {name}")
    return found


def _folder(spec: ModuleSpec) -> str:
    assert spec.submodule_search_locations
    return next(iter(spec.submodule_search_locations))


def _module(name: str) -> Any:
    return importlib.import_module(f"tensorflow.{name}")


_import_parts()

Session: Any = _module("python.client.session").Session
Graph: Any = _module("python.framework.ops").Graph
SavedModelLoader: Any = _module("python.saved_model.loader_impl").SavedModelLoader
errors: Any = _module("python.framework.errors_impl")
as_dtype: Any = _module("python.framework.dtypes").as_dtype
as_bytes: Any = _module("python.util.compat").as_bytes
RecordIterator: Any = _module("python.lib.io._pywrap_record_io").RecordIterator
"""(path, compression) -> the records of a TFRecord file."""
TFRecordWriter: Any = _module("python.lib.io.tf_record").TFRecordWriter


def callable_of(session: Any, feeds: tuple[str, ...], fetches: tuple[str, ...]) -> Any:
    """A function of arrays that runs a graph: `_make_callable_from_options` of TensorFlow's `Session`.

    The public `Session.run` looks through names and shapes again with each request. Without this one, that is the way.
    """
    options = _module("core.protobuf.config_pb2").CallableOptions(feed=feeds, fetch=fetches)
    return session._make_callable_from_options(options)
