"""What a task consists of: a small value for each thing that it says.

A field that is a function may be given as `later(…)` names it; see `models/tasks/base/later.py`.

Over 300 lines in one module: most of it says what each field is for, and who adds a task reads all of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from bertline.models.decisions.decision import Decision
from bertline.models.responses.base import ResponseSpec
from bertline.models.tasks.base.later import Part
from bertline.pipeline.config import TEXT_KEYS, DecisionConfig, PretrainingConfig, TranslationConfig

if TYPE_CHECKING:  # so that not every step that knows its task runs again when the code of these sections changes
    from bertline.models.tasks.base.task import Task
    from bertline.models.training.probing import Linearly
    from bertline.pipeline.config import LabelKind, Long, ModelConfig, Pooling

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
    """The TextEncoder of the pipeline."""
    labels: tuple[str, ...]
    """The classes, in the order of their ids."""
    pretraining: PretrainingConfig = field(default_factory=PretrainingConfig)
    text_keys: tuple[str, ...] = TEXT_KEYS[:1]
    """The texts that an example of this pipeline has; the task may be able to read more."""
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
    """What `Evaluation.tune` found; empty before the training is over."""
    places: bool = False
    """Whether tokens of a request bring along where they come from, see `models/tokenization/places.py`."""

    @property
    def decision(self) -> Decision:
        """How the probabilities of classes become an answer."""
        return Decision.of(self.labels, self.positive, self.tuned)


@dataclass(frozen=True, kw_only=True)
class Preprocessing(Part):
    """How examples, and the texts of a request, become tensors."""

    text_keys: tuple[str, ...]
    """Raw text features that an Example may have, in the order in which the served signature takes them. The config's
    `data.text` says how many of them a pipeline has (`Context.text_keys`). `choices` is a list of texts, which a task has
    or has not."""
    min_texts: int = 1
    """So many of them it must have."""
    input_names: tuple[str, ...] = ()
    """What a caller of the served model names the texts; `text_keys` by default."""
    label: LabelKind | None = "class"
    """What the raw feature `label` of an Example is: the name of a class, or of any number of them, a number, which of the
    choices is right, or a tag for each word; none where examples have no label."""
    list_keys: Mapping[str, Literal["string", "int64"]] = field(default_factory=dict)
    """Columns with any number of values in an example, and their type. They become raw features of the same names."""
    number_keys: tuple[str, ...] = ()
    """Raw features that are lists of whole numbers, in Examples that a step of the pipeline has made of the documents."""
    features: Callable[[Mapping[str, Any], Context], Tensors]
    """(raw columns) -> `token_ids` (ragged) and everything else that is learned from. TensorFlow ops only."""
    request: Callable[[Mapping[str, Any], Context], Tensors]
    """(text columns) -> the same for a caller's texts, without targets."""
    long: tuple[Long, ...] = ("cut",)
    """How it may read a text that is longer than the encoder; none where it reads windows in any case. With `auto`, the
    lengths of the training examples choose, see `models/data/long_texts.py`."""
    expand: Callable[[Tensors, Context, bool], Tensors] | None = None
    """(features, context, training) -> the features of what the model reads, where one example is several, as windows over
    a long text are. In training each is then an example of its own. Otherwise `Serving.signature` and `Evaluation.measure`
    put them together again, by what travels with them."""
    prepare: Callable[[Context, bool], Callable[[Tensors, Any], Tensors]] | None = None
    """(context, training) -> function of (batch, seed) that every batch goes through before it is learned from, where
    something is to be drawn anew each time; the batch must follow from the seed."""


@dataclass(frozen=True, kw_only=True)
class Fallback(Part):
    """A linear model over TF-IDF, which is pushed where an encoder from scratch is worse (`training.fallback`)."""

    name: str
    """What is learned over TF-IDF, as `ridge regression`."""
    lesson: Callable[[Any, Sequence[str]], Any]
    """(examples, labels) -> what there is to learn of them, see `components/baselines/layers.py`."""


