"""The one typed config of a run: every setting, its default, its bounds and its meaning.

`pipeline.config_file` reads it from YAML. Nothing here imports TensorFlow or TFX, so a wrong value is refused in well
under a second.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

Formats = Literal["csv", "tsv", "jsonl", "parquet", "documents", "conll", "squad"]
Reading = Literal["original", "huggingface"]
LabelKind = Literal["class", "classes", "number", "index", "tags"]
"""What a label is; the task says it. An index counts a row's choices from 0; tags are classes, one for each word."""
Scheme = Literal["any", "IOB1", "IOB2", "IOBES", "BILOU", "BMES"]
TEXT_KEYS = ("text", "text_2")
"""What the texts of a row are called in Examples and in requests, whatever their columns are named."""
CHOICES = "choices"
"""What the list of texts is called that one is to be chosen from."""


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class SplitConfig(Frozen):
    """Which rows are trained on and which are held out, when one `data.path` holds both."""

    eval_share: float = Field(default=0.1, gt=0, lt=1)
    """Share of the rows that is held out, chosen by a hash, so that a row never changes sides between runs."""
    group: str | None = None
    """Column whose equal values stay on one side (a user, a document, the first text of pairs). Without it the text
    itself is hashed, so that the same text, or pair of texts, never stands on both sides."""
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
    """How the files are written; by default their ending says it (.gz and .bz2 are looked through). `documents` (.txt) is
    plain text; see `data.documents` and `data.sentences`. `conll` has a word and its tag a line, see `data.tags`. `squad`
    is SQuAD's JSON, 1.1 or 2.0, for the task `answering`."""
    text: str | tuple[str, ...] = "text"
    """Column that holds the text; two columns, as [premise, hypothesis], for a task over pairs of texts."""
    choices: str | tuple[str, ...] = ()
    """Columns of the endings to choose from, as [a, b, c, d], for the task choice; or one column that holds a list of them.
    A row may have fewer than another: its last ones are then empty."""
    first_choice: Literal[0, 1] = 0
    """What `label` calls the first of the choices, where it numbers them. Letters (A, b) and names of columns are
    understood as well."""
    label: str | None = "label"
    """Column that holds the class or the classes, the number to learn, which of the choices is right, or the tags of the
    words; none for a task that learns from text alone."""
    label_delimiter: str = Field(default=",", min_length=1)
    """What stands between the classes of a row, for the task multilabel; a JSON list needs none."""
    documents: Literal["empty lines", "headings"] = "empty lines"
    """Of plain text: what parts its documents; headings are written ` = Title = `, as in WikiText."""
    sentences: Literal["lines", "split"] = "lines"
    """Of plain text: a sentence a line, or lines that are split where a sentence seems to end."""
    tags: Scheme = "any"
    """How tags of words are written. `any` reads IOB1, IOB2, IOBES, BILOU and BMES alike, as seqeval does by default; under
    a scheme that is named, a sentence that breaks it is a bad row."""
    segment_numbers: bool = False
    """Of CoNLL files: each word ends with the number of its place in a segment, as in Weibo NER; it is dropped."""
    columns: tuple[str, ...] = ()
    """Names of the columns, for a CSV or TSV file without a header line."""
    further_columns: bool = False
    """Whether a line of a CSV or TSV file may go on after its last column. What stands there is not read."""
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

    @property
    def text_columns(self) -> dict[str, str]:
        """The texts of a row: name of the feature -> column."""
        columns = (self.text,) if isinstance(self.text, str) else self.text
        return dict(zip(TEXT_KEYS, columns, strict=False))

    @property
    def choice_columns(self) -> tuple[str, ...]:
        return (self.choices,) if isinstance(self.choices, str) else self.choices

    @property
    def list_columns(self) -> tuple[str, ...]:
        """Columns that may hold a list, in a format that has lists: of choices, of classes, of words and their tags."""
        return (*self.choice_columns, *self.text_columns.values(), *([self.label] if self.label else []))

    @property
    def columns_of_texts(self) -> dict[str, str | tuple[str, ...]]:
        """Everything that a model reads of a row: name of the feature -> column, or columns of the choices."""
        return {**self.text_columns, **({CHOICES: self.choices} if self.choices else {})}

    @field_validator("choices")
    @classmethod
    def _two_or_a_list(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not isinstance(value, str) and len(value) == 1:
            raise ValueError(f"name two columns or more; or, if {value[0]} holds lists, name it without brackets")
        if not isinstance(value, str) and len(set(value)) < len(value):
            raise ValueError("name each column once")
        return value

    @field_validator("text", mode="before")
    @classmethod
    def _one_column_or_two(cls, value: Any) -> Any:
        columns = [value] if isinstance(value, str) else value
        if not isinstance(columns, list | tuple) or not all(isinstance(column, str) and column for column in columns):
            raise ValueError("name the column of the text, or two columns, as [premise, hypothesis]")
        if not 1 <= len(columns) <= len(TEXT_KEYS):
            raise ValueError(f"a row has one text or two, and {len(columns)} columns are named")
        if len(set(columns)) < len(columns):
            raise ValueError(f"both texts name the same column {columns[0]!r}")
        return value if isinstance(value, str) else columns[0] if len(columns) == 1 else tuple(columns)

    @model_validator(mode="after")
    def _one_source(self) -> DataConfig:
        if (self.path is None) == (self.train is None) or (self.train is None) != (self.eval is None):
            raise ValueError("give either `path`, or both `train` and `eval`")
        if self.label in self.text_columns.values():
            raise ValueError(f"`text` and `label` name the same column {self.label!r}")
        for column in self.choice_columns:
            if column == self.label or column in self.text_columns.values():
                other = "label" if column == self.label else "text"
                raise ValueError(f"`choices` and `{other}` name the same column {column!r}")
        return self


class ValidationConfig(Frozen):
    """What counts as an anomaly of the data; an anomaly stops the line before training."""

    allow_anomalies: bool = False
    """Go on in spite of anomalies; set by `--allow-anomalies` and recorded with the run. Rows without a usable label
    then have no weight in training and evaluation."""
    label_drift: float = Field(default=0.1, gt=0, le=1)
    """Largest change of any class's share against the last accepted run; of labels that are numbers, their largest
    Jensen-Shannon divergence."""
    length_drift: float = Field(default=0.1, gt=0, le=1)
    """Largest Jensen-Shannon divergence of the text lengths against the last accepted run."""


class PhaseConfig(Frozen):
    """A part of a pre-training, on pairs of one length."""

    seq_len: int = Field(ge=8, le=512)
    epochs: int = Field(default=1, ge=1, le=1000)
    batch_size: int = Field(default=32, ge=1, le=65536)


class PretrainingConfig(Frozen):
    """Masked-language modelling and next-sentence prediction, for the task `pretraining`."""

    phases: tuple[PhaseConfig, ...] = Field(default=(), max_length=8)
    """Trainings one after the other, on longer and longer pairs, as the original's 128 and then 512 tokens:
    [{seq_len: 128, epochs: 9, batch_size: 64}, {seq_len: 512, epochs: 1, batch_size: 16}]. They take the place of
    `text.seq_len`, `training.epochs` and `training.batch_size`; the learning rate goes through all of them once."""
    pack: bool = True
    """Put several short examples into a row of `seq_len` tokens, where they do not see each other, instead of padding
    them. `training.batch_size` then counts rows."""

    masking: Literal["piece", "word", "span"] = "piece"
    """What is masked together: single pieces, whole words, or runs of words."""
    mask_share: float = Field(default=0.15, gt=0, lt=1)
    """Share of the tokens to guess."""
    max_masked: int | None = Field(default=None, ge=1, le=512)
    """Tokens to guess in one example at most; by default `mask_share` of the longest example."""
    static: bool = False
    """Keep the masks that were drawn with the pairs, instead of drawing new ones in every epoch."""
    next_sentence: bool = True
    """Also learn whether the second half of an example follows the first."""
    duplicates: int = Field(default=1, ge=1, le=100)
    """How often the training documents are cut into pairs, each time in another way."""
    short_share: float = Field(default=0.1, ge=0, le=1)
    """Share of the documents that are cut into shorter pairs."""
    seed: int = Field(default=42, ge=0, lt=2**31)
    """Seeds the pairs and the masks that are drawn with them."""


class TextConfig(Frozen):
    """How text becomes WordPiece ids."""

    vocab: str | None = None
    """A `vocab.txt`, one piece a line. By default the checkpoint's own; without either one is learned from the text."""
    vocab_size: int = Field(default=8000, ge=100, le=200_000)
    """Size of a learned vocabulary."""
    reserved: tuple[str, ...] = Field(default=(), max_length=25)
    """Further pieces in brackets, such as [URL], that a learned vocabulary has after the special ones. The reading
    `huggingface` keeps them whole in a text."""
    lower: bool = True
    """Uncased text: lower-cased, accents dropped. A checkpoint's `tokenizer_config.json` sets the default."""
    strip_accents: bool | None = None
    """Drop accents or keep them, whatever `lower` says. A checkpoint's `tokenizer_config.json` sets the default."""
    reading: Reading = "original"
    """Which reference tokenizer is matched where the two differ; a checkpoint folder sets `huggingface`."""
    seq_len: int = Field(default=128, ge=8, le=512)
    """Tokens an example has at most, [CLS] and [SEP] included; longer texts are cut, or read in windows of this length by
    a task that has an answer for each word."""
    window_step: int | None = Field(default=None, ge=1, le=512)
    """Tokens from one window of a long text to the next; half of a window by default."""

    @field_validator("reserved")
    @classmethod
    def _in_brackets(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for piece in value:
            if not re.fullmatch(r"\[[A-Za-z0-9_-]{1,30}\]", piece):
                raise ValueError(f"{piece!r} is not letters, digits, - and _ in brackets, such as [URL]")
        if len(set(value)) < len(value):
            raise ValueError("name each piece once")
        return value


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
    """What to start from: a folder of Hugging Face (safetensors or .bin), of the original BERT (TF1) or of Keras, or a
    model that the task `pretraining` has pushed: its folder, or runs:/ and the id of its MLflow run."""
    size: Literal["tiny", "mini", "small", "minilm", "base", "large"] = "tiny"
    """Size of an encoder from scratch; the numbers below override it one by one."""
    layers: int | None = Field(default=None, ge=1, le=96)
    hidden: int | None = Field(default=None, ge=2, le=8192)
    heads: int | None = Field(default=None, ge=1, le=256)
    intermediate: int | None = Field(default=None, ge=2)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout of embeddings, attention and head."""
    crf: bool = False
    """Of the task `tagging`: choose the tags of a text together, by a linear-chain CRF that learns how they follow each
    other (Viterbi decoding), instead of each word's by itself."""

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
    accumulate: int = Field(default=1, ge=1, le=4096)
    """Parts that a step's examples are worked through in, one after the other, to save memory. The gradients are those of
    the whole batch."""
    optimizer: Literal["adamw", "adam_reference", "lamb"] = "adamw"
    """`adamw`; `adam_reference`, the original BERT's, which does not correct the bias of young moments; or `lamb`, for
    large batches."""
    learning_rate: float | None = Field(default=None, gt=0, lt=1)
    """Peak learning rate; 5e-5 from a checkpoint and 5e-4 from scratch by default."""
    warmup: float = Field(default=0.1, ge=0, lt=1)
    """Share of the steps over which the learning rate rises; afterwards it follows `schedule`."""
    schedule: Literal["linear", "cosine", "inverse_sqrt", "constant"] = "linear"
    """The learning rate after the warm-up: `linear` and `cosine` fall to 0 at the last step."""
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    """Factor of the learning rate from one encoder layer to the one below: 1 for the head, then smaller and smaller down
    to the embeddings."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled decay, not on biases and layer norms."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Bound of the global gradient norm."""
    lora: int | None = Field(default=None, ge=1, le=1024)
    """Rank of low-rank adapters on queries and values. Only they and the head are trained, beside a checkpoint's frozen
    encoder, and they are added up into its weights before the export."""
    lora_alpha: float = Field(default=16.0, gt=0)
    """Strength of the adapters: their product is multiplied by alpha / rank."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Share of each target that is dealt out to all classes alike, so that the model is less sure of itself."""
    class_weights: Literal["balanced"] | dict[str, Annotated[float, Field(gt=0, le=10_000)]] | None = None
    """How much what is learned from each class counts, for skewed data: `balanced`, by how rare a class is, or
    {seldom: 5, often: 1}. Held-out rows are measured as they are."""
    sampling: Literal["natural", "square_root", "balanced"] = "natural"
    """How often the rows of each class are drawn in an epoch: as they are, by the square root of how many there are, or
    equally often."""
    early_stopping: int | None = Field(default=None, ge=1)
    """Stop after so many epochs in a row without a lower loss on the held-out rows."""
    keep: Literal["last", "best"] = "last"
    """Which weights are exported: those of the last step, or of the epoch with the lowest loss on the held-out rows."""
    seed: int = Field(default=42, ge=0, lt=2**31)
    """Seeds weights, order and dropout."""
    buckets: tuple[int, ...] = (*range(8, 48, 4), *range(48, 96, 8), *range(96, 192, 16), *range(192, 513, 32))
    """Lengths that batches are padded to; an example goes to the smallest that holds it."""
    checkpoint_steps: int | None = Field(default=None, ge=1)
    """Write a checkpoint each N steps; by default at the end of each epoch."""
    devices: tuple[str, ...] = ()
    """Devices of the MirroredStrategy, for example [GPU:0, GPU:1]; by default every GPU, or the CPU."""
    xla: bool = False
    """Compile the step with XLA, once a bucket length: for long trainings, with few `buckets`."""
    precision: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Numbers that a step computes with; weights, and the exported model, are float32 in any case. `auto` is bfloat16 on
    GPUs that have it, and else float32."""
    gradient_checkpointing: bool = False
    """Compute each encoder layer a second time for its gradients instead of keeping it: less memory, more time."""
    tensorboard: bool = False
    """Write the learning curves as TensorBoard events too, to a folder `tensorboard` beside the checkpoints."""

    @field_validator("buckets")
    @classmethod
    def _rising(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or list(value) != sorted(set(value)) or value[0] < 4:
            raise ValueError("bucket lengths must rise, from 4 tokens on")
        return value

    @model_validator(mode="after")
    def _parts_are_equal(self) -> TrainingConfig:
        if self.batch_size % self.accumulate:
            raise ValueError(f"batch_size={self.batch_size} cannot be worked through in {self.accumulate} equal parts")
        return self


class EvaluationConfig(Frozen):
    """What a model must reach to be pushed."""

    thresholds: dict[str, float]
    """Bound of each metric, for example {accuracy: 0.8}: a lower one, or an upper one where less is better, as of a loss.
    At least one: without a bound nothing could be refused."""
    slice_thresholds: dict[str, float] = Field(default_factory=dict)
    """Bound of each metric that every slice with enough rows must keep."""
    slices: tuple[str, ...] = ()
    """Columns whose values are evaluated one by one."""
    length_slices: tuple[int, ...] = (10, 20, 40)
    """Word counts at which texts are sliced by length: below 10, 10 to 19, and so on."""
    min_slice_rows: int = Field(default=50, ge=1)
    """Smaller slices are shown but never judged."""
    max_drop: float = Field(default=0.01, ge=0, lt=1)
    """How much worse than that of the model that is pushed now each metric with a threshold may be."""

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
    encoder_run: str | None = None
    """MLflow run whose encoder this one starts from; set by `model.checkpoint: runs:/…` and recorded with the run."""

    @field_validator("uri")
    @classmethod
    def _holds_no_password(cls, value: str | None) -> str | None:
        if value and without_password(value) != value:
            raise ValueError("a config is recorded with the run: give the password in MLFLOW_TRACKING_PASSWORD instead")
        return value


class RangeConfig(Frozen):
    """Values between two bounds, both of them included."""

    min: float
    max: float
    scale: Literal["linear", "log"] = "linear"
    """`log` gives each power of ten as much room as any other, as learning rates want it."""

    @model_validator(mode="after")
    def _rises(self) -> RangeConfig:
        if not self.min < self.max:
            raise ValueError(f"min={self.min:g} must be below max={self.max:g}")
        if self.scale == "log" and self.min <= 0:
            raise ValueError(f"on a scale of powers of ten min={self.min:g} must be above 0")
        return self


# Told apart by their form, so that a mistake is told of the one that was meant. What begins with `function-` is no part of
# a setting's name where mistakes are told.
Values = Annotated[
    Annotated[RangeConfig, Tag("function-range")] | Annotated[tuple[Any, ...], Tag("function-list")],
    Discriminator(lambda given: "function-list" if isinstance(given, list | tuple) else "function-range"),
]


class SearchConfig(Frozen):
    """What `bertline search` looks for; `bertline run` does not look at it."""

    space: dict[str, Values] = Field(default_factory=dict)
    """Setting -> the values that it may take, as a list, or as {min: 1.0e-5, max: 2.0e-4, scale: log}; scale is linear by
    default."""
    trials: int = Field(default=10, ge=1, le=10_000)
    """How many settings are tried."""
    method: Literal["bayesian", "random"] = "bayesian"
    """`bayesian` learns from the trials before, once there are three for each setting of `space`; `random` does not."""
    metric: str | None = None
    """What the trials are compared by; the first metric of `evaluation.thresholds` by default."""

    @field_validator("space", mode="before")
    @classmethod
    def _ranges_or_lists(cls, value: Any) -> Any:
        for name, values in value.items() if isinstance(value, dict) else ():
            is_range = isinstance(values, dict) and {"min", "max"} <= values.keys() <= RangeConfig.model_fields.keys()
            is_list = isinstance(values, list | tuple) and values
            if not (is_range or is_list or isinstance(values, RangeConfig)):
                raise ValueError(f"{name}: give a list of values, or a range as {{min: 1, max: 4}}, with scale: log or not")
        return value


class BeamConfig(Frozen):
    args: tuple[str, ...] = ("--direct_running_mode=in_memory", "--direct_num_workers=1")
    """Arguments of every Beam step."""


class Config(Frozen):
    """A run: what is read, what is learned, what it must reach, where it goes."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    """Name of the pipeline: small letters, digits and dashes."""
    task: str = "classification"
    """What is learned; one file in `models/tasks/` each. Or a layout of GLUE's, as glue/cola, with `data: FOLDER`."""
    workspace: str = "workspace"
    """Folder of everything a run writes."""
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = Field(default=(), max_length=100)
    """Train once for each of these seeds, in place of `training.seed`; the best model that is blessed is pushed, and mean
    and standard deviation of every metric are told."""
    data: DataConfig
    validation: ValidationConfig = ValidationConfig()
    text: TextConfig = TextConfig()
    pretraining: PretrainingConfig = PretrainingConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig
    search: SearchConfig = SearchConfig()
    push: PushConfig = PushConfig()
    tracking: TrackingConfig = TrackingConfig()
    beam: BeamConfig = BeamConfig()

    @field_validator("task")
    @classmethod
    def _known_task(cls, value: str) -> str:
        known = task_names()
        if value not in known:
            raise ValueError(f"there is no task {value!r}{nearest(value, known)}; known: {', '.join(known)}")
        return value

    @field_validator("seeds")
    @classmethod
    def _each_seed_once(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(value)) < len(value):
            raise ValueError("name each seed once: a second training with it would be the same")
        return value

    @model_validator(mode="after")
    def _slices_are_not_reserved(self) -> Config:
        reserved = {*TEXT_KEYS, CHOICES, "label", "words", "length"} & set(self.evaluation.slices)
        if reserved:
            raise ValueError(
                f"evaluation.slices: {sorted(reserved)} are names of our own; texts are sliced by length anyway"
            )
        return self

    @model_validator(mode="after")
    def _phases_rise(self) -> Config:
        lengths = [phase.seq_len for phase in self.pretraining.phases]
        if lengths and (lengths != sorted(lengths) or self.text.seq_len != lengths[-1]):
            raise ValueError(
                f"pretraining.phases: their seq_len must rise, up to text.seq_len (received {lengths} and"
                f" {self.text.seq_len}; leave text.seq_len out)"
            )
        for phase in self.pretraining.phases:
            if phase.batch_size % self.training.accumulate:
                raise ValueError(
                    f"pretraining.phases: batch_size={phase.batch_size} cannot be worked through in"
                    f" {self.training.accumulate} equal parts"
                )
        return self

    @model_validator(mode="after")
    def _pretraining_reads_masks(self) -> Config:
        if self.task == "pretraining" and self.text.reading == "original":
            raise ValueError("text.reading must be huggingface for pretraining: the other one splits a [MASK] in a text")
        return self

    # Where things are: the one place that knows the shape of the workspace.
    @property
    def home(self) -> Path:
        return Path(self.workspace) / "pipelines" / self.name

    @property
    def artifact_root(self) -> Path:
        return self.home / "artifacts"

    @property
    def search_path(self) -> Path:
        return self.home / "search"

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


def without_password(uri: str) -> str:
    """An address as it may be shown.

    >>> without_password("https://me:secret@host/x")
    'https://…@host/x'
    """
    return re.sub(r"//[^/\s]+@", "//…@", uri)  # up to the last @: a password may hold one


def nearest(word: str, known: Sequence[str]) -> str:
    """`; did you mean X?`, or nothing where no known word is like it."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def _flatten(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        return [pair for key, item in value.items() for pair in _flatten(item, f"{prefix}.{key}" if prefix else str(key))]
    return [(prefix, value)]
