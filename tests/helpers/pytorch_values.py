"""Writes `pytorch_values.jsonl` anew: what Hugging Face's BertModel on PyTorch gives for 200 real texts.

Ids come from Hugging Face's tokenizer and numbers from PyTorch, a text at a time and without padding, so that nothing of
ours has a part in them. Needs the extra `parity`; `make parity` says how to install it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

from bertline.pipeline.core.environment import prepare

prepare()

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from pytorch_sample import CONFIG, MAX_TOKENS, TABLE, Expected, Outputs, ids_digest, look, read_texts, sources  # noqa: E402

COUNT = 200
# A text at a time is little work; its threads would spend it waiting for each other wherever the cores are shared.
torch.set_num_threads(1)


def choose() -> list[list[int]]:
    """Rows of the sample data: texts of 2 to 120 words, most of them short, and every fifth as a pair.

    The second text of a pair is the one before it, of about its length; that of the first pair is the longest of all texts,
    which is cut, and for which the short ones of its batch are padded most.
    """
    words = pd.read_csv(CONFIG.data.path).text.dropna().str.split().str.len()
    chosen: list[int] = []
    for target in np.geomspace(2, 120, COUNT):
        chosen.append(int((words.drop(chosen) - target).abs().idxmin()))
    seconds = [int(words.idxmax()), *chosen]
    return [[row] if number % 5 else [row, seconds[number]] for number, row in enumerate(chosen)]


def tokenize(texts: Sequence[Sequence[str]]) -> Iterator[transformers.BatchEncoding]:
    """Token ids and segment ids by Hugging Face's tokenizer, for one text or pair after the other: [1, tokens]."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(CONFIG.model.checkpoint)
    for pair in texts:
        yield tokenizer(*pair, truncation="longest_first", max_length=MAX_TOKENS, return_tensors="pt")


def load_bert() -> torch.nn.Module:
    # Eager: the plain formula, and the one that gives attention weights.
    bert = transformers.BertModel.from_pretrained(CONFIG.model.checkpoint, dtype=torch.float32, attn_implementation="eager")
    return bert.eval()


@torch.inference_mode()
def run(model: torch.nn.Module, **inputs: torch.Tensor) -> Outputs:
    """What a model of Hugging Face gives for one text."""
    found = model(**inputs, output_hidden_states=True, output_attentions=True)
    assert torch.equal(found.hidden_states[-1], found.last_hidden_state)
    states = torch.cat(found.hidden_states).numpy()
    return Outputs(states, [layer[0].numpy() for layer in found.attentions], found.pooler_output[0].numpy())


def main() -> None:
    samples, chance, bert = choose(), np.random.default_rng(0), load_bert()
    layers, hidden = bert.config.num_hidden_layers, bert.config.hidden_size
    made_by = f"transformers {transformers.__version__}, PyTorch {torch.__version__}"
    lines = [{"made_by": made_by, **sources(samples)}]
    for rows, tokens in zip(samples, tokenize(read_texts(samples)), strict=True):
        found = run(bert, **tokens)
        ids, segments = tokens["input_ids"][0], tokens["token_type_ids"][0]
        places = Expected(
            rows=rows,
            ids=ids_digest(ids.tolist(), segments.tolist()),
            states=[
                [layer, int(chance.integers(len(ids))), int(chance.integers(hidden))]
                for layer in range(layers + 1)
                for _ in range(2)
            ],
            pooled=chance.integers(hidden, size=4).tolist(),
            values=(),
        )
        values = look(places, found.hidden_states, found.pooled)
        lines.append(asdict(replace(places, values=values.round(6).tolist())))
    TABLE.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
    print(f"{TABLE.name}: {len(lines) - 1} texts, {sum(len(line.get('values', ())) for line in lines)} numbers; {made_by}")


if __name__ == "__main__":
    main()
