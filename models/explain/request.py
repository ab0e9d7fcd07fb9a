"""A user's texts as a model reads them, with the places of their words: by the tokenizer that the model brings along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bertline.models.data.batching import OF_TOKENS, TOKENS, padded
from bertline.models.explain.exported import read_by_model
from bertline.models.explain.reading import Reading, reading_of
from bertline.models.responses.base import text_of
from bertline.models.tasks.base.task import Context, Task, Tensors, expanded
from bertline.models.tokenization.places import PLACES
from bertline.pipeline.core.errors import BertlineError

Texts = Mapping[str, bytes | Sequence[bytes]]
"""Of one row, by their names in the model's signature and in its order; endings to choose from are a list, and the last."""
_MAX_CHARACTERS = 100_000


class Row(NamedTuple):
    """One row of what the model reads: a text, or a window over a long one; without padding."""

    batch: Tensors
    """[1, …] of each."""
    reading: Reading
    fixed: np.ndarray
    """[seq] bool: [CLS] and [SEP], which are of no text, and [MASK], which is the question itself."""


class Request:
    """The texts of one row, read.

    Args:
      context: with `places`.
      written: the tokens of what a model wrote for them, and its end; none for a model that does not write.
    """

    def __init__(self, texts: Texts, task: Task, context: Context, written: Sequence[str] = ()) -> None:
        self.texts = _named(texts)
        columns = {
            key: tf.constant([text] if isinstance(text, bytes) else [list(text)])
            for key, text in zip(context.text_keys, texts.values(), strict=True)
        }
        features = task.preprocessing.request(columns, context)
        self.token_ids: list[int] = features[TOKENS].to_list()[0]
        """Of the whole text, however many windows it is read in."""
        self._all = padded(expanded(task, features, context))
        if written:
            self._all["target_ids"] = tf.constant([[context.target.vocab.index(token) for token in written]])
        self._text = context.text
        self.skips = context.text.long != "cut"
        """Whether the middle of a long text is left out."""
        self.sliding = context.text.sliding if context.text.long == "windows" else None
        """How windows inside the model go over a text."""
        if not np.any(self._all[PLACES[1]]):
            raise BertlineError("there is no word in the text that could explain anything.")

    def text(self, number: int) -> str:
        """By its `place_text`."""
        return list(self.texts.values())[number]

    @property
    def batch(self) -> Tensors:
        """What the model reads."""
        return read_by_model(self._all)

    @property
    def everything(self) -> dict[str, np.ndarray]:
        """What the answer is made of."""
        return {name: value.numpy() for name, value in self._all.items()}

    @property
    def windows(self) -> int:
        return int(self._all["mask"].shape[0])

    def row(self, number: int) -> Row:
        batch = {name: value[number : number + 1] for name, value in self.batch.items()}
        length = int(tf.math.count_nonzero(batch["mask"]))
        batch = {name: value[:, :length] if name in (*OF_TOKENS, "mask") else value for name, value in batch.items()}
        ids = batch[TOKENS].numpy()[0]
        places = {name: self._all[name].numpy()[number, :length] for name in PLACES}
        text = self._text
        fixed = np.isin(ids, [id for id in (text.cls_id, text.sep_id, text.mask_id) if id is not None])
        tokens = [text.vocab[token] for token in ids]
        return Row(batch, reading_of(tokens, places, list(self.texts.values())), fixed)


def _named(texts: Texts) -> dict[str, str]:
    """Each text under a name of its own, in the order of `place_text`."""
    named: dict[str, Any] = {}
    for name, value in texts.items():
        if isinstance(value, bytes):
            named[name] = text_of(value)
        else:
            named |= {f"choice {number}": text_of(text) for number, text in enumerate(value, 1)}
    if sum(map(len, named.values())) > _MAX_CHARACTERS:
        raise BertlineError(f"the texts have more than {_MAX_CHARACTERS:,} characters; explain a part of them.")
    return named
