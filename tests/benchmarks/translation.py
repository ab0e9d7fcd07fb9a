"""BLEU of the preset multi30k-small on the test set of 2016, which nothing was chosen by, and how long it took.

Trains through the whole pipeline on DATA's train and val files (a training that was killed goes on), and then translates
test_2016_flickr as a user would, by `bertline predict --file`. The curve is that of the held-out val rows.

    python tests/benchmarks/translation.py --data path/to/multi30k --workspace runs/multi30k [--set training.epochs=30]
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from pathlib import Path

import sacrebleu

ROOT = Path(__file__).parent.parent.parent
FLOOR = 20.0


def bertline(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "bertline.pipeline.cli", *arguments], stdout=sys.stderr, cwd=ROOT, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Multi30k's files")
    parser.add_argument("--workspace", type=Path, required=True, help="where the line works, and what it goes on from")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a setting of the preset")
    given = parser.parse_args()
    data, workspace = given.data.resolve(), given.workspace.resolve()
    files = [f"data.train={data}/train.en.gz", f"data.eval={data}/val.en.gz"]
    overrides = [part for setting in (*files, *given.set) for part in ("--set", setting)]
    bertline("run", "multi30k-small", "--workspace", str(workspace), *overrides)
    summary = json.loads((workspace / "summary.json").read_text())

    def lines(language: str) -> list[str]:
        with gzip.open(data / f"test_2016_flickr.{language}.gz", "rt", encoding="utf-8") as file:
            return file.read().splitlines()

    asked, written = workspace / "test.en.txt", workspace / "test.de.jsonl"
    asked.write_text("".join(f"{line}\n" for line in lines("en")), encoding="utf-8")
    written.unlink(missing_ok=True)
    began = time.perf_counter()
    bertline("predict", "--workspace", str(workspace), "--file", str(asked), "--out", str(written))
    took = time.perf_counter() - began
    translations = [json.loads(line)["translation"] for line in written.read_text(encoding="utf-8").splitlines()]
    bleu = sacrebleu.metrics.BLEU()
    score = bleu.corpus_score(translations, [lines("de")])
    chrf = sacrebleu.corpus_chrf(translations, [lines("de")]).score
    trainer = next(step for step in summary["steps"] if step["name"] == "Trainer")
    training = "training cached" if trainer["cached"] else f"{trainer['seconds'] / 60:.0f} minutes of training"
    print(f"test_2016_flickr: BLEU {score.score:.2f}, where {FLOOR:g} is to be reached; chrF {chrf:.2f}; {training}")
    print(f"{len(translations):,} sentences in {took:.0f} s, start included; {bleu.get_signature()}")
    print(f"held-out val rows: {', '.join(f'{name} {value:.4g}' for name, value in summary['metrics'].items())}")
    sys.exit(0 if score.score >= FLOOR else 1)


if __name__ == "__main__":
    main()
