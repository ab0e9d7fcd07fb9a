"""The config's text: what was guessed, with the reasons as comments."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

import yaml

from bertline.pipeline.new.encoder import model_settings
from bertline.pipeline.new.guess import Guess, Room, Setting, one_line

_PATHS = ("path", "train", "eval", "test", "folder", "checkpoint")
_NO_PATH = ("package:", "runs:")
_NO_NAMES = ("train", "data")


def as_yaml(guess: Guess, name: str, folder: Path, checkpoint: str | None = None) -> str:
    """The config's text; its paths are relative to the folder that it is to stand in.

    Args:
      checkpoint: to start from, see `encoder.model_settings`.
    """
    model = [_relative(setting, folder) for setting in model_settings(guess, checkpoint)]
    thresholds = guess.thresholds, guess.why_thresholds
    if guess.from_scratch and all(setting.key != "checkpoint" for setting in model):
        thresholds = guess.from_scratch
    data = [_relative(setting, folder) for setting in guess.data if setting.value is not None]
    return "\n".join(
        [
            f"# Inferred from {one_line(guess.seen)}; correct what is wrong.",
            _line("name", name),
            _line("task", guess.task, guess.why),
            "data:",
            *(f"  {_line(*setting)}" for setting in data),
            *(["text:", *_room(guess.seq_len, guess.task)] if guess.seq_len else []),
            "model:",
            *(f"  {_line(*setting)}" for setting in model),
            "evaluation:",
            f"  {_line('thresholds', *thresholds)}",
            "",
        ]
    )


def _room(room: Room, task: str) -> list[str]:
    long = room.why_long(task)
    lines = [_line("seq_len", int(room), room.why(task)), *([_line("long", "auto", long)] if long else [])]
    return [f"  {line}" for line in lines]


def config_name(path: str) -> str:
    """A name for the pipeline, after that of a file or, if it says nothing, of its folder.

    >>> config_name("data/My Reviews (v2).csv"), config_name("data/sst2/train.tsv")
    ('my-reviews-v2', 'sst2')
    """
    whole = Path(os.path.abspath(path.partition("?")[0] if "://" in path else path))
    stem = whole.name.split(".")[0].lower()
    stem = whole.parent.name.lower() if stem in _NO_NAMES else stem
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:63].rstrip("-") or "texts"


def _relative(setting: Setting, folder: Path) -> Setting:
    if setting.key not in _PATHS or str(setting.value).startswith(_NO_PATH) or "://" in str(setting.value):
        return setting
    return setting._replace(value=os.path.relpath(setting.value, folder.resolve()))


def _line(key: str, value: Any, comment: str = "") -> str:
    flow = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=math.inf, sort_keys=False)
    line = f"{key}: {flow.removesuffix(chr(10)).removesuffix('...').strip()}"
    return f"{line}   # {one_line(comment)}" if comment else line
