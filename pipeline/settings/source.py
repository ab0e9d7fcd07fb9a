"""Which file a config is read from: one that is named, or a preset; what is data instead is told so."""

from __future__ import annotations

import shlex
from pathlib import Path

from bertline.components.ingest.files import format_by_ending
from bertline.pipeline.config import nearest
from bertline.pipeline.core.errors import BertlineError

PRESET_FOLDER = Path(__file__).parent / "presets"
_CONFIG_ENDINGS = (".yaml", ".yml")
_DATA_ENDINGS = (".gz", ".bz2", ".zip", ".xls", ".xlsx", ".ods", ".db", ".sqlite", ".tfrecord")
_REQUIRED = ("name", "data", "evaluation")


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESET_FOLDER.glob("*.yaml"))


def find(source: str) -> Path:
    """The file of a config, or of a preset by its name."""
    if source in preset_names():
        return PRESET_FOLDER / f"{source}.yaml"
    path = Path(source)
    if path.is_dir() or path.is_file() and _is_data(path):
        what = "a folder" if path.is_dir() else "data"
        raise BertlineError(
            f"{source}: this is {what}, not a config; `bertline new {shlex.quote(source)}` writes one for it."
        )
    if path.is_file():
        return path
    hint = nearest(source, preset_names())
    raise BertlineError(
        f"{source}: no such config file, and no preset of that name{hint}. Presets: {', '.join(preset_names())}."
        " `bertline new DATA` writes a config for a data file."
    )


def _is_data(path: Path) -> bool:
    """Whether a file holds what is learned from: by its ending, for a table without a header may be good YAML. JSON is
    YAML as well, and a config if it says what one must."""
    if path.suffix.lower() in _CONFIG_ENDINGS:
        return False
    if format_by_ending(str(path)) or path.suffix.lower() in _DATA_ENDINGS:
        return True
    return path.suffix.lower() == ".json" and not all(f'"{key}"' in path.read_text(errors="replace") for key in _REQUIRED)
