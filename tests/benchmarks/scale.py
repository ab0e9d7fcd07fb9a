"""What Ingest and Transform cost as the data grows, and what a second worker saves.

Rows are generated, in eight CSV files. Each size is measured in a process of its own, with a peak of memory of its own.
The last lines are the fit of seconds against rows, the growth of memory, and two workers beside one, measured alternately.

    python tests/benchmarks/scale.py [--rows 10000 100000 1000000] [--compared 300000]
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bertline.pipeline.core.environment import prepare

prepare()

import numpy as np  # noqa: E402

from bertline.pipeline.settings.loader import load  # noqa: E402

FILES, WORDS = 8, 20
ARGUMENTS = {
    1: ["--direct_running_mode=in_memory", "--direct_num_workers=1"],
    2: ["--direct_running_mode=multi_processing", "--direct_num_workers=2"],
}


def write_rows(folder: Path, count: int, vocab: str) -> None:
    """Sentences of words of the vocabulary, the first of them the most frequent."""
    chance = random.Random(count)
    words = [word for word in Path(vocab).read_text(encoding="utf-8").split() if word.isalpha()]
    weights = [1 / (place + 10) for place, _ in enumerate(words)]
    folder.mkdir(parents=True)
    for number in range(FILES):
        drawn = iter(chance.choices(words, weights, k=2 * WORDS * (count // FILES + 1)))
        with (folder / f"rows-{number}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "label"])
            for row in range(number, count, FILES):
                text = " ".join(next(drawn) for _ in range(chance.randint(WORDS // 2, WORDS * 3 // 2)))
                writer.writerow([text, ("no", "yes")[row % 2]])


def measure(data: str, workers: int) -> dict[str, float]:
    """Seconds of both steps, and the peak of this process, or of the largest worker."""
    from tfx.types import artifact_utils, channel_utils, standard_artifacts

    from bertline.components.artifacts import Vocabulary
    from bertline.components.ingest.component import Executor as Ingest
    from bertline.components.ingest.executor import ingest
    from bertline.components.transform.component import Executor, Transform

    config = load("reviews", [f"data={{path: '{data}/*.csv', text: text, label: label}}"])
    arguments = [*ARGUMENTS[workers], "--sdk_container_image=none"]
    with tempfile.TemporaryDirectory() as folder:

        def artifact(kind: Any, name: str) -> Any:
            made = kind()
            made.uri = os.path.join(folder, name)
            os.makedirs(made.uri)
            return made

        def context(kind: Any) -> Any:
            return kind.Context(beam_pipeline_args=arguments, tmp_dir=folder, unique_id="1")

        examples = artifact(standard_artifacts.Examples, "examples")
        examples.split_names = artifact_utils.encode_split_names(["train", "eval"])
        began = time.perf_counter()
        ingest(Ingest(context(Ingest))._make_beam_pipeline, config.data, [], examples.uri, os.path.join(folder, "report"))
        of_ingest = time.perf_counter() - began
        schema, vocabulary = artifact(standard_artifacts.Schema, "schema"), artifact(Vocabulary, "vocabulary")
        label = 'feature { name: "label" type: BYTES string_domain { value: "no" value: "yes" } }'
        Path(schema.uri, "schema.pbtxt").write_text(f'feature {{ name: "text" type: BYTES }} {label}')
        Path(vocabulary.uri, "vocab.txt").write_bytes(Path(config.text.vocab).read_bytes())
        given = {"examples": examples, "schema": schema, "vocabulary": vocabulary}
        component = Transform(
            **{name: channel_utils.as_channel([made]) for name, made in given.items()},
            task="classification",
            text=config.text.model_dump_json(),
            code="",
        )
        made = {
            "transform_graph": [artifact(standard_artifacts.TransformGraph, "graph")],
            "transformed_examples": [artifact(standard_artifacts.Examples, "transformed")],
        }
        began = time.perf_counter()
        Executor(context(Executor)).Do({name: [one] for name, one in given.items()}, made, component.exec_properties)
        of_transform = time.perf_counter() - began
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"ingest": of_ingest, "transform": of_transform, "megabytes": peak / 1024}


def in_process(data: Path, workers: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", str(data), "--workers", str(workers)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--compared", type=int, default=300_000, help="rows of one worker beside two")
    parser.add_argument("--rounds", type=int, default=2, help="of the same")
    parser.add_argument("--most-memory", type=float, default=1.3, help="the peak of the largest against the smallest")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.workers)))
        return
    with tempfile.TemporaryDirectory() as folder:
        found = []
        print(f"{'rows':>12}{'Ingest s':>12}{'Transform s':>14}{'rows/s':>12}{'peak MB':>12}", flush=True)
        for rows in options.rows:
            data = Path(folder) / str(rows)
            write_rows(data, rows, load("reviews").text.vocab)
            found.append(one := in_process(data, 1))
            seconds = one["ingest"] + one["transform"]
            numbers = f"{one['ingest']:>12.1f}{one['transform']:>14.1f}{rows / seconds:>12,.0f}{one['megabytes']:>12,.0f}"
            print(f"{rows:>12,}{numbers}", flush=True)
        seconds = np.array([one["ingest"] + one["transform"] for one in found])
        rows = np.array(options.rows)
        # Least squares on what each point is off by in proportion, so that the small sizes count too.
        slope, start = np.linalg.lstsq(np.stack([rows, np.ones_like(rows)], 1) / seconds[:, None], seconds / seconds, None)[
            0
        ]
        off = np.abs((slope * rows + start) / seconds - 1).max()
        print(f"fit: {start:.1f} s + {slope * 1e6:.1f} s a million rows; no size is off by more than {off:.0%}")
        growth = max(one["megabytes"] for one in found) / found[0]["megabytes"]
        print(f"peak memory of the largest against the smallest: {growth:.2f}×, where {options.most_memory:g}× is the most")
        data = Path(folder) / "compared"
        write_rows(data, options.compared, load("reviews").text.vocab)
        ratios = []
        for turn in range(options.rounds):
            pair = {workers: in_process(data, workers) for workers in ((1, 2) if turn % 2 else (2, 1))}
            one, two = (pair[workers]["ingest"] + pair[workers]["transform"] for workers in (1, 2))
            ratios.append(one / two)
        shown = ", ".join(f"{ratio:.2f}×" for ratio in ratios)
        print(f"two workers against one, {options.compared:,} rows: {statistics.median(ratios):.2f}× as fast ({shown})")
    sys.exit(0 if growth <= options.most_memory else 1)


if __name__ == "__main__":
    main()
