"""Texts that are in training and in evaluation, or that have different labels: found by digests, in bounded memory.

They are left out of the training examples, not of the evaluation examples: so the evaluation examples stay the same, and
metrics comparable, whatever is added to the training data, and a published evaluation file is measured whole.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from bertline.components.ingest.rows import TEST, KeptExample
from bertline.pipeline.config import CHOICES, TEXT_KEYS, DataConfig

DUPLICATES = "data.duplicates"
MAX_EVAL_EXAMPLES = 5_000_000
"""Of more evaluation examples, 16 bytes each, no duplicates are looked for."""
MAX_LABELLED_EXAMPLES = 1_000_000
"""Of more rows it is not counted which texts have different labels."""
NO_TEXT = 0
_NONE = np.zeros(0, np.uint64)
_SEPARATORS = re.compile(r"[\W_]+")


def normalised(text: str) -> str:
    """What a text says, without case, accents, punctuation and the width of spaces; a text of nothing else stays itself.

    >>> normalised("  Café, au LAIT! "), normalised("cafe au lait"), normalised("?!")
    ('cafe au lait', 'cafe au lait', '?!')
    """
    lowered = text.lower()
    if not lowered.isascii():
        lowered = "".join(letter for letter in unicodedata.normalize("NFKD", lowered) if not unicodedata.combining(letter))
    return _SEPARATORS.sub(" ", lowered).strip() or text.strip()


def digest_of(features: dict[str, Any]) -> int:
    """Of everything that a model reads of a row, in 8 bytes: ten million rows hardly hold two that are alike by chance."""
    texts = [str(features[name]) for name in TEXT_KEYS if name in features]
    if not texts:
        return NO_TEXT
    whole = "\0".join(map(normalised, (*texts, *features.get(CHOICES, ()))))
    return int.from_bytes(hashlib.blake2b(whole.encode(), digest_size=8).digest(), "big") or 1


def looks_for_duplicates(data: DataConfig, lists: Sequence[str]) -> bool:
    """Not in plain text to be learned from alone, where a sentence belongs to its document and may come again."""
    is_plain_text = data.label is None and not lists and len(data.text_columns) == 1
    return data.duplicates == "remove" and not is_plain_text


class Digests:
    """What one reader of raw rows has seen, or all of them together."""

    def __init__(self) -> None:
        self.rows = self.eval_examples = 0  # the latter with the test examples
        self._evaluation = array("Q")
        """Of each evaluation example its digest, and the hash that has said its side."""
        self._test = array("Q")
        """Digests of the test examples, which no hash can move."""
        self._labelled = array("Q")
        """Of each row with labels its digest, and a digest of them."""

    def add(self, row: KeptExample, digest: int, bucket: int) -> None:
        if digest == NO_TEXT:
            return
        if row.split == "eval":
            self.eval_examples += 1
            if self.eval_examples <= MAX_EVAL_EXAMPLES:
                self._evaluation.extend((digest, bucket))
        elif row.split == TEST:
            self.eval_examples += 1
            if self.eval_examples <= MAX_EVAL_EXAMPLES:
                self._test.append(digest)
        if labels := row.labels:
            self.rows += 1
            if self.rows <= MAX_LABELLED_EXAMPLES:
                label = hashlib.blake2b("\0".join(labels).encode(), digest_size=8).digest()
                self._labelled.extend((digest, int.from_bytes(label, "big")))

    def merge(self, other: Digests) -> None:
        self.rows += other.rows
        self.eval_examples += other.eval_examples
        # Beyond what is looked at nothing needs to be kept.
        if self.eval_examples <= MAX_EVAL_EXAMPLES:
            self._evaluation.extend(other._evaluation)
            self._test.extend(other._test)
        if self.rows <= MAX_LABELLED_EXAMPLES:
            self._labelled.extend(other._labelled)

    @property
    def are_too_many(self) -> bool:
        return self.eval_examples > MAX_EVAL_EXAMPLES

    def evaluation(self, to_train: frozenset[int], to_eval: Sequence[int]) -> np.ndarray:
        """Digests of the evaluation examples, after some texts have changed sides; none where they are too many.

        Args:
          to_train: hashes of texts.
          to_eval: digests of texts.
        """
        if self.are_too_many:
            return _NONE
        pairs = np.frombuffer(self._evaluation, np.uint64).reshape(-1, 2)
        stays = ~np.isin(pairs[:, 1], np.fromiter(to_train, np.uint64))
        return np.unique(np.concatenate([pairs[stays, 0], np.fromiter(to_eval, np.uint64)]))

    def in_test(self) -> np.ndarray:
        """Digests of the test examples; none where they are too many."""
        return np.unique(np.frombuffer(self._test, np.uint64)) if len(self._test) and not self.are_too_many else _NONE

    def conflicts(self) -> int:
        """How many texts have different labels."""
        if self.rows > MAX_LABELLED_EXAMPLES or not self._labelled:
            return 0
        pairs = np.unique(np.frombuffer(self._labelled, np.uint64).reshape(-1, 2), axis=0)
        _, labels = np.unique(pairs[:, 0], return_counts=True)
        return int((labels > 1).sum())
