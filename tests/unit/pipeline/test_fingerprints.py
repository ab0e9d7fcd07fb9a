import ast
import dis
import importlib
import inspect
import json
import re
from collections.abc import Iterator

import pytest
from ml_metadata.metadata_store.metadata_store import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd

from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.orchestration import fingerprints
from bertline.pipeline.orchestration.executions import StepExecutions
from bertline.pipeline.orchestration.fingerprints import PACKAGES, ROOT, code_fingerprint, file_fingerprint
from bertline.pipeline.orchestration.source_code import Source


def test_a_step_depends_on_the_code_it_imports_and_on_no_other():
    trainer = json.loads(code_fingerprint("bertline.components.trainer.executor", "bertline.models.tasks.classification"))
    assert {
        "models/training/loop.py",
        "models/data/batching.py",
        "models/tasks/classification.py",
        "serving/export/saved_model.py",
    } <= set(trainer)
    assert not any(name.startswith(("components/ingest/component.py", "components/tracking/")) for name in trainer)
    ingest = json.loads(code_fingerprint("bertline.components.ingest.component"))
    assert "models/training/loop.py" not in ingest and "components/ingest/readers/registry.py" in ingest


def test_a_changed_byte_changes_the_fingerprint(tmp_path, monkeypatch):
    package = tmp_path / "models"
    package.mkdir()
    (package / "a.py").write_text("from bertline.models import b\n")
    (package / "b.py").write_text("x = 1\n")
    monkeypatch.setattr(fingerprints, "ROOT", tmp_path)
    before = json.loads(code_fingerprint("bertline.models.a"))
    (package / "b.py").write_text("x = 2\n")
    after = json.loads(code_fingerprint("bertline.models.a"))
    assert before["models/a.py"] == after["models/a.py"] and before["models/b.py"] != after["models/b.py"]


def test_a_folder_is_known_by_the_bytes_of_its_files(tmp_path):
    assert file_fingerprint(None) == ""
    (tmp_path / "a").write_bytes(b"1")
    before = file_fingerprint(str(tmp_path))
    (tmp_path / "a").write_bytes(b"2")
    assert file_fingerprint(str(tmp_path)) != before


def test_imports_point_one_way():
    """Each package imports from those before it: pipeline.core, pipeline.config, models, serving, components, pipeline."""
    order = [
        f"bertline.{name}" for name in ("pipeline.core", "pipeline.config", "models", "serving", "components", "pipeline")
    ]

    def layer(module: str) -> int:
        return next((at for at, package in enumerate(order) if f"{module}.".startswith(f"{package}.")), -1)

    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        own = layer(".".join(("bertline", *path.relative_to(ROOT).with_suffix("").parts)))
        source = Source("", path.read_bytes())
        for taken in [*source.references, *(one for given in source.on_demand.values() for one in given)]:
            module = ".".join(filter(None, taken))
            assert layer(module) <= own, f"{path.relative_to(ROOT)} imports {module}"


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(BertlineError, match="vocab.txt: there is no such file"):
        file_fingerprint(str(tmp_path / "vocab.txt"))


SOURCES = {
    "pipeline/config/__init__.py": """
from bertline.pipeline.config.data import KEYS, Data
from bertline.pipeline.config.training import Training
""",
    "pipeline/config/data.py": '''
from bertline.pipeline.config.base import Frozen

KEYS = ("text", "label")

class Split(Frozen):
    share = 0.1
    """Of the examples."""

class Data(Frozen):
    split = Split()

    @property
    def columns(self):
        """By name."""
        return dict.fromkeys(KEYS)

class Validation(Frozen):
    drift = 0.1
''',
    "pipeline/config/base.py": "class Frozen:\n    extra = 0\n",
    "pipeline/config/training.py": "class Training:\n    rate = 0.1\n",
    "pipeline/core/storage.py": (
        "def at(path):\n    from bertline.pipeline.core.hubs import copy\n    return copy(path)\ndef find(): ...\n"
    ),
    "pipeline/core/hubs.py": "def copy(path):\n    return path\ndef newest(): ...\n",
    "pipeline/cli.py": "from bertline.models import reading\n",
    "models/reading.py": """
from __future__ import annotations
from typing import TYPE_CHECKING
from bertline.models.formats import light
from bertline.pipeline.config import Data
from bertline.pipeline.core.storage import at
if TYPE_CHECKING:
    from bertline.pipeline.config import Training
def read(data: Data, training: Training): return at(data.columns)
""",
    "models/formats/__init__.py": """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from bertline.models.formats.files import heavy, light
    from bertline.models.formats.more import rest
def __getattr__(name): ...
""",
    "models/formats/files.py": "heavy = light = 1\n",
    "models/formats/more.py": "rest = 1\n",
}
"""Of a step that takes something from `pipeline`, and of more that it does not take."""


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(fingerprints, "ROOT", tmp_path)
    return tmp_path


