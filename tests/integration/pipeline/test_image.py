"""The container image: its Dockerfile is sound, and what it installs runs the pipeline's steps."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"(?m)^\s*#.*\n", "", (ROOT / "Dockerfile").read_text()).replace("\\\n", " ")
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in text.splitlines()) if name]


def test_the_dockerfile_has_no_finding():
    done = subprocess.run([Path(sys.executable).parent / "hadolint", ROOT / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Path:
    """The folder of an environment that the Dockerfile's own commands have made, from the files that it copies alone."""
    folder = tmp_path_factory.mktemp("image")
    source, environment = folder / "src", folder / "opt"
    source.mkdir()
    tools = ROOT / ".uv" / "bin"
    path = os.pathsep.join([str(environment / "bin"), str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {**os.environ, "VIRTUAL_ENV": str(environment), "PATH": path}
    ran = 0
    for name, rest in instructions():
        rest = rest.replace("${VARIANT}", "cpu")
        if name == "COPY":
            *given, target = rest.split()
            for one in given:
                to = source / (one if target == "./" else target)
                if (ROOT / one).is_dir():
                    shutil.copytree(ROOT / one, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(ROOT / one, to)
        elif name == "RUN":
            # uv is on this machine already; what was downloaded before need not be again.
            command = re.sub(r"pip install --no-cache-dir uv==\S+ && |--no-cache ", "", rest)
            done = subprocess.run(["sh", "-ec", command], cwd=source, env=variables, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[-3000:]
            ran += 1
    assert ran == 3
    return environment


@pytest.mark.full
def test_what_the_image_installs_finds_the_steps_without_the_sources(image, tmp_path):
    code = (
        "import bertline, bertline.pipeline.orchestration.kubeflow_runner as made; print(made.COMMAND, bertline.__file__)"
    )
    environment = {"PATH": str(image / "bin"), "HOME": str(tmp_path)}
    done = subprocess.run(
        [image / "bin" / "python", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "bertline.pipeline.orchestration.kubeflow_step" in done.stdout and f"{image}/" in done.stdout
    shown = subprocess.run(
        [image / "bin" / "bertline", "--version"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert shown.returncode == 0 and "0.1.0" in shown.stdout


def test_both_locks_have_the_same_versions_of_what_both_have():
    def versions(name: str) -> dict[str, str]:
        return dict(re.findall(r"(?m)^([a-z0-9._-]+(?:\[[a-z,-]+\])?)==(\S+)", (ROOT / name).read_text()))

    cpu, tests = versions("requirements-cpu.lock"), versions("requirements.lock")
    assert cpu.items() <= tests.items() and len(cpu) > 100, "what is tested is what the image has"
    assert "pytest" not in cpu and "tensorflow-cpu" in cpu
