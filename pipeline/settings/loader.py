"""Reading a config: a YAML file, a preset's name or a mapping, plus `--set` overrides, becomes a frozen, resolved `Config`.

Resolved means: defaults filled in, paths absolute, choices that depend on a checkpoint made. A mistake is told with file,
line, setting and the nearest right name.
"""

from __future__ import annotations

import copy
import importlib.util
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from bertline.components.tracking.encoder_run import SCHEME, find_run
from bertline.pipeline.config import Config, nearest, without_password
from bertline.pipeline.config.databases import anchored, has_password
from bertline.pipeline.config.overrides import apply_override, say_once
from bertline.pipeline.config.renamed import GivenTwice, current_name, old_names, rename_settings
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.hubs import preset_handle
from bertline.pipeline.settings import glue, metric_names
from bertline.pipeline.settings.defaults import apply_checkpoint_defaults, apply_task_defaults
from bertline.pipeline.settings.source import PRESET_FOLDER, find
from bertline.pipeline.studies import search_space

_URI = re.compile(r"[a-z][a-z0-9+.-]*:/")
GIVEN = Path("the given config")
"""In place of a file's path, where mistakes of a mapping are told."""

Source = str | Mapping[str, Any]
"""A config's path, a preset's name, or the settings themselves."""


def load(source: Source, overrides: Sequence[str] = (), *, workspace: str | None = None) -> Config:
    """Reads a config file or a preset and resolves it.

    Args:
      source: path of a YAML file, the name of a preset, or a mapping of what such a file says; relative paths of a mapping
        are relative to the working directory.
      overrides: `section.key=value` each, the value written as YAML.
      workspace: takes the place of the config's own `workspace`.

    Example:
      >>> load("reviews", ["training.epochs=1"]).training.epochs
      1
    """
    path, raw, lines = _read(source)
    raw = _complete(path, raw, lines, overrides, workspace)
    if _names_a_run(raw):
        draft = copy.deepcopy(raw)  # every other mistake is told before a store is asked
        apply_task_defaults(draft)
        _take_checkpoint_of_run(raw, _validated(draft, path, lines).tracking_uri)
    apply_task_defaults(raw)  # first: what the task wants stands above what is usual from a checkpoint or from scratch
    apply_checkpoint_defaults(raw)
    return _validated(raw, path, lines)


def written(source: Source, overrides: Sequence[str] = (), *, workspace: str | None = None) -> dict[str, Any]:
    """What a config file or a preset says, with overrides and absolute paths: as YAML anywhere, it is the same config."""
    return _complete(*_read(source), overrides, workspace)


def _read(source: Source) -> tuple[Path, dict[str, Any], dict[str, int]]:
    """Where settings stand, the settings, and the line of each dotted key."""
    if isinstance(source, Mapping):
        return GIVEN, _plain(source), {}
    path = find(source)
    return path, *_read_yaml(path)


def _plain(value: Any) -> Any:
    """A copy as YAML would give it, without tuples and paths."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _complete(
    path: Path, raw: dict[str, Any], lines: dict[str, int], overrides: Sequence[str], workspace: str | None
) -> dict[str, Any]:
    """What was read, by the names of today, with overrides and absolute paths."""
    try:
        for use in rename_settings(raw):
            lines |= {use.new: lines[use.old]} if use.old in lines else {}
            say_once(f"{_where(use.old, path, lines)}: {use}.")
    except GivenTwice as error:
        raise BertlineError(f"{_where(error.old, path, lines)}: {error}.") from None
    named: dict[str, str] = {}
    for override in overrides:
        apply_override(raw, override, named)
    if workspace is not None:
        raw["workspace"] = workspace
    base = Path.cwd() if path.parent == PRESET_FOLDER else path.parent.resolve()
    if str(raw.get("task")).startswith(glue.PREFIX):
        raw = _with_glue_settings(raw, base, _where("task", path, lines))
    _resolve_paths(raw, base)
    return raw


def _validated(raw: dict[str, Any], path: Path, lines: Mapping[str, int]) -> Config:
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        raise BertlineError("\n".join(_explain(error, path, lines))) from None
    wrong = [(f"search.space.{name}", reason) for name, reason in search_space.mistakes(config.search.space, raw)]
    wrong += metric_names.mistakes(config)
    if wrong:
        raise BertlineError("\n".join(f"{_where(key, path, lines)}: {key}: {reason}" for key, reason in wrong))
    return config


def _read_yaml(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The file's content, and the line on which each dotted key stands."""
    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        raw = yaml.safe_load(text)
    except UnicodeDecodeError as error:
        raise BertlineError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8.") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise BertlineError(f"{path}{where}: not valid YAML: {getattr(error, 'problem', error)}.") from None
    if not isinstance(raw, dict):
        raise BertlineError(f"{path}: a config is a mapping of settings (name:, data:, …), not {type(raw).__name__}.")
    return raw, dict(_key_lines(node))


def _key_lines(node: Any, prefix: str = "") -> list[tuple[str, int]]:
    found = []
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = f"{prefix}{key.value}"
            found += [(name, key.start_mark.line + 1), *_key_lines(value, f"{name}.")]
    return found


