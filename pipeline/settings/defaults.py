"""Defaults that depend on other settings: on the checkpoint that is started from, and on the task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertline.models.kinds import need_encoder
from bertline.pipeline.config.training import RECIPE
from bertline.pipeline.core import hubs, storage
from bertline.pipeline.core.checkpoint_formats import PRESET, find, look, vocabulary_in
from bertline.pipeline.core.errors import BertlineError
from bertline.serving.contract import ENCODER, read_metadata

if TYPE_CHECKING:
    from bertline.models.tasks.base.task import Task


def apply_checkpoint_defaults(raw: dict[str, Any]) -> None:
    """What a checkpoint says of its text and size is the default; the user's own word stands above it."""
    apply_recipe(raw)
    model, text, training = (raw.get(key) for key in ("model", "text", "training"))
    if not all(section is None or isinstance(section, dict) for section in (model, text, training)):
        return  # the schema explains it better
    checkpoint = (model or {}).get("checkpoint")
    training = raw["training"] = dict(training or {})
    training.setdefault("learning_rate", 5e-5 if checkpoint else 5e-4)
    if not isinstance(checkpoint, str) or _has_own_encoder(raw):  # which the schema refuses
        return
    try:
        checkpoint = model["checkpoint"] = hubs.pinned(checkpoint)  # type: ignore[index]
        copy = Path(storage.local_copy(checkpoint))
        need_encoder(checkpoint, read_metadata(copy), "so training cannot start from it")
        if (copy / ENCODER).is_dir():  # a model that this line has pre-trained
            copy, checkpoint = copy / ENCODER, storage.join(checkpoint, ENCODER.as_posix())
            model["checkpoint"] = checkpoint  # type: ignore[index]
        folder = find(copy).folder  # of a .keras file, the folder that it is in
    except BertlineError as error:
        raise BertlineError(f"model.checkpoint: {error}") from None
    text = raw["text"] = dict(text or {})
    if (vocab := vocabulary_in(folder)) is not None:
        beside = checkpoint if folder == copy else checkpoint.rpartition("/")[0]
        text.setdefault("vocab", storage.join(beside, vocab.relative_to(folder).as_posix()))
    if text.get("vocab") is None:
        raise BertlineError(
            f"model.checkpoint: {folder} has no vocab.txt; set text.vocab to the vocabulary it was trained with."
        )
    for key, value in checkpoint_text(folder).items():
        text.setdefault(key, value)


def apply_recipe(raw: dict[str, Any]) -> None:
    """Leaves to the recipe what the config does not give, where it says nothing of epochs.

    >>> raw = {"training": "auto"}
    >>> apply_recipe(raw)
    >>> raw["training"]["recipe"][:2]
    ['epochs', 'batch_size']
    """
    given = raw.get("training")
    given = {} if given in (None, "auto") else given
    if not isinstance(given, dict):
        return  # the schema explains it better
    raw["training"] = given
    task = _task_of(raw)
    if not (task and task.model.starts_from_scratch) and not {"epochs", "recipe"} & given.keys():
        raw["training"] = {**given, "recipe": [name for name in RECIPE if name not in given]}
        judged_by = _first_threshold(raw)
        if judged_by and "monitor" not in given:
            raw["training"]["monitor"] = judged_by  # the recipe takes it where it is measured after an epoch


def _has_own_encoder(raw: Mapping[str, Any]) -> bool:
    task = _task_of(raw)
    return task is not None and task.model.has("make_encoder")


def _first_threshold(raw: Mapping[str, Any]) -> str | None:
    evaluation = raw.get("evaluation")
    thresholds = evaluation.get("thresholds") if isinstance(evaluation, dict) else None
    return next((name for name in thresholds if isinstance(name, str)), None) if isinstance(thresholds, dict) else None


def apply_task_defaults(raw: dict[str, Any]) -> None:
    """What the task declares; the user's own word stands above it."""
    raw["text"] = {} if raw.get("text") is None else raw["text"]
    task = _task_of(raw)
    if task and isinstance(raw.get("data"), dict) and isinstance(raw["text"], dict):  # else the schema explains it better
        _fill_in(raw, task.config.defaults(raw))


def _fill_in(given: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    """Sections in sections are filled in likewise, unless something else than a section stands there."""
    for name, value in defaults.items():
        if isinstance(value, Mapping):
            section = given[name] = {} if given.get(name) is None else given[name]
            if isinstance(section, dict):
                _fill_in(section, value)
        else:
            given.setdefault(name, value)


def _task_of(raw: Mapping[str, Any]) -> Task | None:
    from bertline.models.tasks.base.task import get_task, is_task  # brings numpy, which a command's help does without

    name = raw.get("task", "classification")
    return get_task(name) if is_task(name) else None


def checkpoint_text(folder: Path) -> dict[str, Any]:
    """Settings of `text` that a checkpoint's `tokenizer_config.json` or a preset's `tokenizer.json` makes, if any."""
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        if (found := look(folder)) is None or found.format != PRESET:
            return {}
        from bertline.models.checkpoints.settings import preset_tokenizer

        preset = preset_tokenizer(folder)
        # KerasHub's way of splitting words is its own; the weights were trained with the original's.
        return {"lowercase": preset["do_lower_case"]} if preset else {}
    try:
        tokenizer = json.loads(path.read_text(encoding="utf-8"))
        given = {key: tokenizer.get(key) for key in ("do_lower_case", "strip_accents", "tokenize_chinese_chars")}
    except (ValueError, AttributeError) as error:
        raise BertlineError(f"{path}: not a tokenizer's settings as JSON ({error}); fetch the file again.") from None
    for key, value in given.items():
        if not isinstance(value, bool | None):
            raise BertlineError(f"{path}: {key} is {value!r}; it should be true or false.")
    if given["tokenize_chinese_chars"] is False:
        raise BertlineError(
            f"{path}: tokenize_chinese_chars is false; only BERT's own way, each Chinese character a word, is supported."
        )
    lower = given["do_lower_case"] is not False
    return {"tokenizer_variant": "huggingface", "lowercase": lower, "strip_accents": given["strip_accents"]}
