"""The wheel, installed where a user's own modules have the names of our folders: one package, which is all that is needed.

The environment is a new one that sees the packages of this one, but not this repository: a directory in a .pth file is
searched, and the .pth files inside it (the one of an editable installation) are not read.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from documents import ROOT

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

FOLDERS = ("components", "models", "pipeline", "serving")
_NOT_COPIED = shutil.ignore_patterns(".*", "build", "workspace", "tests", "docs", "notebooks", "*.egg-info", "__pycache__")


def called(folder: Path, *words: str | Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"NO_COLOR": "1"}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: setuptools leaves folders beside what it builds."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", symlinks=True, ignore=_NOT_COPIED)
    build = ("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", folder, folder / "source")
    called(folder, sys.executable, "-m", "pip", *build)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(tmp_path_factory, wheel):
    """The folder of the programs of an environment that has the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    called(folder, sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    site = Path(called(folder, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "packages-of-the-tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    install = ("install", "--no-deps", "--no-index", "--no-compile", wheel)
    called(folder, sys.executable, "-m", "pip", "--python", python, *install)
    return python.parent


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    """A user's folder, with modules that have other names than ours only in full."""
    folder = tmp_path_factory.mktemp("users")
    for name in FOLDERS:
        (folder / f"{name}.py").write_text("raise RuntimeError('this is the module of a user')\n")
    return folder


def test_the_wheel_holds_one_package_with_all_of_its_files(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"bertline"}
    ours = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    ours = [path for path in ours if "__pycache__" not in path.parts]
    assert {f"bertline/{path.relative_to(ROOT).as_posix()}" for path in ours} <= set(names)
    assert "bertline/py.typed" in names and "bertline/plugins.py" in names


def test_nothing_else_of_ours_is_installed(installed, users):
    code = "import sysconfig, os; print(*os.listdir(sysconfig.get_path('purelib')))"
    found = set(called(users, installed / "python", "-c", code).split())
    assert not found & {*FOLDERS, *(f"{name}.py" for name in FOLDERS)} and "bertline" in found
    where = Path(called(users, installed / "python", "-c", "import bertline; print(bertline.__file__)").strip())
    assert where.is_relative_to(installed.parent)


def test_the_commands_and_the_python_api_work_beside_modules_of_a_user(installed, users):
    assert "Usage" in called(users, installed / "bertline", "--help")
    assert "Usage" in called(users, installed / "python", "-m", "bertline.pipeline.cli", "--help")
    names = "import bertline, bertline.plugins as p; [getattr(m, name) for m in (bertline, p) for name in m.__all__]"
    called(users, installed / "python", "-c", names)


def test_a_model_is_trained_pushed_and_asked_beside_modules_of_a_user(installed, users):
    summary = json.loads(called(users, installed / "bertline", "run", "reviews-tiny", "--json"))
    assert summary["status"] == "succeeded" and summary["pushed_version"] == 1
    (said,) = called(users, installed / "bertline", "predict", "--json", "A film to remember.").splitlines()
    code = "import bertline; print(bertline.load().predict('A film to remember.')[0].label)"
    assert called(users, installed / "python", "-c", code).strip() == json.loads(said)["label"]