def test_what_a_step_takes_of_pipeline_counts_definition_by_definition(root):
    assert set(json.loads(code_fingerprint("bertline.models.reading"))) == {
        *("models/reading.py", "models/formats/__init__.py", "models/formats/files.py"),
        *(f"pipeline/config/data.py:{name}" for name in ("KEYS", "Split", "Data")),
        *("pipeline/config/base.py:Frozen", "pipeline/core/storage.py:at", "pipeline/core/hubs.py:copy"),
    }


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("config/data.py", "fromkeys(KEYS)", "fromkeys(KEYS[:1])", {"config/data.py:Data"}),
        ("config/data.py", "share = 0.1", "share = 0.2", {"config/data.py:Split"}),
        ("config/data.py", '"label")', '"class")', {"config/data.py:KEYS"}),
        ("config/base.py", "extra = 0", "extra = 1", {"config/base.py:Frozen"}),
        ("core/hubs.py", "return path", "return str(path)", {"core/hubs.py:copy"}),
        # A docstring, a comment, the section of another step, a definition that nobody takes, who takes what.
        ("config/data.py", "Of the examples", "Of all examples", set()),
        ("config/data.py", "(self):", "( self ):  # in order", set()),
        ("config/data.py", "drift = 0.1", "drift = 0.2", set()),
        ("config/training.py", "rate", "learning_rate", set()),
        ("config/__init__.py", "KEYS, Data", "KEYS, Data, Validation", set()),
        ("core/storage.py", "find():", "find(path):", set()),
        ("cli.py", "import reading", "import reading as door", set()),
    ],
)  # fmt: skip
def test_a_changed_definition_is_known_to_those_who_take_it(root, file, old, new, changed):
    before = json.loads(code_fingerprint("bertline.models.reading"))
    path = root / "pipeline" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    after = json.loads(code_fingerprint("bertline.models.reading"))
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {f"pipeline/{name}" for name in changed}


@pytest.mark.parametrize(
    "more", ["Data.columns = None", "for name in KEYS: print(name)", "from bertline.pipeline.core.hubs import *"]
)
def test_a_file_that_does_more_than_define_counts_as_a_whole(root, more):
    with (root / "pipeline/config/data.py").open("a") as file:
        file.write(f"{more}\n")
    assert {"pipeline/config/data.py", "pipeline/config/base.py:Frozen"} <= json.loads(
        code_fingerprint("bertline.models.reading")
    ).keys()


def test_a_module_that_is_taken_as_a_whole_counts_as_a_whole(root):
    (root / "models/reading.py").write_text(
        "from bertline.pipeline import config; from bertline.pipeline.core import storage\n"
    )
    taken = json.loads(code_fingerprint("bertline.models.reading"))
    assert {
        f"pipeline/{name}" for name in ("config/__init__.py", "config/training.py:Training", "core/storage.py")
    } <= taken.keys()


def test_every_step_is_known_by_all_that_it_takes_of_pipeline():
    """Compared with what Python has made of the same code."""
    calls = re.findall(r"code_fingerprint\((.+?)\)", (ROOT / "pipeline/orchestration/builder.py").read_text())
    assert len(calls) > 8
    for modules in {tuple(re.findall(r'"([\w.]+)"', call)) for call in calls}:
        known = json.loads(code_fingerprint(*modules, "bertline.models.tasks.classification")).keys()
        wanted = {_place(value): source for source in known for value in _taken(source) if _place(value)}
        assert wanted.keys() <= known, f"{modules}: {[(wanted[name], name) for name in wanted.keys() - known]}"
        assert any(name.startswith("pipeline/config/") for name in wanted)


def _place(value: object) -> str:
    """What a class, a function or a module of `pipeline` is called in a fingerprint; nothing of other values."""
    name = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) or ""
    if (
        not name.startswith("bertline.pipeline.")
        or name.startswith(fingerprints._WITHOUT_EFFECT)
        or not (inspect.ismodule(value) or inspect.isroutine(value) or inspect.isclass(value))
    ):
        return ""
    return f"{name.removeprefix('bertline.').replace('.', '/')}.py" + (
        "" if inspect.ismodule(value) else f":{value.__qualname__}"
    )


def _taken(source: str) -> Iterator[object]:
    """The values that a source takes from `pipeline`: by its imports, or by the names in the bytecode of a definition."""
    file, _, definition = source.partition(":")
    if not definition:
        tree = ast.parse((ROOT / file).read_text())
        blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
        never_run = {node for block in blocks for node in ast.walk(block)}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.ImportFrom)
                and str(node.module).startswith("bertline.pipeline")
                and node not in never_run
            ):
                yield from (getattr(importlib.import_module(str(node.module)), alias.name) for alias in node.names)
        return
    module = importlib.import_module("bertline." + file.removesuffix(".py").replace("/", "."))
    value = getattr(module, definition)
    yield from getattr(value, "__mro__", ())
    members = vars(value).values() if inspect.isclass(value) else [inspect.unwrap(value)] if callable(value) else []
    codes = [code for each in members if (code := getattr(getattr(each, "fget", each), "__code__", None))]
    for code in codes:
        codes += [const for const in code.co_consts if inspect.iscode(const)]
        yield from (vars(module).get(step.argval) for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("models/tokenization/tokenizer.py", "the code in models/tokenization/tokenizer.py changed"),
        ("pipeline/config/data.py:DataConfig", "the code of DataConfig in pipeline/config/data.py changed"),
    ],
)
def test_a_step_that_runs_again_says_which_code_changed(source, told):
    config = mlmd.ConnectionConfig()
    config.fake_database.SetInParent()
    store = MetadataStore(config)
    step = store.put_execution_type(mlmd.ExecutionType(name="step"))
    node = mlmd.Context(type_id=store.put_context_type(mlmd.ContextType(name="node")), name="line.step")
    for digest in ("before", "after"):
        execution = mlmd.Execution(type_id=step, last_known_state=mlmd.Execution.COMPLETE)
        execution.custom_properties["code"].string_value = json.dumps({source: digest, "models/tasks/base/task.py": "same"})
        store.put_execution(execution, [], [node], reuse_context_if_already_exist=True)
    assert list(StepExecutions(store, "line.step").changes(None)) == [told]
