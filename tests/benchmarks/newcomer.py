"""What a newcomer gets: files as a user has them, `bertline new` and `bertline run`, nothing edited, beside every baseline.

    python tests/benchmarks/newcomer.py --data path/to/data                       # every set that is there
    python tests/benchmarks/newcomer.py --data path/to/data --only rte,codah      # these, anew
    python tests/benchmarks/newcomer.py --data path/to/data --workspace runs      # go on with what runs/ has no result of

Ours, the baselines and the verdict are of the evaluation examples, by the metric that `new` chose; `test` is what the
pushed model (`bertline predict --file`) makes of a file that the run has not seen. Seconds are by the clock, from `new` to
the end of `run`. What the pipeline says goes to NAME/run.log in the workspace.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

ROOT = Path(__file__).parent.parent.parent
TWO_THOUSAND = 2_000
BLESSED, REFUSED = 0, 3  # exit codes of `bertline run`

Example = dict[str, Any]


def _table(*columns: str | None, delimiter: str = "\t", header: bool = True) -> Callable[[Path], Iterator[Example]]:
    """A reader of plain lines, in which quotes are characters; columns that are None are left out."""

    def read(path: Path) -> Iterator[Example]:
        with path.open(encoding="utf-8", newline="") as stream:
            quotes = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
            for cells in itertools.islice(csv.reader(stream, delimiter=delimiter, quoting=quotes), int(header), None):
                yield {name: cell for name, cell in zip(columns, cells, strict=False) if name}

    return read


def _sentences(path: Path) -> Iterator[Example]:
    for is_empty, lines in itertools.groupby(path.open(encoding="utf-8"), key=lambda line: not line.strip()):
        if not is_empty:
            words, tags = zip(*(line.split("\t")[:2] for line in lines), strict=True)
            yield {"text": " ".join(words), "words": words, "tags": [tag.strip() for tag in tags]}


def _write_csv(path: Path, examples: Sequence[Example]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(examples[0]))
        writer.writeheader()
        writer.writerows(examples)


def _write_jsonl(path: Path, examples: Sequence[Example]) -> None:
    path.write_text("".join(json.dumps(example, ensure_ascii=False) + "\n" for example in examples), encoding="utf-8")


def _write_conll(path: Path, examples: Sequence[Example]) -> None:
    blocks = ("".join(f"{word}\t{tag}\n" for word, tag in zip(one["words"], one["tags"], strict=True)) for one in examples)
    path.write_text("\n".join(blocks), encoding="utf-8")


class Given(NamedTuple):
    """A set, and how a user would have it."""

    read: Callable[[Path], Iterable[Example]]
    files: tuple[str, ...]
    """To train on, to evaluate on, and perhaps to test on."""
    write: Callable[[Path, Sequence[Example]], None]
    ending: str
    label: str = "label"
    most: int | None = None
    """Training examples."""


SETS = {
    "clinc150": Given(
        _table("text", "intent", delimiter=","), ("train.csv", "dev.csv", "test.csv"), _write_csv, "csv", "intent"
    ),
    "sst2": Given(_table("sentence", "label"), ("train.tsv", "dev.tsv"), _write_csv, "csv", most=TWO_THOUSAND),
    "rte": Given(_table(None, "sentence1", "sentence2", "label"), ("train.tsv", "dev.tsv"), _write_jsonl, "jsonl"),
    "stsb": Given(
        _table(None, None, None, None, "score", "sentence1", "sentence2", header=False),
        ("sts-train.csv", "sts-dev.csv", "sts-test.csv"), _write_csv, "csv", "score",
    ),
    "wnut17": Given(
        _sentences, ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"), _write_conll, "conll", "tags"
    ),
    "chnsenticorp": Given(
        _table("label", "text"), ("train.tsv", "dev.tsv", "test.tsv"), _write_csv, "csv", most=TWO_THOUSAND
    ),
    "codah": Given(
        _table(None, "prompt", "ending0", "ending1", "ending2", "ending3", "label", header=False),
        ("train.tsv", "dev.tsv", "test.tsv"), _write_csv, "csv",
    ),
}  # fmt: skip


def _bertline(*arguments: str, log: Path) -> int:
    command = [sys.executable, "-m", "bertline.pipeline.cli", *arguments]
    with log.open("a") as stream:
        return subprocess.run(command, stdout=stream, stderr=stream, cwd=ROOT).returncode


def measure(name: str, data: Path, folder: Path) -> dict[str, Any]:
    """Takes one set from its files to a verdict."""
    of = SETS[name]
    raw, config, log = folder / "data", folder / "config.yaml", folder / "run.log"
    raw.mkdir(parents=True, exist_ok=True)
    for old in (config, log):
        old.unlink(missing_ok=True)
    shutil.rmtree(folder / "workspace", ignore_errors=True)  # a newcomer has no cached steps
    splits = [list(of.read(data / name / file)) for file in of.files]
    splits[0] = splits[0][: of.most]
    for split, examples in zip(("train", "dev"), splits, strict=False):
        of.write(raw / f"{split}.{of.ending}", examples)
    began = time.time()
    code = _bertline("new", str(raw), "--out", str(config), log=log)
    if code == 0:
        code = _bertline("run", str(config), "--workspace", str(folder / "workspace"), log=log)
    seconds = round(time.time() - began)
    if code not in (BLESSED, REFUSED):
        return {"verdict": f"failed, see {log}", "seconds": seconds}
    summary = json.loads((folder / "workspace" / "summary.json").read_text())
    metric, threshold = next(iter(yaml.safe_load(config.read_text())["evaluation"]["thresholds"].items()))
    found = {
        "metric": metric,
        "threshold": threshold,
        "ours": summary["metrics"][metric],
        "baselines": {one: values[metric] for one, values in summary["baselines"].items() if metric in values},
        "verdict": "pushed" if summary["blessed"] else "refused",
        "kind": summary["kind"],
        "reasons": summary["reasons"],
        "seconds": seconds,
    }
    if code == BLESSED and len(splits) > 2:
        found["test"] = _on_test(splits[2], of.label, folder, log)
    return found


def _on_test(examples: Sequence[Example], label: str, folder: Path, log: Path) -> float | None:
    """The score of the pushed model on examples that no step has seen: accuracy, Pearson, or F1 of entities."""
    asked, answers = folder / "test.jsonl", folder / "answers.jsonl"
    right = [example[label] for example in examples]
    texts = [{key: value for key, value in one.items() if key not in (label, "words", "tags")} for one in examples]
    _write_jsonl(asked, texts)
    given = ("--file", str(asked), "--out", str(answers), "--workspace", str(folder / "workspace"))
    if _bertline("predict", *given, log=log):
        return None
    found = [json.loads(line) for line in answers.open(encoding="utf-8")]
    if "entities" in found[0]:
        pairs = [
            (_entities(one), {(each["start"], each["end"], each["type"]) for each in answer["entities"]})
            for one, answer in zip(examples, found, strict=True)
        ]
        both = sum(len(gold & seen) for gold, seen in pairs)
        return 2 * both / max(1, sum(len(gold) + len(seen) for gold, seen in pairs))
    if "value" in found[0]:
        return float(np.corrcoef([one["value"] for one in found], np.asarray(right, float))[0, 1])
    key = "label" if "label" in found[0] else "index"
    return sum(str(one[key]) == str(name) for one, name in zip(found, right, strict=True)) / len(right)


def _entities(example: Example) -> set[tuple[int, int, str]]:
    """[start, end) in the text and type, from IOB2."""
    found: list[tuple[int, int, str]] = []
    place, before = 0, "O"
    for word, tag in zip(example["words"], example["tags"], strict=True):
        kind, end = tag[2:], place + len(word)
        if tag.startswith("I-") and before[2:] == kind and found:
            found[-1] = (found[-1][0], end, kind)
        elif tag != "O":
            found.append((place, end, kind))
        place, before = end + 1, tag
    return set(found)


def line_of(name: str, found: dict[str, Any]) -> str:
    if "metric" not in found:
        return f"{name:13} {found['verdict']}"
    test = "     -" if found.get("test") is None else f"{found['test']:6.4f}"
    simple = "  ".join(f"{one} {value:.4f}" for one, value in found["baselines"].items())
    rivals = (value for one, value in found["baselines"].items() if one != "probe")
    ahead = "ahead" if all(found["ours"] > value for value in rivals) else "behind"
    if found.get("kind", "encoder") != "encoder":  # it is one of them
        ahead = found["kind"]
    return (
        f"{name:13} {found['metric']:9} {found['ours']:6.4f}  test {test}  threshold {found['threshold']:<5}"
        f" {found['verdict']:8} {ahead:7} {found['seconds']:5} s   {simple}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds a folder for each set")
    parser.add_argument("--only", default="", metavar="NAME,NAME", help=f"of {', '.join(SETS)}; these are measured anew")
    parser.add_argument("--workspace", type=Path, metavar="DIR", help="for results and runs, to go on from")
    given = parser.parse_args()
    wanted = [name for name in given.only.split(",") if name]
    if unknown := [name for name in wanted if name not in SETS]:
        parser.error(f"--only {unknown[0]}: choose from {', '.join(SETS)}")
    data, workspace = given.data.resolve(), (given.workspace or Path(tempfile.mkdtemp(prefix="newcomer-"))).resolve()
    results: dict[str, dict[str, Any]] = {}
    for name in SETS:
        kept = workspace / name / "result.json"
        if kept.is_file() and name not in wanted:
            results[name] = json.loads(kept.read_text())
        elif (not wanted or name in wanted) and (data / name).is_dir():
            results[name] = measure(name, data, workspace / name)
            kept.write_text(json.dumps(results[name], indent=1))
            print(f"{name}: {results[name]['verdict']} after {results[name]['seconds']} s", file=sys.stderr, flush=True)
    for name, found in results.items():
        print(line_of(name, found), *found.get("reasons", ()), sep=f"{os.linesep}    ")
    if not results:
        sys.exit(f"{data}: there is none of the folders {', '.join(SETS)}.")


if __name__ == "__main__":
    main()
