"""What the commands cost beside the work itself: this code against another commit's, alternately in one run.

Each command is run as a user runs it, in a process of its own, on 300 made-up reviews: a run from an empty workspace, the
same run again with every step cached, a prediction, and --help. Seconds by the clock and of the processor; ratios are of
the clock. The other commit is checked out beside this one and runs in the same environment, so both have the same packages.

    python tests/benchmarks/startup.py [--rounds 3] [--before COMMIT]
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parents[2]
BEFORE = "c9160ae"
"""The last commit before a run's own overhead was looked at."""

sys.path.insert(0, str(HERE / "tests" / "helpers"))

from lines import make_rows, write_config, write_csv  # noqa: E402

from bertline.pipeline.config.renamed import RENAMED  # noqa: E402

NAMES = ("run, empty workspace", "run, all cached", "predict", "--help")


@contextmanager
def checked_out(commit):
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "before"
        subprocess.run(["git", "-C", str(HERE), "worktree", "add", "-q", "--detach", str(place), commit], check=True)
        try:
            yield place
        finally:
            subprocess.run(["git", "-C", str(HERE), "worktree", "remove", "--force", str(place)], check=True)


def measured(code, folder, *arguments):
    """Seconds by the clock, and of the processor in the command and the processes that it waits for."""
    script = f"from {'bertline.' * _is_one_package(code)}pipeline.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(code)}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    found = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    clock, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if found.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {found.stdout}{found.stderr}")
    return clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, found.stdout


def _is_one_package(code):
    """Whether the code is imported as `bertline`, or as the four packages that there were before."""
    return (code / "bertline").is_dir()


def _known_settings(config, code):
    """Leaves out what a commit does not know: before there were baselines, nothing could be refused for them; and gives
    settings the names that they had."""
    settings = yaml.safe_load(config.read_text())
    if not _is_one_package(code):
        for old, new in RENAMED.items():
            section, _, name = old.rpartition(".")
            if section in settings and new in settings[section]:
                settings[section][name] = settings[section].pop(new)
    if "must_beat_baselines" not in "".join(path.read_text() for path in (code / "pipeline" / "config").glob("*.py")):
        del settings["evaluation"]["must_beat_baselines"]
    config.write_text(yaml.safe_dump(settings, allow_unicode=True))


def round_of(code):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write_csv(folder / "reviews.csv", make_rows())
        _known_settings(write_config(folder), code)
        first = measured(code, folder, "run", "tiny.yaml")
        again = measured(code, folder, "run", "tiny.yaml")
        if "10 of 10 steps cached" not in again[2]:
            raise SystemExit(f"not every step was cached: {again[2]}")
        answer = measured(code, folder, "predict", "a wonderful film")
        return dict(zip(NAMES, (first, again, answer, measured(code, folder, "--help")), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", default=BEFORE, metavar="COMMIT")
    arguments = parser.parse_args()
    with checked_out(arguments.before) as before:
        places = {"before": before, "now": HERE}
        for code in places.values():  # once unmeasured: files come from the disk then, and later from memory
            measured(code, HERE, "--help")
        found = {which: [] for which in places}
        for number in range(arguments.rounds):
            for which in [*places] if number % 2 == 0 else [*reversed(places)]:
                found[which].append(round_of(places[which]))
                shown = ", ".join(f"{name} {clock:.2f} s" for name, (clock, _, _) in found[which][-1].items())
                print(f"round {number + 1} {which:6} {shown}", flush=True)
    print(f"\n{'':22}{'before':>9}{'now':>9}{'processor':>19}   times as fast (each round)")
    for name in NAMES:
        clock = {which: [values[name][0] for values in rounds] for which, rounds in found.items()}
        work = {which: statistics.median(values[name][1] for values in rounds) for which, rounds in found.items()}
        ratios = [old / new for old, new in zip(clock["before"], clock["now"], strict=True)]
        middle = {which: statistics.median(values) for which, values in clock.items()}
        print(
            f"{name:22}{middle['before']:7.2f} s{middle['now']:7.2f} s{work['before']:8.2f} → {work['now']:6.2f} s"
            f"   {statistics.median(ratios):.2f} ({', '.join(f'{ratio:.2f}' for ratio in ratios)})"
        )


if __name__ == "__main__":
    main()
