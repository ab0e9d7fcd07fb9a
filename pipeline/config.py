"""The one typed config of a run.

`load` turns a YAML file or a preset's name, plus `--set` overrides, into a frozen `Config` whose every value is
resolved: defaults filled in, paths absolute, choices that depend on a checkpoint made. Nothing here imports TensorFlow
or TFX, so a wrong key is refused in well under a second.
"""

from __future__ import annotations

import difflib
import importlib.util
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pipeline.errors import BertlineError

PRESET_FOLDER = Path(__file__).parent / "presets"

Formats = Literal["csv", "tsv", "jsonl", "parquet"]
Reading = Literal["original", "huggingface"]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class SplitConfig(Frozen):
    """Which rows are trained on and which are held out, when one `data.path` holds both."""

    eval_share: float = Field(default=0.1, gt=0, lt=1)
    """Share of the rows that is held out, chosen by a hash, so that a row never changes sides between runs."""
    group: str | None = None
    """Column whose equal values stay on one side (a user, a document). Without it the text itself is hashed, so that
    the same text never stands on both sides."""
    column: str | None = None
    """Column that says which split a row belongs to; takes the place of hashing."""
    train: tuple[str, ...] = ("train",)
    """Values of `column` that mean training rows."""
    eval: tuple[str, ...] = ("eval", "dev", "validation", "valid", "test")
    """Values of `column` that mean held-out rows."""


class DataConfig(Frozen):
    """The raw files and what their columns mean."""

    path: str | None = None
    """File or glob with all rows, split by `split`. Give this, or `train` and `eval`."""
    train: str | None = None
    """File or glob with the training rows."""
    eval: str | None = None
    """File or glob with the held-out rows."""
    format: Formats | None = None
    """How the files are written; by default their ending says it (.gz and .bz2 are looked through)."""
    text: str = "text"
    """Column that holds the text."""
    label: str = "label"
    """Column that holds the class."""
    columns: tuple[str, ...] = ()
    """Names of the columns, for a CSV or TSV file without a header line."""
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    """Column separator of a CSV or TSV file; a comma and a tab by default."""
    quotes: bool | None = None
    """Whether `"` quotes a value. By default it does in CSV, and is a plain character in TSV."""
    encoding: str = "utf-8"
    """Character encoding of the files."""
    labels: tuple[str, ...] = ()
    """The classes, in order. By default those that the training rows have; naming them makes a typo an anomaly."""
    exclude: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Rows to leave out on purpose: column -> values. They are counted, not quarantined."""
    split: SplitConfig = SplitConfig()
    incomplete: Literal["stop", "quarantine"] = "stop"
    """A row with an empty text or no label stops the line before training, or goes to the quarantine file."""
    max_bad_share: float = Field(default=0.01, ge=0, le=1)
    """The run fails when a larger share of the rows than this is quarantined."""

    @model_validator(mode="after")
    def _one_source(self) -> DataConfig:
        if (self.path is None) == (self.train is None) or (self.train is None) != (self.eval is None):
            raise ValueError("give either `path`, or both `train` and `eval`")
        if self.text == self.label:
            raise ValueError(f"`text` and `label` name the same column {self.text!r}")
        return self


class ValidationConfig(Frozen):
    """What counts as an anomaly of the data; an anomaly stops the line before training."""

    allow_anomalies: bool = False
    """Go on in spite of anomalies; set by `--allow-anomalies` and recorded with the run. Rows without a usable label
    then have no weight in training and evaluation."""
    label_drift: float = Field(default=0.1, gt=0, le=1)
    """Largest change of any class's share against the last accepted run."""
    length_drift: float = Field(default=0.1, gt=0, le=1)
    """Largest Jensen-Shannon divergence of the text lengths against the last accepted run."""


class TextConfig(Frozen):
    """How text becomes WordPiece ids."""

    vocab: str | None = None
    """A `vocab.txt`, one piece a line. By default the checkpoint's own; without either one is learned from the text."""
    vocab_size: int = Field(default=8000, ge=100, le=200_000)
    """Size of a learned vocabulary."""
    lower: bool = True
    """Uncased text: lower-cased, accents dropped. A checkpoint's `tokenizer_config.json` sets the default."""
    reading: Reading = "original"
    """Which reference tokenizer is matched where the two differ; a checkpoint folder sets `huggingface`."""
    seq_len: int = Field(default=128, ge=8, le=512)
    """Tokens an example has at most, [CLS] and [SEP] included; longer texts are cut."""


