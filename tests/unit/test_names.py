"""Everything of ours is imported by one name, which no package of a user can hide."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from bertline.pipeline.orchestration.fingerprints import PACKAGES

ROOT = Path(__file__).parents[2]
FOLDERS = (*PACKAGES, "bertline", "tests")


def test_no_file_imports_a_package_of_ours_by_its_bare_name():
    """From the root of the repository it would work, and make a second copy of each module."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 600
    wrong = []
    for path in files:
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            wrong += [f"{path.relative_to(ROOT)}: {name}" for name in names if name.partition(".")[0] in PACKAGES]
    assert wrong == []


def test_a_folder_has_no_more_modules_than_one_can_survey():
    folders = {path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    many = {folder: len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) for folder in folders}
    assert {str(folder.relative_to(ROOT)): count for folder, count in many.items() if count > 15} == {}


def test_modules_of_a_user_disturb_nothing(tmp_path):
    for package in PACKAGES:
        (tmp_path / f"{package}.py").write_text("raise RuntimeError('a user has this')\n")
    command = [sys.executable, "-m", "bertline.pipeline.cli", "--help"]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True)
    assert done.returncode == 0 and "Usage" in done.stdout, done.stderr
