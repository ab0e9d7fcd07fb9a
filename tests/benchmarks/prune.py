"""What heads are worth on a real model: how its metric falls with the share that is kept, and how fast it is without them.

The curves are measured with heads masked. Then heads are removed for good, and the exported model and the original are
asked the same evaluation examples in turns, so that a noisy neighbour hits both. MODEL is what `bertline prune` takes: by
default what `make run` has pushed. Nothing is written beside it.

    python tests/benchmarks/prune.py [MODEL] [--keep 0.7 0.5 0.3] [--by gradient ablation] [--rounds 3]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bertline.pipeline.core.environment import prepare

prepare()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from bertline.components.pruning.heads import PushedHeads, line_digest  # noqa: E402
from bertline.components.pruning.side_by_side import side_by_side  # noqa: E402
from bertline.models.adapters.head_importance import Heads, mask_without  # noqa: E402
from bertline.models.adapters.lora import find_encoder  # noqa: E402
from bertline.pipeline.prune.heads import MAX_EXAMPLES, Request, find_model  # noqa: E402
from bertline.pipeline.runs.eval_examples import evaluation_records  # noqa: E402
from bertline.serving.export.saved_model import ServedModel  # noqa: E402

BATCH = 64


def apart(heads: PushedHeads, lost: Heads, pruned: Path, records: list[bytes]) -> float:
    """The largest difference of a number between the exported model without heads and the original with them masked."""
    given = tf.saved_model.load(str(pruned)).signatures["serving_examples"]
    with find_encoder(heads.model).masking(tf.constant(mask_without(heads.size, lost))):
        masked = ServedModel(heads.task, heads.context, heads.model).predict_examples.get_concrete_function()
    largest = 0.0
    for begin in range(0, len(records), BATCH):
        some = tf.constant(records[begin : begin + BATCH])
        wanted = masked(some)
        for name, value in given(examples=some).items():
            if value.dtype.is_floating:
                largest = max(largest, float(np.abs(value - wanted[name]).max()))
    return largest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="folder of a pushed model, or a pipeline's name")
    parser.add_argument("--keep", type=float, nargs="+", default=[0.7, 0.5, 0.3], metavar="SHARE")
    parser.add_argument("--by", nargs="+", choices=["gradient", "ablation"], default=["gradient"], help="the first decides")
    parser.add_argument("--rows", type=int, default=MAX_EXAMPLES)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    place = find_model(Request(model=given.model))
    records = evaluation_records(place.metadata, line_digest(place.folder), place.workspace, given.rows)
    heads = PushedHeads(place.folder, records)
    metric = heads.metric(None)
    print(f"{heads.count} heads in {heads.size.layers} layers, {len(records):,} held-out rows", flush=True)
    importance = {by: heads.importance(by, metric) for by in given.by}
    for by, values in importance.items():
        curve = ", ".join(f"{point.keep:.0%} {point.value:.4f}" for point in heads.curve(values, metric))
        print(f"{metric} by the share kept, chosen by {by}: {curve}", flush=True)
    for share in given.keep:
        lost = heads.least_important(importance[given.by[0]], round(share * heads.count))
        with tempfile.TemporaryDirectory() as folder:
            pruned = heads.export(lost, Path(folder) / "pruned")
            both = side_by_side(place.folder, pruned, heads.task, heads.context.labels, records, rounds=given.rounds)
            difference = apart(heads, lost, pruned, records)
        left = heads.count - sum(map(len, lost.values()))
        sizes = (f"{after / before:.2f}× the {what}" for what, (before, after) in _sizes(both).items())
        spread = both.metrics[metric].difference
        assert spread is not None
        print(
            f"{left} of {heads.count} heads: {both.speed:.2f}× the rows per second, {', '.join(sizes)};"
            f" {metric} {spread.value:+.4f} [{spread.low:+.4f}, {spread.high:+.4f}];"
            f" answers at most {difference:.1e} from those with the heads masked",
            flush=True,
        )


def _sizes(both: object) -> dict[str, tuple[int, int]]:
    return {what: getattr(both, what) for what in ("parameters", "bytes")}


if __name__ == "__main__":
    main()