SIZES: Mapping[str, tuple[int, int, int]] = {  # layers, hidden, heads; the inner layer is four times as wide
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "minilm": (6, 384, 12),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}


class ModelConfig(Frozen):
    """The encoder: somebody's checkpoint, or a size that starts from nothing."""

    checkpoint: str | None = None
    """Folder with `config.json`, `model.safetensors` and `vocab.txt`."""
    size: Literal["tiny", "mini", "small", "minilm", "base", "large"] = "tiny"
    """Size of an encoder from scratch; the numbers below override it one by one."""
    layers: int | None = Field(default=None, ge=1, le=96)
    hidden: int | None = Field(default=None, ge=2, le=8192)
    heads: int | None = Field(default=None, ge=1, le=256)
    intermediate: int | None = Field(default=None, ge=2)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout of embeddings, attention and head."""

    @model_validator(mode="after")
    def _fill_in_size(self) -> ModelConfig:
        sizes = dict(zip(("layers", "hidden", "heads"), SIZES[self.size], strict=True))
        given = {name: getattr(self, name) for name in (*sizes, "intermediate")}
        if self.checkpoint is not None:
            named = [name for name, value in given.items() if value is not None]
            if named:
                raise ValueError(f"a checkpoint has its own sizes; leave out {', '.join(named)}")
            return self
        for name, value in sizes.items():
            if given[name] is None:
                object.__setattr__(self, name, value)
        if self.intermediate is None:
            object.__setattr__(self, "intermediate", 4 * self.hidden)  # type: ignore[operator]
        if self.hidden % self.heads:  # type: ignore[operator]
            raise ValueError(f"hidden={self.hidden} is not a multiple of heads={self.heads}")
        return self


class TrainingConfig(Frozen):
    """One loop for every task and strategy."""

    epochs: int = Field(default=2, ge=1, le=1000)
    batch_size: int = Field(default=32, ge=1, le=65536)
    """Examples a step, over all devices together."""
    learning_rate: float | None = Field(default=None, gt=0, lt=1)
    """Peak learning rate; 5e-5 from a checkpoint and 5e-4 from scratch by default."""
    warmup: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises; afterwards it falls linearly to 0."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled decay, not on biases and layer norms."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Bound of the global gradient norm."""
    seed: int = Field(default=42, ge=0, lt=2**31)
    """Seeds weights, order and dropout."""
    buckets: tuple[int, ...] = (16, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512)
    """Lengths that batches are padded to; an example goes to the smallest that holds it."""
    checkpoint_steps: int | None = Field(default=None, ge=1)
    """Write a checkpoint each N steps; by default at the end of each epoch."""
    devices: tuple[str, ...] = ()
    """Devices of the MirroredStrategy, for example [GPU:0, GPU:1]; by default every GPU, or the CPU."""
    xla: bool = False
    """Compile the step with XLA, once a bucket length: worth it for long trainings."""

    @field_validator("buckets")
    @classmethod
    def _rising(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or list(value) != sorted(set(value)) or value[0] < 4:
            raise ValueError("bucket lengths must rise, from 4 tokens on")
        return value


class EvaluationConfig(Frozen):
    """What a model must reach to be pushed."""

    thresholds: dict[str, float]
    """Lower bound of each metric, for example {accuracy: 0.8}. At least one: without a bound nothing could be refused."""
    slice_thresholds: dict[str, float] = Field(default_factory=dict)
    """Lower bound of each metric that every slice with enough rows must reach."""
    slices: tuple[str, ...] = ()
    """Columns whose values are evaluated one by one."""
    length_slices: tuple[int, ...] = (10, 20, 40)
    """Word counts at which texts are sliced by length: below 10, 10 to 19, and so on."""
    min_slice_rows: int = Field(default=50, ge=1)
    """Smaller slices are shown but never judged."""
    max_drop: float = Field(default=0.01, ge=0, lt=1)
    """How far each metric with a threshold may fall below the model that is pushed now."""

    @field_validator("thresholds")
    @classmethod
    def _not_empty(cls, value: dict[str, float]) -> dict[str, float]:
        if not value:
            raise ValueError("name at least one metric with its lower bound, for example {accuracy: 0.8}")
        return value


class PushConfig(Frozen):
    destination: str | None = None
    """Folder that receives numbered versions; `workspace/models/NAME` by default."""


class TrackingConfig(Frozen):
    enabled: bool = True
    uri: str | None = None
    """MLflow store; by default MLFLOW_TRACKING_URI, else an sqlite file in the workspace."""
    experiment: str | None = None
    """MLflow experiment; the pipeline's name by default."""


class BeamConfig(Frozen):
    args: tuple[str, ...] = ("--direct_running_mode=in_memory", "--direct_num_workers=1")
    """Arguments of every Beam step."""


class Config(Frozen):
    """A run: what is read, what is learned, what it must reach, where it goes."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    """Name of the pipeline: small letters, digits and dashes."""
    task: str = "classification"
    """What is learned; one file in `models/tasks/` each."""
    workspace: str = "workspace"
    """Folder of everything a run writes."""
    data: DataConfig
    validation: ValidationConfig = ValidationConfig()
    text: TextConfig = TextConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig
    push: PushConfig = PushConfig()
    tracking: TrackingConfig = TrackingConfig()
    beam: BeamConfig = BeamConfig()

    @field_validator("task")
    @classmethod
    def _known_task(cls, value: str) -> str:
        known = task_names()
        if value not in known:
            raise ValueError(f"there is no task {value!r}{_nearest(value, known)}; known: {', '.join(known)}")
        return value

    @model_validator(mode="after")
    def _slices_are_not_reserved(self) -> Config:
        reserved = {"text", "label", "words", "length"} & set(self.evaluation.slices)
        if reserved:
            raise ValueError(
                f"evaluation.slices: {sorted(reserved)} are names of our own; texts are sliced by length anyway"
            )
        return self

    # Where things are: the one place that knows the shape of the workspace.
    @property
    def home(self) -> Path:
        return Path(self.workspace) / "pipelines" / self.name

    @property
    def artifact_root(self) -> Path:
        return self.home / "artifacts"

    @property
    def metadata_path(self) -> Path:
        return self.home / "metadata.db"

    @property
    def push_path(self) -> Path:
        return Path(self.push.destination) if self.push.destination else Path(self.workspace) / "models" / self.name

    @property
    def tracking_uri(self) -> str:
        return (
            self.tracking.uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{Path(self.workspace) / 'mlflow.db'}"
        )

    def flat(self) -> dict[str, Any]:
        """The config as dotted names, for the record of a run."""
        return dict(_flatten(self.model_dump(mode="json")))

    def to_json(self) -> str:
        return json.dumps(self.model_dump(mode="json"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Config:
        return cls.model_validate_json(text)


def task_names() -> list[str]:
    folder = Path(__file__).parent.parent / "models" / "tasks"
    return sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))


def preset_names() -> list[str]:
    return sorted(path.stem for path in PRESET_FOLDER.glob("*.yaml"))


def load(source: str, overrides: Sequence[str] = (), *, workspace: str | None = None) -> Config:
    """Reads a config file or a preset and resolves it.

    Args:
      source: path of a YAML file, or the name of a preset.
      overrides: `section.key=value` each, the value written as YAML.
      workspace: takes the place of the config's own `workspace`.

    Example:
      >>> load("reviews", ["training.epochs=1"]).training.epochs
      1
    """
    path = _find(source)
    raw, lines = _read_yaml(path)
    for override in overrides:
        _apply_override(raw, override)
    if workspace is not None:
        raw["workspace"] = workspace
    _resolve_paths(raw, base=Path.cwd() if path.parent == PRESET_FOLDER else path.parent.resolve())
    _apply_checkpoint_defaults(raw)
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        raise BertlineError("\n".join(_explain(error, path, lines))) from None


def _find(source: str) -> Path:
    if source in preset_names():
        return PRESET_FOLDER / f"{source}.yaml"
    path = Path(source)
    if path.is_file():
        return path
    hint = _nearest(source, preset_names())
    raise BertlineError(
        f"{source}: no such config file, and no preset of that name{hint}. Presets: {', '.join(preset_names())}."
        " `bertline new DATA` writes a config for a data file."
    )


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


def _apply_override(raw: dict[str, Any], override: str) -> None:
    key, sign, text = override.partition("=")
    if not sign or not re.fullmatch(r"[a-z_]+(\.[A-Za-z0-9_-]+)*", key):
        raise BertlineError(f"--set {override}: write it as section.key=value, for example training.epochs=2.")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise BertlineError(f"--set {override}: the value is not valid YAML.") from None
    *sections, last = key.split(".")
    target = raw
    for section in sections:
        target = target.setdefault(section, {})
        if not isinstance(target, dict):
            raise BertlineError(f"--set {override}: {section} is a value, not a section.")
    target[last] = value


_PATH_KEYS = (
    ("workspace",),
    ("data", "path"),
    ("data", "train"),
    ("data", "eval"),
    ("text", "vocab"),
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
        if isinstance(value, str):
            root = Path.cwd() if key == "workspace" else base
            target[key] = _package_path(value) if value.startswith("package:") else str(root / Path(value).expanduser())


def _package_path(value: str) -> str:
    """`package:NAME/rest` is a file that an installed package carries; the package is not imported."""
    package, _, rest = value.removeprefix("package:").partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise BertlineError(f"{value}: the package {package} is not installed; `make setup` installs the samples.")
    return str(Path(spec.submodule_search_locations[0]) / rest)


def _apply_checkpoint_defaults(raw: dict[str, Any]) -> None:
    """What a checkpoint says of its text and size is the default; the user's own word stands above it."""
    model, text, training = (raw.get(key) for key in ("model", "text", "training"))
    if not all(section is None or isinstance(section, dict) for section in (model, text, training)):
        return  # the schema explains it better
    checkpoint = (model or {}).get("checkpoint")
    training = raw["training"] = dict(training or {})
    training.setdefault("learning_rate", 5e-5 if checkpoint else 5e-4)
    if not isinstance(checkpoint, str):
        return
    folder = Path(checkpoint)
    for name in ("config.json", "model.safetensors"):
        if not (folder / name).is_file():
            raise BertlineError(f"model.checkpoint: {folder} has no {name}; name a Hugging Face BERT folder.")
    text = raw["text"] = dict(text or {})
    if (folder / "vocab.txt").is_file():
        text.setdefault("vocab", str(folder / "vocab.txt"))
    if text.get("vocab") is None:
        raise BertlineError(
            f"model.checkpoint: {folder} has no vocab.txt; set text.vocab to the vocabulary it was trained with."
        )
    if (folder / "tokenizer_config.json").is_file():
        tokenizer = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        text.setdefault("lower", bool(tokenizer.get("do_lower_case", True)))
        text.setdefault("reading", "huggingface")


def _flatten(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        return [pair for key, item in value.items() for pair in _flatten(item, f"{prefix}.{key}" if prefix else str(key))]
    return [(prefix, value)]


def _nearest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _explain(error: ValidationError, path: Path, lines: Mapping[str, int]) -> list[str]:
    """One sentence a mistake: file and line, setting, what is wrong, the nearest right name."""
    sentences = []
    for problem in error.errors():
        parts = [str(part) for part in problem["loc"] if not str(part).startswith("function-")]
        key = ".".join(parts)
        line = lines.get(key)
        where = f"{path}, line {line}" if line else f"{path}"
        if problem["type"] == "extra_forbidden":
            known = _fields_of(parts[:-1])
            message = f"{key} is not a setting{_nearest(parts[-1], known) or '; known here: ' + ', '.join(known)}"
        elif problem["type"] == "missing":
            message = f"{key} is missing{_purpose(parts)}"
        else:
            reason = problem["msg"].removeprefix("Value error, ")
            given = f" (received {problem['input']!r})" if _is_small(problem.get("input")) else ""
            message = f"{key}: {reason}{given}" if key else reason
        sentences.append(f"{where}: {message}")
    return sentences


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
