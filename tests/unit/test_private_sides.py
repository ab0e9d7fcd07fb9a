"""What is private to a library is touched in few places, which say so and are tested after each upgrade."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from bertline.pipeline.orchestration.fingerprints import PACKAGES

ROOT = Path(__file__).parents[2]
PLACES = {
    "components/compat.py": "tests/integration/components/test_private_tfx.py",
    "models/compat.py": "tests/unit/models/test_private_sacrebleu.py",
    "pipeline/compat.py": "tests/integration/pipeline/test_private_runner.py",
    "pipeline/orchestration/lean_beam.py": "tests/integration/pipeline/test_private_runner.py",
    "serving/lean_tensorflow.py": "tests/integration/serving/test_lean_tensorflow.py",
    "serving/embedded/rest/connections.py": "tests/unit/serving/test_private_uvicorn.py",
}
"""Modules that touch a private side, and the test that fails when an upgrade changes it."""
INSIDES = (
    "tfx.orchestration.local.runner_utils",
    "tfx.orchestration.portable",
    "tfx.components.transform.executor_utils",
    "tensorflow_transform.impl_helper",
    "tensorflow_data_validation.statistics.stats_impl",
    "tensorflow.python",
    "keras.src",
    "keras_tuner.src",
    "uvicorn.protocols",
    "apache_beam.internal",
    "apache_beam.runners.portability",
)
"""Modules that are a library's own, though their names have no underscore."""
PUBLIC = {"_asdict", "_replace", "_fields", "_make", "_exit"}
"""Of named tuples and `os`: documented."""


def test_private_sides_of_libraries_are_touched_in_their_places_alone():
    trees = {
        str(path.relative_to(ROOT)): ast.parse(path.read_bytes())
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
    }
    own = PUBLIC | {name for tree in trees.values() for name in _defined(tree)}
    touched = {file: sorted({*_touched(tree, own)}) for file, tree in trees.items() if file not in PLACES}
    assert {file: names for file, names in touched.items() if names} == {}, (
        "move them into the compat module of the package"
    )


def test_each_place_names_the_library_and_its_test():
    for file, test in PLACES.items():
        told = ast.get_docstring(ast.parse((ROOT / file).read_bytes()))
        assert told and any(character.isdigit() for character in told), f"{file}: say of which version this is known"
        assert "tests/" in told and (ROOT / test).is_file(), f"{file}: name the test that an upgrade has to pass"


def _private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _defined(tree: ast.AST) -> Iterator[str]:
    """Private names that are ours: they may be taken from another object of ours."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def _touched(tree: ast.AST, own: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if _private(name) and name not in own:
                yield ast.unparse(node)
            case ast.ImportFrom(module=str(module), names=names, level=0) if not module.startswith("bertline"):
                whole = [f"{module}.{alias.name}" for alias in names]
                yield from (name for name in whole if name.startswith(INSIDES) or any(map(_private, name.split("."))))
            case ast.Import(names=names):
                yield from (a.name for a in names if a.name.startswith(INSIDES) or any(map(_private, a.name.split("."))))