@dataclass(frozen=True, kw_only=True)
class Model(Part):
    """What is trained."""

    build: Callable[[Any, Context, float, int], Any]
    """(encoder, context, dropout, seed) -> a new Keras model from a batch to outputs, each time that it is called."""
    make_encoder: Callable[[ModelConfig, Context, int], Any] | None = None
    """(settings, context, seed) -> what `build` is given as encoder, where it is not BERT's."""
    linear_probe: Linearly | None = None
    """How its head is learned alone, on the frozen encoder's vectors (`models/training/probing.py`); none of a task whose
    answer is not one linear layer from one vector."""
    heads: Callable[[Any], dict[str, Any]] | None = None
    """(model) -> its head's weights under Hugging Face's names, where the encoder itself is a result that others start
    from: it is then left beside the served model as a checkpoint, with these."""
    fallback: Fallback | None = None
    """What may take the place of an encoder that was trained from scratch, for examples of one text."""
    take_heads: Callable[[Any, Mapping[str, Any]], list[str]] | None = None
    """(model, a checkpoint's heads as `checkpoints.load_heads` gives them) -> takes over those that the task has too, and
    says in sentences what became of them."""

    @property
    def starts_from_scratch(self) -> bool:
        """Whether it does as a rule: it has an encoder of its own, or the encoder itself is the result."""
        return self.has("make_encoder") or self.has("heads")


@dataclass(frozen=True, kw_only=True)
class Objective(Part):
    """What is minimized, and what weighs how much in it."""

    loss: Callable[[Any, Mapping[str, Any]], Any]
    """(outputs, batch) -> one loss an example, [batch]."""
    smoothing: Callable[[Any, Mapping[str, Any]], Any] | None = None
    """(outputs, batch) -> the mean of the losses that an example would have if each class were the right one, [batch]: what
    label smoothing mixes in."""
    accuracy: Callable[[Any, Mapping[str, Any]], Any]
    """(outputs, batch) -> the fraction of each example that is answered right, for the progress bar and the learning curve;
    NaN where an answer is not right or wrong."""
    class_key: str | None = None
    """The feature with what is learned to tell apart: the id of a class (-1 is none) of an example or of each word, or
    flags."""
    class_weights: Callable[[Tensors, Any], Tensors] | None = None
    """(batch, [classes]) -> the batch with what each class weighs in its loss."""
    counted_key: str | None = None
    """The ragged feature whose values are learned one by one, as the tokens of a text that is written: an example weighs as
    much in the loss as it has of them."""


class Output(NamedTuple):
    """One thing that a model is measured by: names of tensors of the evaluator's signatures."""

    prediction: str
    label: str
    weight: str


@dataclass(frozen=True)
class Metric:
    """One number of the evaluation: a metric of TFMA over an output, or a function of another metric."""

    tfma: str = ""
    """A class of TFMA or Keras, or a score of `models/metrics/accumulators.py`."""
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
class Evaluation(Part):
    """How a model is measured, by the Evaluator and after each epoch."""

    measure: Callable[[Any, Mapping[str, Any], Context], Tensors]
    """(outputs, batch) -> the predictions that are measured."""
    targets: Callable[[Mapping[str, Any]], Tensors]
    """(features) -> the labels and weights to measure by."""
    outputs: Mapping[str, Output]
    """The first one counts the examples. One that no metric is of is kept with the evaluation examples, to be looked at."""
    metrics: Mapping[str, Metric]
    """By their names in the config."""
    left_out: Callable[[PretrainingConfig], tuple[str, ...]] = staticmethod(lambda settings: ())
    """Metrics of what a pipeline with these settings does not learn."""
    confusion: str | None = None
    """The output whose predictions are probabilities of the classes, if there is one."""
    prepare: Callable[[Tensors], Tensors] = staticmethod(lambda batch: batch)
    """Every batch of the Evaluator goes through it."""
    tune: Callable[[Task, Any, Context, Iterable[Tensors]], dict[str, float]] | None = None
    """(task, trained model, context, features of the evaluation examples) -> numbers that are chosen after the training.
    They become `Context.tuned`, and stand in the model's metadata."""
    outcomes: Callable[[Any], Iterable[Any]] | None = None
    """(the evaluation examples with the model's answers) -> of each what was expected and answered, in words, and how bad
    that is (`components/evaluator/predictions/outcomes.py`). Without it, mistakes are not shown."""
    plots: Callable[[Any], Mapping[str, Any]] | None = None
    """(the same) -> figures by the names of their files."""
    baselines: Callable[[Any], Iterator[Any]] | None = None
    """(training and evaluation examples) -> simple ways to answer, learned in seconds (`components/baselines`)."""


def _one_pass(model: Any, batch: Mapping[str, Any], context: Context) -> Any:
    from bertline.models.training.precision import in_float32  # TensorFlow, which not everybody who reads of a task needs

    return in_float32(model(batch, training=False))


