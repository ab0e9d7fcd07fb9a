"""Which share of the lines of each package the tests have run; `make test` ends with it.

    python tests/coverage_table.py

Exit code 2: fewer in all than `fail_under` of pyproject.toml asks for.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from coverage import Coverage


def main() -> int:
    measured = Coverage()
    measured.combine()
    measured.save()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        measured.json_report(outfile=str(path))
        files = json.loads(path.read_text())["files"]
    lines, run = Counter(), Counter()
    for name, file in files.items():
        summary = file["summary"]
        for package in (Path(name).parts[0], "all"):
            lines[package] += summary["num_statements"]
            run[package] += summary["covered_lines"]
    print("\nlines that the tests ran, in the processes that they start too")
    for package in sorted(lines, key=lambda package: (package == "all", package)):
        print(f"  {package:<12}{run[package]:>7,} of {lines[package]:>7,}   {100 * run[package] / lines[package]:5.1f} %")
    wanted = float(measured.get_option("report:fail_under") or 0)
    if 100 * run["all"] / lines["all"] < wanted:
        print(f"fewer than {wanted:g} % of all lines: a change brings the tests of what it adds", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
