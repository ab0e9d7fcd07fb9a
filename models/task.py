"""What a task is: a value that says how text and labels become tensors, what is learned, and how it is judged."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from models.decision import Decision
from models.score_families import family_of
from pipeline.config import CHOICES, TEXT_KEYS, DecisionConfig, PretrainingConfig, TranslationConfig
from pipeline.errors import BertlineError

if TYPE_CHECKING:  # so that not every step that knows its task runs again when the code of these sections changes
    from pipeline.config import LabelKind, Long, ModelConfig, Pooling, TrainingConfig

Tensors = dict[str, Any]


class Raw(NamedTuple):
    """A raw feature of an Example."""

    dtype: str
    is_list: bool = False
    """Whether an Example has any number of its values, and not one."""


LABELS: Mapping[LabelKind, Raw] = {
    "class": Raw("string"),
    "classes": Raw("string", is_list=True),
    "number": Raw("float32"),
    "index": Raw("int64"),
    "tags": Raw("string", is_list=True),
    "text": Raw("string"),
}
MISSING = {"string": "", "float32": math.nan, "int64": -1}
"""What a raw text or label is in a graph where an Example has none, by its type."""


@dataclass(frozen=True)
class Context:
    """What the functions of a task need besides tensors."""

    text: Any
    """The TextEncoder of the line."""
    labels: tuple[str, ...]
    """The classes, in the order of their ids."""
    pretraining: PretrainingConfig = field(default_factory=PretrainingConfig)
    text_keys: tuple[str, ...] = TEXT_KEYS[:1]
    """The texts that a row of this line has; the task may be able to read more."""
    pooling: Pooling = "pooler"
    """Which vector is answered from."""
    crf: bool = False
    """Whether tags of words are chosen together, by how they follow each other."""
    translation: TranslationConfig = field(default_factory=TranslationConfig)
    target: Any = None
    """The TextEncoder of the texts that are written, for a task that writes some; `text` itself where both languages have
    one vocabulary."""
    positive: str | None = None
    """The positive class of two."""
    deciding: DecisionConfig = field(default_factory=DecisionConfig)
    """What is to be tuned after the training, of a task that answers by probabilities."""
    tuned: Mapping[str, float] = field(default_factory=dict)
    """What `Task.tune` found; empty before the training is over."""
    places: bool = False
    """Whether tokens of a request bring along where they come from, see `models/places.py`."""

    @property
    def decision(self) -> Decision:
        """How the probabilities of classes become an answer."""
        return Decision.of(self.labels, self.positive, self.tuned)


def _one_pass(model: Any, batch: Mapping[str, Any], context: Context) -> Any:
    from models.precision import in_float32  # TensorFlow, which not everybody who reads of a task needs

    return in_float32(model(batch, training=False))


class Inside(NamedTuple):
    """How a task's model is looked into, for `models/explaining`."""

    vectors: Callable[[Any], Any]
    """(model) -> the layer that turns token ids into vectors, and takes vectors in their place."""
    attend: Callable[[Any, Mapping[str, Any]], dict[str, list[Any]]]
    """(model, batch) -> the attention weights of each layer, [batch, heads, looking, looked at], by the name of the stack
    that the layers are of. A row of a token sums to 1."""
    heads: Callable[[Any], dict[str, list[list[int]]]]
    """(model) -> the numbers of the heads of each layer, by the same names; pruned ones are left out."""
    writes: bool = False
    """Whether the model answers piece by piece; what it wrote is then `target_ids` of a batch that it is looked into with,
    and its signature `align` tells the `target_pieces`."""


