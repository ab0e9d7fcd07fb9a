"""What the presets reach on real data: trains through the whole line, and prints the score beside the one to reach.

    python tests/benchmarks/quality.py cola --data path/to/data     # its files are in path/to/data/cola
    python tests/benchmarks/quality.py --data path/to/data          # every task whose files are there
    python tests/benchmarks/quality.py rte --data path/to/data --set training.seed=1 --set training.epochs=5

The score to reach is that of a plain PyTorch loop over the same weights, data, epochs and batch size; of squad-shifts, one
that its few thousand questions are enough for.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
TOLERANCE = 0.01


class Floor(NamedTuple):
    metric: str
    score: float
    data: tuple[str, ...] = ("data={folder}",)
    """Settings that name the files."""
    folder: str | None = None
    """That holds the files; named as the preset by default."""


FLOORS = {  # preset -> what it is measured by, and what it has to reach on the held-out rows
    "cola": Floor("matthews", 0.279),
    "rte": Floor("accuracy", 0.578),
    "stsb": Floor("pearson", 0.851),
    "sst2": Floor("accuracy", 0.89),
    "codah": Floor("accuracy", 0.541, ("data.train={folder}/train.tsv", "data.eval={folder}/test.tsv")),
    "wnut17": Floor("f1", 0.556, ("data.train={folder}/wnut17train.conll", "data.eval={folder}/emerging.dev.conll")),
    "squad-shifts": Floor("f1", 0.40, ("data.path={folder}/*.json.gz",), "squad"),
}


def measure(preset: str, folder: Path, overrides: list[str]) -> bool:
    """Runs one preset on the files in `folder`; whether it came to its floor."""
    floor = FLOORS[preset]
    with tempfile.TemporaryDirectory() as workspace:
        command = [sys.executable, "-m", "pipeline.cli", "run", preset, "--json", "--workspace", workspace]
        # Nothing is pushed below a bound, but here the number itself is wanted, however small.
        files = [setting.format(folder=folder.resolve()) for setting in floor.data]
        settings = [*files, f"evaluation.thresholds={{{floor.metric}: -1}}", *overrides]
        for setting in settings:
            command += ["--set", setting]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{preset}: {done.stderr.strip() or done.stdout.strip()}")
    summary = json.loads(done.stdout)
    score, rows = summary["metrics"][floor.metric], summary["rows"]
    others = ", ".join(
        f"{name} {value:.4f}" for name, value in summary["metrics"].items() if name not in (floor.metric, "rows")
    )
    print(
        f"{preset}: {floor.metric} {score:.4f} where {floor.score:g} is to be reached; {others};"
        f" {rows['train']:,} rows to train, {rows['eval']:,} held out, {summary['seconds']:.0f} s",
        flush=True,
    )
    return score >= floor.score - TOLERANCE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", choices=list(FLOORS), help="a preset; every one whose data is there by default")
    parser.add_argument("--data", type=Path, default=Path(), help="folder that holds a folder for each task")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the preset")
    given = parser.parse_args()
    folders = {preset: given.data / (floor.folder or preset) for preset, floor in FLOORS.items()}
    found = [preset for preset, folder in folders.items() if folder.is_dir()]
    chosen = [given.task] if given.task else found
    for preset in chosen:
        if preset not in found:
            sys.exit(f"{preset}: there is no folder {folders[preset]}; name the one above it by --data.")
    if not chosen:
        known = ", ".join(path.name for path in folders.values())
        print(f"nothing measured: {given.data.resolve()} has no folder {known}; name another by --data.")
    results = [measure(preset, folders[preset], given.set) for preset in chosen]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
