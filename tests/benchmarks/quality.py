"""What the presets reach on real data: trains through the whole pipeline, and prints the score beside the one to reach.

    python tests/benchmarks/quality.py cola --data path/to/data     # its files are in path/to/data/cola
    python tests/benchmarks/quality.py --data path/to/data          # every task whose files are there
    python tests/benchmarks/quality.py rte --data path/to/data --seeds 1,2,3 --set training.epochs=5
    python tests/benchmarks/quality.py rte --data path/to/data --workspace runs --set training.epochs=6

What the pipeline says while it works goes to the standard error, the scores to the standard output. The workspace of a run
that failed stays. With --workspace DIR that of each preset is DIR/PRESET and stays in any case; the next run has steps
cached.

The score to reach is that of a plain PyTorch loop over the same weights, data, epochs and batch size; of squad-shifts, one
that its few thousand questions are enough for.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent.parent


class Floor(NamedTuple):
    metric: str
    score: float
    data: tuple[str, ...] = ("data={folder}",)
    """Settings that name the files."""
    folder: str | None = None
    """That holds the files; named as the preset by default."""
    tolerance: float = 0.01
    """What another seed may take away from the score of a single PyTorch run."""


FLOORS = {  # preset -> what it is measured by, and what it has to reach on the evaluation examples
    "cola": Floor("matthews", 0.279),
    "rte": Floor("accuracy", 0.578),
    "stsb": Floor("pearson", 0.851),
    "sst2": Floor("accuracy", 0.89, tolerance=0),
    "codah": Floor("accuracy", 0.541, ("data.train={folder}/train.tsv", "data.eval={folder}/test.tsv")),
    "wnut17": Floor("f1", 0.556, ("data.train={folder}/wnut17train.conll", "data.eval={folder}/emerging.dev.conll")),
    "squad-shifts": Floor("f1", 0.40, ("data.path={folder}/*.json.gz",), "squad", tolerance=0),
}


REFUSED = 3  # exit code of a run that was measured, and is worse than the one before it in the same workspace


def run(preset: str, folder: Path, workspace: Path, overrides: list[str]) -> dict[str, Any] | None:
    """Takes one preset through the pipeline, on the files in `folder`; its summary, or None if it failed."""
    floor = FLOORS[preset]
    files = [setting.format(folder=folder.resolve()) for setting in floor.data]
    # Nothing is pushed below a bound, but here the number itself is wanted, however small.
    settings = [*files, f"evaluation.thresholds={{{floor.metric}: -1}}", *overrides]
    command = [sys.executable, "-m", "bertline.pipeline.cli", "run", preset, "--workspace", str(workspace)]
    for setting in settings:
        command += ["--set", setting]
    summary = workspace / "summary.json"
    summary.unlink(missing_ok=True)  # that of the run before must not be taken for this one's
    done = subprocess.run(command, stdout=sys.stderr, cwd=ROOT)
    found = json.loads(summary.read_text()) if summary.exists() else {}
    if done.returncode in (0, REFUSED):
        return found
    told = f"its workspace stays in {workspace}, its log is {found['log']}" if found else "it was refused before it began"
    print(f"{preset}: the run failed; {told}", flush=True)
    return None


def measure(preset: str, folder: Path, workspace: Path, overrides: list[str]) -> float | None:
    """Prints what one run came to; its score, or None if it failed."""
    summary = run(preset, folder, workspace, overrides)
    if summary is None:
        return None
    floor, rows = FLOORS[preset], summary["rows"]
    score = summary["metrics"][floor.metric]
    others = ", ".join(
        f"{name} {value:.4f}" for name, value in summary["metrics"].items() if name not in (floor.metric, "rows")
    )
    trainer = next(step for step in summary["steps"] if step["name"] == "Trainer")
    training = "training cached" if trainer["cached"] else f"{trainer['seconds']:.0f} s of training"
    print(
        f"{' '.join([preset, *overrides])}: {floor.metric} {score:.4f} where {floor.score:g} is to be reached; {others};"
        f" {rows['train']:,} rows to train, {rows['eval']:,} held out, {summary['seconds']:.0f} s, {training}",
        flush=True,
    )
    return score


def measure_seeds(preset: str, folder: Path, kept: Path | None, overrides: list[str], seeds: list[int]) -> bool:
    """Measures a preset, once or with each seed; whether its score, or their mean, came to its floor."""
    # Runs of one preset share a workspace, in which the steps before the training are cached.
    workspace = kept.resolve() / preset if kept else Path(tempfile.mkdtemp(prefix=f"{preset}-"))
    further = [[f"training.seed={seed}"] for seed in seeds] or [[]]
    scores = [measure(preset, folder, workspace, [*overrides, *seed]) for seed in further]
    reached = [score for score in scores if score is not None]
    if not kept and (len(reached) == len(scores) or not any(workspace.iterdir())):
        shutil.rmtree(workspace)
    if len(reached) < len(scores):
        return False
    mean = statistics.fmean(reached)
    if len(reached) > 1:
        spread = statistics.stdev(reached)
        print(
            f"{preset}: {FLOORS[preset].metric} {mean:.4f} ± {spread:.4f} (mean and std of {len(reached)} seeds)",
            flush=True,
        )
    return mean >= FLOORS[preset].score - FLOORS[preset].tolerance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", choices=list(FLOORS), help="a preset; every one whose data is there by default")
    parser.add_argument("--data", type=Path, default=Path(), help="folder that holds a folder for each task")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the preset")
    parser.add_argument("--seeds", default="", metavar="1,2,3", help="train with each seed; also prints mean and std")
    parser.add_argument("--workspace", type=Path, metavar="DIR", help="keep the workspaces there, to be used again")
    given = parser.parse_args()
    try:
        seeds = [int(seed) for seed in given.seeds.split(",") if seed.strip()]
    except ValueError:
        parser.error(f"--seeds {given.seeds}: write whole numbers with commas between, as 1,2,3")
    folders = {preset: given.data / (floor.folder or preset) for preset, floor in FLOORS.items()}
    found = [preset for preset, folder in folders.items() if folder.is_dir()]
    chosen = [given.task] if given.task else found
    for preset in chosen:
        if preset not in found:
            sys.exit(f"{preset}: there is no folder {folders[preset]}; name the one above it by --data.")
    if not chosen:
        known = ", ".join(path.name for path in folders.values())
        print(f"nothing measured: {given.data.resolve()} has no folder {known}; name another by --data.")
    results = [measure_seeds(preset, folders[preset], given.workspace, given.set, seeds) for preset in chosen]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