def _attention_of_encoder(model: Any, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
    given = batch["token_ids"], batch.get("segment_ids"), batch["mask"]
    found = model.encoder.inspect(*given, blocks=batch.get("blocks"), positions=batch.get("positions"))
    return {"encoder": list(found.attentions)}


OF_ENCODER = Inside(
    vectors=lambda model: model.encoder.embeddings.token,
    attend=_attention_of_encoder,
    heads=lambda model: {"encoder": [list(kept) for kept in model.encoder.size.kept_heads]},
)
"""Of every model that has BERT's encoder."""


class Signature(NamedTuple):
    """One more way to ask a served model, with one text and perhaps numbers."""

    answer: Callable[[Any, Mapping[str, Any], Context], Tensors]
    """(model, {"text": [batch], and the numbers}) -> the outputs."""
    numbers: Mapping[str, str] = {}
    """Further inputs, one number a row: name -> type."""


class Output(NamedTuple):
    """One thing that a model is measured by: names of tensors of the evaluator's signatures."""

    prediction: str
    label: str
    weight: str


@dataclass(frozen=True)
class Metric:
    """One number of the evaluation: a metric of TFMA over an output, or a function of another metric."""

    tfma: str = ""
    """A class of TFMA or Keras, or a score of `models/score_families.py`."""
    output: str = ""
    of: str = ""
    function: Callable[[float], float] | None = None
    better: Literal["higher", "lower"] = "higher"
    """A bound on the metric is a lower one if higher values are better, and an upper one otherwise."""
    classes: int | None = None
    """It is measured only where there are so many classes."""

    def is_measured(self, classes: int) -> bool:
        return self.classes in (None, classes)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One file in `models/tasks/` makes one of these and calls it `TASK`.

    Tensors travel under names. `features` makes them from the raw columns of Examples, `expand` makes more rows of them
    where the model reads a row in parts, `inputs.padded` makes a batch of them, the model of `build` turns a batch into
    outputs, `answer` the outputs into what a caller of the served model reads.
    """

    name: str
    text_keys: tuple[str, ...]
    """Raw text features that an Example may have, in the order in which the served signature takes them. The config's
    `data.text` says how many of them a line has (`Context.text_keys`). `choices` is a list of texts, which a task has or
    has not."""
    min_texts: int = 1
    """So many of them it must have."""
    input_names: tuple[str, ...] = ()
    """What a caller of the served model names the texts; `text_keys` by default."""
    label: LabelKind | None = "class"
    """What the raw feature `label` of an Example is: the name of a class, or of any number of them, a number, which of the
    choices is right, or a tag for each word; none where rows have no label."""
    list_keys: Mapping[str, Literal["string", "int64"]] = field(default_factory=dict)
    """Columns with any number of values in a row, and their type. They become raw features of the same names."""
    number_keys: tuple[str, ...] = ()
    """Raw features that are lists of whole numbers, in Examples that a step of the line has made of the rows."""
    features: Callable[[Mapping[str, Any], Context], Tensors]
    """(raw columns) -> `token_ids` (ragged) and everything else that is learned from. TensorFlow ops only."""
    request: Callable[[Mapping[str, Any], Context], Tensors]
    """(text columns) -> the same for a caller's texts, without targets."""
    long: tuple[Long, ...] = ("cut",)
    """How it may read a text that is longer than the encoder; none where it reads windows in any case. With `auto`, the
    lengths of the training examples choose, see `models/long_texts.py`."""
    expand: Callable[[Tensors, Context, bool], Tensors] | None = None
    """(features, context, training) -> the features of what the model reads, where one row is several, as windows over a
    long text are. In training each is then a row of its own. Otherwise `answer` and `measure` put them together again, by
    what travels with them."""
    prepare: Callable[[Context, bool], Callable[[Tensors, Any], Tensors]] | None = None
    """(context, training) -> function of (batch, seed) that every batch goes through before it is learned from, where
    something is to be drawn anew each time; the batch must follow from the seed."""
    build: Callable[..., Any]
    """(encoder, context, dropout, seed) -> a new Keras model from a batch to outputs, each time that it is called."""
    linearly: Any = None
    """How its head is learned alone, on the frozen encoder's vectors (`models/probing.py`); none of a task whose answer is
    not one linear layer from one vector."""
    make_encoder: Callable[[ModelConfig, Context, int], Any] | None = None
    """(settings, context, seed) -> what `build` is given as encoder, where it is not BERT's."""
    ask: Callable[[Any, Mapping[str, Any], Context], Any] = staticmethod(_one_pass)
    """(model, batch) -> the outputs that a caller or the evaluator is answered from, where that takes more than the model's
    one pass over a batch."""
    loss: Callable[[Any, Mapping[str, Any]], Any]
    """(outputs, batch) -> one loss an example, [batch]."""
    spread_loss: Callable[[Any, Mapping[str, Any]], Any] | None = None
    """(outputs, batch) -> the mean of the losses that an example would have if each class were the right one, [batch]: what
    label smoothing mixes in."""
    counted: str | None = None
    """The ragged feature whose values are learned one by one, as the pieces of a text that is written: a row weighs as much
    in the loss as it has of them."""
    class_key: str | None = None
    """The feature with what is learned to tell apart: the id of a class (-1 is none) of a row or of each word, or flags."""
    weigh: Callable[[Tensors, Any], Tensors] | None = None
    """(batch, [classes]) -> the batch with what each class weighs in its loss."""
    correct: Callable[[Any, Mapping[str, Any]], Any]
    """(outputs, batch) -> share of each example that is answered right, for the progress bar and the learning curve; NaN
    where an answer is not right or wrong."""
    tune: Callable[[Any, Context, Iterable[Tensors]], dict[str, float]] | None = None
    """(trained model, context, features of the held-out rows) -> numbers that are chosen after the training. They become
    `Context.tuned`, and stand in the model's card."""
    answer: Callable[[Any, Mapping[str, Any], Context], Tensors]
    """(outputs, batch) -> the outputs of the served signature."""
    readable: Callable[[Mapping[str, Any]], str]
    """One answer of the served signature, as a person reads it."""
    decides: bool = False
    """Whether its answer follows from probabilities of classes, which are its first output, by `Context.decision`."""
    signatures: Mapping[str, Signature] = field(default_factory=dict)
    """Further signatures, by their names."""
    as_asked: Callable[[bytes], bytes] = staticmethod(lambda text: text)
    """(a text of the files) -> one as a caller of the served model asks it, where that differs."""
    plain: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    """One answer of the served signature as JSON has it, where it is not just its tensors under their names."""
    for_evaluation: Callable[[Tensors], Tensors] = staticmethod(lambda batch: batch)
    """Every batch of the evaluator goes through it."""
    measure: Callable[[Any, Mapping[str, Any], Context], Tensors]
    """(outputs, batch) -> the predictions that the evaluator measures."""
    targets: Callable[[Mapping[str, Any]], Tensors]
    """(features) -> the labels and weights that the evaluator measures by."""
    outputs: Mapping[str, Output]
    """The first one counts the rows. One that no metric is of is kept with the held-out rows, to be looked at."""
    metrics: Mapping[str, Metric]
    """By their names in the config."""
    left_out: Callable[[PretrainingConfig], tuple[str, ...]] = staticmethod(lambda settings: ())
    """Metrics of what a line with these settings does not learn."""
    confusion: str | None = None
    """The output whose predictions are shares of the classes, if there is one."""
    heads: Callable[[Any], dict[str, Any]] | None = None
    """(model) -> its head's weights under Hugging Face's names, where the encoder itself is a result that others start
    from: it is then left beside the served model as a checkpoint, with these."""
    inside: Inside = OF_ENCODER
    """How its model is looked into."""
    opened: bool = True
    """Whether it can be: a model that has no vectors of tokens cannot."""
    take_heads: Callable[[Any, Mapping[str, Any]], list[str]] | None = None
    """(model, a checkpoint's heads as `checkpoints.load_heads` gives them) -> takes over those that the task has too, and
    says in sentences what became of them."""


def raw_features(task: Task, text_keys: Sequence[str]) -> dict[str, Raw]:
    """Everything of an Example that `Task.features` reads, by its name."""
    texts = () if task.number_keys else text_keys
    return {
        **{name: Raw("string", is_list=name == CHOICES) for name in texts},
        **({"label": LABELS[task.label]} if task.label else {}),
        **{name: Raw(dtype, is_list=True) for name, dtype in task.list_keys.items()},
        **{name: Raw("int64", is_list=True) for name in task.number_keys},
    }


def expanded(task: Task, features: Tensors, context: Context, *, training: bool = False) -> Tensors:
    """The features of what the model reads."""
    return task.expand(features, context, training) if task.expand else features


def as_learned(task: Task, settings: PretrainingConfig) -> Task:
    """The task, measured by nothing that this line does not learn."""
    left_out = task.left_out(settings)
    metrics = {name: metric for name, metric in task.metrics.items() if name not in left_out}
    measured = {metric.output for metric in metrics.values()}
    return replace(task, metrics=metrics, confusion=task.confusion if task.confusion in measured else None)


def check_texts(task: Task, text_keys: Sequence[str], pooling: Pooling | None = None) -> None:
    """Refuses examples with fewer or more texts than the task or the pooling reads, before the run starts."""
    if CHOICES in task.text_keys and CHOICES not in text_keys:
        raise BertlineError(f"data.choices: the task {task.name} needs the columns to choose from, as [a, b, c, d].")
    if CHOICES in text_keys and CHOICES not in task.text_keys:
        raise BertlineError(f"data.choices: the task {task.name} does not choose; leave it out, or set task: choice.")
    given, known = (sum(key != CHOICES for key in keys) for keys in (text_keys, task.text_keys))
    least, most = task.min_texts, known
    if not least <= given <= most:
        wanted = f"{least}" if least == most else f"{least} or {most}"
        raise BertlineError(
            f"data.text: the task {task.name} reads {wanted} text{'s' * (most > 1)} a row, and the config names"
            f" {given}; name as many columns."
        )
    if pooling == "pair" and (given != 2 or not task.linearly):
        raise BertlineError(
            "model.pooling: pair compares the two texts of an example, for a class or a number; here the task is"
            f" {task.name} with {given} text{'s' * (given > 1)}. Leave it out, or choose pooler, cls or mean."
        )


def check_label(task: Task, column: str | None) -> None:
    """Refuses a config with a label that the task would not look at, before the run starts."""
    if task.label is None and column is not None:
        raise BertlineError(f"data.label: the task {task.name} learns from the texts alone; leave it out.")


def check_test(task: Task, path: str | None) -> None:
    """Refuses test examples of a task that is measured on examples which its own pipeline has made."""
    if path is not None and task.number_keys:
        raise BertlineError(
            f"data.test: the task {task.name} is measured on pairs that are made of documents; leave it out."
        )


def check_training(task: Task, training: TrainingConfig, crf: bool) -> None:
    """Refuses settings that the task's loss does not know, before the run starts."""
    together = "with model.crf, which learns whole rows of tags" if crf else f"of the task {task.name}"
    if training.label_smoothing and (crf or task.spread_loss is None):
        raise BertlineError(f"training.label_smoothing: the loss {together} cannot be smoothed; leave it out.")
    if training.class_weights and (crf or task.weigh is None):
        raise BertlineError(f"training.class_weights: the loss {together} has no weights of classes; leave them out.")
    if task.make_encoder and (training.lora or training.gradient_checkpointing):
        raise BertlineError(
            f"training.lora, training.gradient_checkpointing: they are for BERT's encoder; the task {task.name} has another"
            " model. Leave them out."
        )
    known = ["loss", *(name for name, metric in task.metrics.items() if family_of(metric.tfma))]
    if "best_by" not in training.recipe and training.best_by not in known:
        raise BertlineError(
            f"training.best_by: {training.best_by!r} is not measured after an epoch of the task {task.name};"
            f" choose {', '.join(known)}."
        )
    if training.sampling != "natural" and task.label != "class":
        raise BertlineError(
            f"training.sampling: rows of the task {task.name} do not have one class each to be drawn by; leave it out."
        )


def get_task(name: str) -> Task:
    return importlib.import_module(f"models.tasks.{name}").TASK