def _with_glue_settings(raw: dict[str, Any], base: Path, where: str) -> dict[str, Any]:
    """`task: glue/NAME` with `data: FOLDER` (or `data: {folder: FOLDER, …}`) as the settings that it stands for."""
    name = str(raw["task"]).removeprefix(glue.PREFIX)
    known = [*glue.LAYOUTS, *glue.ALIASES]
    if name not in known:
        raise BertlineError(
            f"{where}: task: GLUE has no task {name!r}{nearest(name, known)}; known: {', '.join(glue.LAYOUTS)}."
        )
    given = raw.get("data")
    data = dict(given) if isinstance(given, dict) else {"folder": given}
    folder = data.pop("folder", None)
    if not isinstance(folder, str):
        raise BertlineError(
            f"{where}: data: name the folder that holds the files of {raw['task']}, as data: path/to/{name}."
        )
    made = glue.settings_of(name, base / Path(folder).expanduser())
    evaluation = raw.get("evaluation") or {}
    return {
        **made,
        **raw,
        "task": made["task"],
        "data": {**made["data"], **data},
        "evaluation": {**made["evaluation"], **evaluation} if isinstance(evaluation, dict) else evaluation,
    }


_PATH_KEYS = (
    ("workspace",),
    ("data", "path"),
    ("data", "train"),
    ("data", "eval"),
    ("data", "test"),
    ("text", "vocab"),
    ("text", "target_vocab"),
    ("model", "checkpoint"),
    ("push", "destination"),
)


def _resolve_paths(raw: dict[str, Any], base: Path) -> None:
    """Makes paths absolute. The workspace is relative to where the user stands, the rest to the config file."""
    raw.setdefault("workspace", "workspace")
    for *sections, key in _PATH_KEYS:
        target = raw
        for section in sections:
            target = target.get(section) or {}
        value = target.get(key) if isinstance(target, dict) else None
        if isinstance(value, str) and sections == ["data"]:
            target[key] = value = anchored(value, base)
        if isinstance(value, str) and not (_URI.match(value) or (key == "checkpoint" and value.startswith(SCHEME))):
            root = Path.cwd() if key == "workspace" else base
            if key == "checkpoint" and (handle := preset_handle(value, base)):
                target[key] = handle
            else:
                target[key] = package_path(value) if value.startswith("package:") else str(root / Path(value).expanduser())


def package_path(value: str) -> str:
    """`package:NAME/rest` is a file that an installed package carries; the package is not imported."""
    package, _, rest = value.removeprefix("package:").partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise BertlineError(f"{value}: the package {package} is not installed; `make setup` installs the samples.")
    return str(Path(spec.submodule_search_locations[0]) / rest)


def _names_a_run(raw: dict[str, Any]) -> bool:
    model = raw.get("model")
    checkpoint = model.get("checkpoint") if isinstance(model, dict) else None
    return isinstance(checkpoint, str) and checkpoint.startswith(SCHEME)


def _take_checkpoint_of_run(raw: dict[str, Any], tracking_uri: str) -> None:
    """Puts the folder that a pre-training pushed in the place of `runs:/ID`, and keeps the whole id for the record."""
    try:
        run = find_run(raw["model"]["checkpoint"], tracking_uri)
    except BertlineError as error:
        raise BertlineError(f"model.checkpoint: {error}") from None
    raw["model"]["checkpoint"] = str(run.model)
    raw["tracking"] = {**(raw.get("tracking") or {}), "encoder_run": run.run_id}


def _explain(error: ValidationError, path: Path, lines: Mapping[str, int]) -> list[str]:
    """One sentence a mistake: file and line, setting, what is wrong, the nearest right name."""
    sentences = []
    for problem in error.errors():
        parts = [str(part) for part in problem["loc"] if not str(part).startswith("function-")]
        key = ".".join(parts)
        if problem["type"] == "extra_forbidden":
            known = _fields_of(parts[:-1])
            message = f"{key} is not a setting{_meant(parts, known) or '; known here: ' + ', '.join(known)}"
        elif problem["type"] == "missing":
            message = f"{key} is missing{_purpose(parts)}"
        else:
            reason = problem["msg"].removeprefix("Value error, ")
            given = problem.get("input")
            may_show = _is_small(given) and not has_password(without_password(str(given)))
            given = f" (received {without_password(repr(given))})" if may_show else ""
            message = f"{key}: {reason}{given}" if key else reason
        sentences.append(f"{_where(key, path, lines)}: {message}")
    return sentences


def _meant(parts: Sequence[str], known: Sequence[str]) -> str:
    """The nearest setting; where that is an old name, what it is called now."""
    section = ".".join(parts[:-1])
    before = old_names(section)
    hint = nearest(parts[-1], [*known, *before])
    for old in before:
        hint = hint.replace(f" {old}?", f" {current_name(f'{section}.{old}').rpartition('.')[2]}?")
    return hint


def _where(key: str, path: Path, lines: Mapping[str, int]) -> str:
    return f"{_shown(path)}, line {lines[key]}" if key in lines else _shown(path)


def _shown(path: Path) -> str:
    return f"preset {path.stem}" if path.parent == PRESET_FOLDER else str(path)


def _model_at(parts: Sequence[str]) -> type[BaseModel] | None:
    model: Any = Config
    for part in parts:
        field = model.model_fields.get(part)
        model = field.annotation if field else None
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            return None
    return model


def _fields_of(parts: Sequence[str]) -> list[str]:
    model = _model_at(parts)
    return list(model.model_fields) if model else []


def _purpose(parts: Sequence[str]) -> str:
    model = _model_at(parts[:-1])
    field = model.model_fields.get(parts[-1]) if model else None
    return f": {field.description.splitlines()[0]}" if field and field.description else ""


def _is_small(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | None) and len(str(value)) < 80
