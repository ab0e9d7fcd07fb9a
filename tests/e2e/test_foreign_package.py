"""A task, a reader and a metric that another package adds: from its own format to a served answer, by `bertline` alone."""

import json
import os
import random
import subprocess
import sys

import foreign
import pytest
import yaml

pytestmark = pytest.mark.full

WORDS = {"no": 0, "one": 1, "two": 2, "three": 3, "four": 4}
CONFIG = {
    "name": "amounts",
    "task": "quantity",
    "data": {"path": "amounts.arrows", "format": "arrows", "label": "amount"},
    "text": {"vocab_size": 200, "seq_len": 16},
    "model": {"layers": 1, "hidden": 32, "heads": 2, "intermediate": 64, "dropout": 0.0},
    "training": {"epochs": 12, "learning_rate": 0.003},
    "evaluation": {"thresholds": {"pearson": 0.8, "mean_error": 1.0}, "must_beat_baselines": False, "length_slices": []},
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    chance = random.Random(0)
    lines = []
    for number in range(400):
        word = chance.choice(list(WORDS))
        lines.append(f"there are {word} cats in house {number} -> {WORDS[word]}")
    (folder / "amounts.arrows").write_text("\n".join(lines) + "\n")
    (folder / "amounts.yaml").write_text(yaml.safe_dump(CONFIG))
    environment = {**os.environ, "PYTHONPATH": str(foreign.install(folder / "installed"))}

    def bertline(*arguments):
        command = [sys.executable, "-m", "bertline.pipeline.cli", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return bertline, bertline("run", "amounts.yaml"), folder


def test_it_is_learned_measured_and_pushed(ran):
    _, printed, _ = ran
    assert "pearson" in printed and "mean_error" in printed


def test_the_pushed_model_answers_in_the_terms_of_the_package(ran):
    bertline, _, _ = ran
    few, many = (json.loads(bertline("predict", "--json", f"there are {word} cats in house 7")) for word in ("no", "four"))
    assert many["quantity"] - few["quantity"] > 1.5 and few["deviation"] > 0
    assert "±" in bertline("predict", "there are two cats in house 7")


def test_only_what_depends_on_the_package_runs_again_when_its_code_changes(ran):
    bertline, _, folder = ran
    module = folder / "installed" / "quantities.py"
    assert "cached" in bertline("run", "amounts.yaml")
    module.write_text(module.read_text().replace("no arrow", "no arrow at all"))
    printed = bertline("run", "amounts.yaml")
    assert "quantities 1.2: quantities.py" in printed + "".join(
        path.read_text(errors="replace") for path in folder.rglob("*.log")
    )
