"""A vocabulary file: one WordPiece a line; a token's id is its line."""

from __future__ import annotations

import tensorflow as tf

from bertline.pipeline.core.errors import BertlineError

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"


def read_vocabulary(path: str) -> list[str]:
    """The tokens of a vocabulary file, in order; BertlineError if it cannot serve as one."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            lines = file.read().split(b"\n")
    except tf.errors.OpError:
        raise BertlineError(f"{path}: cannot be read as a vocabulary; name a file with one WordPiece a line.") from None
    if lines[-1] == b"":
        lines.pop()
    line_of: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        try:
            token = line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError:
            raise BertlineError(f"{where}: not UTF-8; save the vocabulary as UTF-8.") from None
        if not token:
            raise BertlineError(f"{where}: empty line; every line must have a token, because its number is the id.")
        if token in line_of:
            raise BertlineError(f"{where}: {token!r} is on line {line_of[token]} too; keep it once.")
        line_of[token] = number
    for token in (PAD, UNK, CLS, SEP):
        if token not in line_of:
            raise BertlineError(f"{path}: no line (of {len(lines)}) is {token}; a BERT vocabulary has it.")
    return list(line_of)
