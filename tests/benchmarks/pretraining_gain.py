"""What an encoder that was pre-trained here gives a task: the same head from it and from scratch, in one run.

    bertline run wikitext-tiny --set data.train=… --set data.eval=…            # pushes workspace/models/wikitext-tiny/1
    python tests/benchmarks/pretraining_gain.py workspace/models/wikitext-tiny/1 --data path/to/data --seeds 1,2,3

The task is WNUT 2017's entities (its files are in path/to/data/wnut17). Size, vocabulary, reading, learning rate, epochs
and seeds are the same on both sides; only the weights that the training begins with are not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from quality import FLOORS, run

PRESET = "wnut17"
SAME = ["training.learning_rate=1e-3", "training.epochs=8", "training.batch_size=32"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", nargs="?", type=Path, help="folder of a model that the task pretraining has pushed")
    parser.add_argument("--data", type=Path, default=Path(), help="folder that holds a folder wnut17")
    parser.add_argument("--seeds", default="1", metavar="1,2,3")
    given = parser.parse_args()
    if given.encoder is None:
        print("nothing measured: name the folder of a model that the task pretraining has pushed.")
        return
    encoder = given.encoder.resolve() / "assets.extra" / "encoder"
    if not encoder.is_dir():
        parser.error(f"{given.encoder} has no assets.extra/encoder; name a model that the task pretraining has pushed")
    size = json.loads((encoder / "config.json").read_text())
    sizes = {
        "num_layers": size["num_hidden_layers"],
        "hidden_dim": size["hidden_size"],
        "num_heads": size["num_attention_heads"],
        "intermediate_dim": size["intermediate_size"],
    }
    sides = {
        "from scratch": [
            "model.checkpoint=null",
            *(f"model.{name}={value}" for name, value in sizes.items()),
            f"text.vocab={encoder / 'vocab.txt'}",
            "text.tokenizer_variant=huggingface",
        ],
        "from the encoder": [f"model.checkpoint={encoder}"],
    }
    metric, means = FLOORS[PRESET].metric, {}
    with tempfile.TemporaryDirectory() as workspace:
        for side, settings in sides.items():
            scores = []
            for seed in given.seeds.split(","):
                chosen = [*SAME, *settings, f"training.seed={seed}"]
                summary = run(PRESET, given.data / PRESET, Path(workspace, side), chosen)
                if summary is None:
                    raise SystemExit(1)
                scores.append(summary["metrics"][metric])
            means[side] = statistics.fmean(scores)
            print(f"{PRESET} {side}: {metric} {', '.join(f'{score:.4f}' for score in scores)}", flush=True)
    print(f"the encoder gives {means['from the encoder'] / means['from scratch']:.2f}× the {metric}")


if __name__ == "__main__":
    main()
