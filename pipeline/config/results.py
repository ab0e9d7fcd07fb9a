"""What a model must achieve, where it is pushed, and where the run is recorded."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from bertline.pipeline.config.base import Frozen
from bertline.pipeline.core.wording import without_password


class AbstainConfig(Frozen):
    """When to predict none of the classes."""

    precision: float = Field(gt=0, lt=1)
    """Precision to reach on the predictions that are made."""


class DecisionConfig(Frozen):
    """How a model's probabilities become its prediction; tuned on the evaluation examples when the training is over."""

    config_section: ClassVar[str] = "evaluation"

    calibration: bool = True
    """Of the tasks classification and multilabel: divide the logits by a temperature that is fitted on the evaluation
    examples, so that a probability says how often such a prediction is right. The likeliest class stays the same."""
    decision: Literal["argmax", "tuned"] = "argmax"
    """`argmax` predicts the likeliest class, and each of several labels above 0.5. `tuned`, of two classes and of several
    labels, predicts the positive class, or a label, above the threshold with the highest F1 on the evaluation examples,
    if that is better cross-fitted: for rare classes. It may cost accuracy, and metrics on these examples are then a little
    too good; the report has both."""
    abstain: AbstainConfig | None = None
    """Of the task classification: {precision: 0.95} predicts `none of these` below a confidence, chosen on the evaluation
    examples so that such a fraction of the other predictions is right. A model that cannot reach it is refused."""


class EvaluationConfig(DecisionConfig):
    """What a model must achieve to be pushed."""

    thresholds: dict[str, float]
    """Threshold of each metric, for example {accuracy: 0.8}: a lower limit, or an upper one where less is better, as of a
    loss. At least one is required."""
    slice_thresholds: dict[str, float] = Field(default_factory=dict)
    """Threshold of each metric that every slice with enough examples must meet."""
    slices: tuple[str, ...] = ()
    """Columns whose values are evaluated as slices."""
    length_slices: tuple[int, ...] = (10, 20, 40)
    """Word counts at which texts are sliced by length: below 10, 10 to 19, and so on. A Chinese or Japanese character
    counts as a word."""
    min_slice_examples: int = Field(default=50, ge=1)
    """Examples that a slice needs to be judged; smaller slices are shown only."""
    max_drop: float = Field(default=0.01, ge=0, lt=1)
    """How much each metric with a threshold may fall below that of the currently pushed model."""

    must_beat: bool = False
    """Push only what beats the currently pushed model on the same evaluation examples: no metric with a threshold worse,
    and one of them better. `bertline watch` sets it."""

    baselines: bool = True
    """Measure simple baselines on the same evaluation examples, as TF-IDF with logistic regression; it takes seconds."""
    must_beat_baselines: bool = True
    """Refuse a model whose first metric with a threshold is worse than that of the best baseline, by more than the standard
    error of the difference. With fewer than 50 evaluation examples baselines are shown, and do not judge."""

    @field_validator("thresholds")
    @classmethod
    def _not_empty(cls, value: dict[str, float]) -> dict[str, float]:
        if not value:
            raise ValueError("name at least one metric with its threshold, for example {accuracy: 0.8}")
        return value


class ServeCheckConfig(Frozen):
    """What a blessed model must pass in a fresh server before it is pushed."""

    config_section: ClassVar[str] = "serve_check"

    enabled: bool = True
    """Load each blessed model in a fresh server process and send it sample requests by gRPC, before it is pushed."""
    samples: int = Field(default=4, ge=0, le=100)
    """Evaluation examples that are exported with the model, as requests with the trained model's responses; a server also
    warms up with them. 0: the model contains no text of yours, and the check is only whether it loads."""
    max_latency_ms: float = Field(default=1000.0, gt=0)
    """Limit of the median latency, in milliseconds."""


class PushConfig(Frozen):
    destination: str | None = None
    """Folder that receives numbered versions; `workspace/models/NAME` by default."""


class TrackingConfig(Frozen):
    enabled: bool = True
    uri: str | None = None
    """MLflow store; by default MLFLOW_TRACKING_URI, else an sqlite file in the workspace."""
    experiment: str | None = None
    """MLflow experiment; the pipeline's name by default."""
    texts: bool = True
    """Record files that contain your texts: evaluation examples with the model's predictions, which comparisons need, the
    worst errors, quarantined examples, and an example of a request."""
    encoder_run: str | None = None
    """MLflow run whose encoder this one starts from; set by `model.checkpoint: runs:/…` and recorded with the run."""

    @field_validator("uri")
    @classmethod
    def _holds_no_password(cls, value: str | None) -> str | None:
        if value and without_password(value) != value:
            raise ValueError("a config is recorded with the run: give the password in MLFLOW_TRACKING_PASSWORD instead")
        return value
