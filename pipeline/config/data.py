"""The raw files, what their columns mean, which examples are for evaluation, and what stops the pipeline."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

from pydantic import Field, field_validator, model_validator

from bertline.pipeline.config.base import Frozen
from bertline.pipeline.config.databases import PASSWORD_VARIABLE, has_password, is_database
from bertline.pipeline.core import plugins
from bertline.pipeline.core.wording import nearest

Formats = Literal[
    "csv",
    "tsv",
    "jsonl",
    "parquet",
    "documents",
    "conll",
    "squad",
    "parallel",
    "label-studio",
    "doccano",
    "prodigy",
    "xlsx",
    "sql",
]


def format_names() -> list[str]:
    """The formats that a config may name: our own, and those of readers that installed packages register."""
    return [*get_args(Formats), *plugins.registered(plugins.READERS)]


LabelKind = Literal["class", "classes", "number", "index", "tags", "text"]
"""What a label is; the task says it. An index counts an example's choices from 0; tags are classes, one for each word; a
text is one that is to be written."""
Scheme = Literal["any", "IOB1", "IOB2", "IOBES", "BILOU", "BMES"]
TEXT_KEYS = ("text", "text_2")
"""What the texts of an example are called in Examples and in requests, whatever their columns are named."""
CHOICES = "choices"
"""What the list of texts is called that one is to be chosen from."""


class SplitConfig(Frozen):
    """Which examples are for training and which for evaluation, when one `data.path` holds both."""

    config_section: ClassVar[str] = "data.split"

    eval_fraction: float = Field(default=0.1, gt=0, lt=1)
    """Fraction of the examples used for evaluation, chosen by a hash, so that the same examples give the same split;
    `stratify` says when an example may change sides as others are added."""
    group: str | None = None
    """Column whose equal values stay on one side (a user, a document, the first text of pairs). Without it the text
    itself is hashed, so that the same text, or pair of texts, never stands on both sides."""
    stratify: bool = True
    """Whether classes are split alike: where the hash alone gives too few or too many evaluation examples of a class, those
    nearest to the threshold change sides, and a class with fewer than three different texts is in training only. Splits by
    `column`, by `group` and by files stay as they are."""
    column: str | None = None
    """Column that says which split an example belongs to; replaces hashing."""
    train: tuple[str, ...] = ("train",)
    """Values of `column` that mean training examples."""
    eval: tuple[str, ...] = ("eval", "dev", "validation", "valid", "test")
    """Values of `column` that mean evaluation examples."""


class DataConfig(Frozen):
    """The raw files and what their columns mean."""

    config_section: ClassVar[str] = "data"

    path: str | None = None
    """File or glob with all examples, split by `split`. Give this, or `train` and `eval`. {SPAN} in the name stands for a
    number: of files that arrive one after the other, as rows-{SPAN}.csv."""
    train: str | None = None
    """File or glob with the training examples."""
    eval: str | None = None
    """File or glob with the evaluation examples."""
    test: str | None = None
    """File or glob with test examples, beside `path` or beside `train` and `eval`. They choose nothing: neither epochs nor
    anything that is tuned, nor whether a model is pushed. The Evaluator measures the exported model on them as well."""
    spans: int | None = Field(default=None, ge=1)
    """Of files that {SPAN} numbers: read the newest so many numbers only; all by default."""
    format: str | None = None
    """How the files are written; by default their ending says it (.gz and .bz2 are looked through). `documents` (.txt) is
    plain text; see `data.documents` and `data.sentences`. `conll` has a word and its tag a line, see `data.tag_scheme`.
    `squad` is SQuAD's JSON, 1.1 or 2.0, for the task `answering`. `parallel` is two files aligned line by line: with
    text: en and label: de, train.en.gz is named here, and train.de.gz is beside it. `label-studio` (JSON), `doccano`
    and `prodigy` (JSON Lines) are exports of these annotation tools; character spans become tags of words. `xlsx` is a
    workbook of Excel's, see `data.sheet`; `sql` is what `data.query` gives. A package may register
    further ones, which are always named here."""
    query: str | None = None
    """A SELECT for the database whose SQLAlchemy address is `data.path`, as sqlite:///tickets.db or
    postgresql+psycopg://me@host/shop. The address must not contain a password; it is taken from BERTLINE_DB_PASSWORD, or
    by the driver itself (PGPASSWORD, ~/.pgpass). Every run reads all rows, to see whether they have changed."""
    sheet: str | None = None
    """Of an Excel workbook: name of the sheet; the first that is not hidden by default."""
    text: str | tuple[str, ...] = "text"
    """Column that holds the text; two columns, as [premise, hypothesis], for a task over pairs of texts."""
    choices: str | tuple[str, ...] = ()
    """Columns of the endings to choose from, as [a, b, c, d], for the task choice; or one column that holds a list of them.
    An example may have fewer than another: its last ones are then empty."""
    first_choice: Literal[0, 1] = 0
    """What `label` calls the first of the choices, where it numbers them. Letters (A, b) and names of columns are
    understood as well."""
    label: str | None = "label"
    """Column that holds the class or the classes, the number to learn, which of the choices is right, the tags of the
    words, or the text to be written; none for a task that learns from text alone."""
    label_delimiter: str = Field(default=",", min_length=1)
    """Separator between the classes of an example, for the task multilabel; a JSON list needs none."""
    documents: Literal["empty lines", "headings"] = "empty lines"
    """Of plain text: what separates its documents; headings are written ` = Title = `, as in WikiText."""
    sentences: Literal["lines", "split"] = "lines"
    """Of plain text: a sentence a line, or lines that are split where a sentence seems to end."""
    tag_scheme: Scheme = "any"
    """How tags of words are written. `any` reads IOB1, IOB2, IOBES, BILOU and BMES alike, as seqeval does by default; under
    a scheme that is named, a sentence that breaks it is a bad example."""
    segment_numbers: bool = False
    """Of CoNLL files: each word ends with its index in a segment, as in Weibo NER; the index is dropped."""
    columns: tuple[str, ...] = ()
    """Names of the columns, for a CSV or TSV file without a header line."""
    further_columns: bool = False
    """Whether a line of a CSV or TSV file may continue after its last column; the rest is ignored."""
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    """Column separator of a CSV or TSV file; a comma and a tab by default."""
    quotes: bool | None = None
    """Whether `"` quotes a value. By default it does in CSV, and is a plain character in TSV."""
    encoding: str = "utf-8"
    """Character encoding of the files."""
    labels: tuple[str, ...] = ()
    """The classes, in order. By default those of the training examples; naming them makes a typo an anomaly."""
    positive: str | None = None
    """Of two classes the positive one: `f1`, `precision` and `recall` are of it. By default the one whose name
    says so (yes, true, 1, positive, spam, and what the other one negates), else the one with fewer training examples."""
    exclude: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Examples to leave out on purpose: column -> values. They are counted, not quarantined."""
    max_words: int | None = Field(default=None, ge=1)
    """Leave out training examples with a text of more words, on either side of a translation. They are counted, not
    quarantined, and evaluation examples are all kept. 200 by default for the task translation."""
    max_word_ratio: float | None = Field(default=None, ge=1)
    """Of the task translation: leave out training examples of which one side has more than so many times the words
    of the other, for they are hardly translations. A Chinese or Japanese character counts as a word. 9 by default."""
    split: SplitConfig = SplitConfig()
    duplicates: Literal["remove", "keep"] = "remove"
    """What happens to training examples with the text of an evaluation or test example (but for case, accents, punctuation
    and spaces): they are left out and counted, or kept. Those examples are unchanged, so that metrics remain comparable."""
    incomplete: Literal["stop", "quarantine"] = "stop"
    """An example with an empty text or no label stops the pipeline before training, or goes to the quarantine file."""
    max_bad_fraction: float = Field(default=0.01, ge=0, le=1)
    """The run fails when a larger fraction of the examples than this is quarantined."""
    empty_annotations: Literal["leave out", "keep"] = "leave out"
    """What happens to an example of doccano's without labels, for doccano does not say whether anybody has looked at it: it
    is left out and counted, or kept as one that has none."""

    @property
    def text_columns(self) -> dict[str, str]:
        """The texts of an example: name of the feature -> column."""
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
        """Everything that a model reads of an example: name of the feature -> column, or columns of the choices."""
        return {**self.text_columns, **({CHOICES: self.choices} if self.choices else {})}

    @field_validator("format")
    @classmethod
    def _known_format(cls, value: str | None) -> str | None:
        if value is not None and value not in (known := format_names()):
            raise ValueError(f"there is no format {value!r}{nearest(value, known)}; known: {', '.join(known)}")
        return value

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
            raise ValueError(f"an example has one text or two, and {len(columns)} columns are named")
        if len(set(columns)) < len(columns):
            raise ValueError(f"both texts name the same column {columns[0]!r}")
        return value if isinstance(value, str) else columns[0] if len(columns) == 1 else tuple(columns)

    @field_validator("path", "train", "eval", "test")
    @classmethod
    def _no_password(cls, value: str | None) -> str | None:
        if value and has_password(value):
            raise ValueError(f"a config is recorded with the run: give the password in {PASSWORD_VARIABLE} instead")
        return value

    @model_validator(mode="after")
    def _a_database_is_asked(self) -> DataConfig:
        named = (self.path, self.train, self.eval, self.test)
        if self.query is None and (self.format == "sql" or any(path and is_database(path) for path in named)):
            raise ValueError("a database needs a query; set `query`, for example SELECT body, queue FROM tickets")
        if self.query is not None and (self.path is None or "://" not in self.path or self.test is not None):
            raise ValueError("`query` goes with the address of one database in `path`, and with no files beside it")
        if self.query is not None and self.format not in (None, "sql"):
            raise ValueError("leave out `format`: the result of a query has none")
        return self

    @field_validator("positive", mode="before")
    @classmethod
    def _name_of_a_class(cls, value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError('YAML reads this as true or false; write the class in quotes, as "yes"')
        return str(value) if isinstance(value, int) else value

    @model_validator(mode="after")
    def _positive_is_a_class(self) -> DataConfig:
        if self.positive is not None and self.labels and self.positive not in self.labels:
            hint = nearest(self.positive, self.labels)
            raise ValueError(f"`positive` is no class of `labels`: {self.positive!r}{hint}")
        return self

    @model_validator(mode="after")
    def _one_source(self) -> DataConfig:
        if (self.path is None) == (self.train is None) or (self.train is None) != (self.eval is None):
            raise ValueError("give either `path`, or both `train` and `eval`")
        if self.label in self.text_columns.values():
            raise ValueError(f"`text` and `label` name the same column {self.label!r}")
        if self.format == "parallel" and (len(self.text_columns) > 1 or self.label is None):
            raise ValueError(
                "for parallel files, `text` and `label` are the parts of their names that differ, as en and de"
            )
        for column in self.choice_columns:
            if column == self.label or column in self.text_columns.values():
                other = "label" if column == self.label else "text"
                raise ValueError(f"`choices` and `{other}` name the same column {column!r}")
        return self


class ValidationConfig(Frozen):
    """What counts as an anomaly of the data; an anomaly stops the pipeline before training."""

    allow_anomalies: bool = False
    """Continue in spite of anomalies; set by `--allow-anomalies` and recorded with the run. Examples without a usable label
    then have no weight in training and evaluation."""
    label_drift: float = Field(default=0.1, gt=0, le=1)
    """Largest change of any class's fraction against the last accepted run; of labels that are numbers, their largest
    Jensen-Shannon divergence."""
    length_drift: float = Field(default=0.1, gt=0, le=1)
    """Largest Jensen-Shannon divergence of the text lengths against the last accepted run; also of texts to be written."""