@dataclass(frozen=True, kw_only=True)
class Signature(Part):
    """One more way to ask a served model, with one text and perhaps numbers."""

    answer: Callable[[Any, Mapping[str, Any], Context], Tensors]
    """(model, {"text": [batch], and the numbers}) -> the outputs."""
    numbers: Mapping[str, str] = field(default_factory=dict)
    """Further inputs, one number an example: name -> type."""
    response: ResponseSpec[Any] | None = None
    """What its outputs mean to a caller; none where only its tensors are handed on."""


@dataclass(frozen=True, kw_only=True)
class Serving(Part):
    """What a caller of the pushed model is answered."""

    signature: Callable[[Any, Mapping[str, Any], Context], Tensors]
    """(outputs, batch) -> the outputs of the served signature."""
    response: ResponseSpec[Any] | None = None
    """What these outputs mean, in the user's terms; without, they are handed on as tensors under their names."""
    predict: Callable[[Any, Mapping[str, Any], Context], Any] = staticmethod(_one_pass)
    """(model, batch) -> the outputs that a caller or the Evaluator is answered from, where that takes more than the model's
    one pass over a batch."""
    decides: bool = False
    """Whether the answer follows from probabilities of classes, which are its first output, by `Context.decision`."""
    signatures: Mapping[str, Signature] = field(default_factory=dict)
    """Further signatures, by their names."""
    as_asked: Callable[[bytes], bytes] = staticmethod(lambda text: text)
    """(a text of the files) -> one as a caller of the served model asks it, where that differs."""


def _token_vectors(model: Any) -> Any:
    return model.encoder.embeddings.token


def _attention_of_encoder(model: Any, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
    given = batch["token_ids"], batch.get("segment_ids"), batch["mask"]
    found = model.encoder.inspect(*given, blocks=batch.get("blocks"), positions=batch.get("positions"))
    return {"encoder": list(found.attentions)}


def _heads_of_encoder(model: Any) -> dict[str, list[list[int]]]:
    return {"encoder": [list(kept) for kept in model.encoder.size.kept_heads]}


@dataclass(frozen=True, kw_only=True)
class Inspection(Part):
    """How a model is looked into to explain its answers, see `models/explain`. By default it has BERT's encoder."""

    target: Callable[[Any], list[Any]]
    """(what was asked and answered) -> what of the answer is explained, see `models/explain/targets.py`."""
    by_label: bool = True
    """Whether another answer than the given one can be asked for (`--label`)."""
    by_word: bool = False
    """Whether one word's part of the answer can be (`--word`)."""

    vectors: Callable[[Any], Any] = staticmethod(_token_vectors)
    """(model) -> the layer that turns token ids into vectors, and takes vectors in their place."""
    attend: Callable[[Any, Mapping[str, Any]], dict[str, list[Any]]] = staticmethod(_attention_of_encoder)
    """(model, batch) -> the attention weights of each layer, [batch, heads, looking, looked at], by the name of the stack
    that the layers are of. What a token pays to the others sums to 1."""
    heads: Callable[[Any], dict[str, list[list[int]]]] = staticmethod(_heads_of_encoder)
    """(model) -> the numbers of the heads of each layer, by the same names; pruned ones are left out."""
    writes: bool = False
    """Whether the model answers token by token; what it wrote is then `target_ids` of a batch that it is looked into with,
    and its signature `align` gives the `target_pieces`."""


@dataclass(frozen=True, kw_only=True)
class Recognition(Part):
    """Which data `bertline new` takes for this task's, and what it then writes (`pipeline/new`)."""

    table: Callable[[Any], Any] | None = None
    """(table) -> a guess at the config; None where its examples are not of this task."""
    precedence: int = 100
    """Tasks are tried in this order; the first that fits is taken."""
    only_asked: bool = False
    """Whether it fits data of another task as well, and is taken only where it is named."""
    formats: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """Formats that only this task is learned from: (source, file, data) -> a guess."""


def _no_defaults(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, kw_only=True)
class Configuration(Part):
    """What a config of this task begins with."""

    defaults: Callable[[Mapping[str, Any]], Mapping[str, Any]] = staticmethod(_no_defaults)
    """(the config as it was written) -> section -> settings that hold where it says nothing else."""
    recognition: Recognition | None = None
    """Without it, `bertline new` never proposes the task."""
