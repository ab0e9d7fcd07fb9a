"""What a model must reach, where it goes, and where the run is recorded."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from pipeline.config.base import Frozen
from pipeline.config.wording import without_password


class AbstainConfig(Frozen):
    """When to answer none of the classes."""

    precision: float = Field(gt=0, lt=1)
    """Fraction of the answers that are to be right, of those that are given."""


class DecisionConfig(Frozen):
    """How a model's probabilities become its answer; tuned on the evaluation examples when the training is over."""

    calibration: bool = True
    """Of the tasks classification and multilabel: divide the logits by a temperature that is fitted on the evaluation
    examples, so that a probability says how often such an answer is right. The likeliest class stays the same."""
    decision: Literal["argmax", "tuned"] = "argmax"
    """`argmax` answers the likeliest class, and each of several labels above 0.5. `tuned`, of two classes and of several
    labels, answers the positive class, or a label, above the threshold with the highest F1 on the evaluation examples,
    if that is better cross-fitted: for rare classes. It may cost accuracy, and metrics on these examples are then a little
    too good; the report has both."""
    abstain: AbstainConfig | None = None
    """Of the task classification: {precision: 0.95} answers `none of these` below a confidence, chosen on the evaluation
    examples so that such a fraction of the other answers is right. A model that cannot reach it is refused."""


class EvaluationConfig(DecisionConfig):
    """What a model must reach to be pushed."""

    thresholds: dict[str, float]
    """Bound of each metric, for example {accuracy: 0.8}: a lower one, or an upper one where less is better, as of a loss.
    At least one: without a bound nothing could be refused."""
    slice_thresholds: dict[str, float] = Field(default_factory=dict)
    """Bound of each metric that every slice with enough rows must keep."""
    slices: tuple[str, ...] = ()
    """Columns whose values are evaluated one by one."""
    length_slices: tuple[int, ...] = (10, 20, 40)
    """Word counts at which texts are sliced by length: below 10, 10 to 19, and so on. A Chinese or Japanese character
    counts as a word."""
    min_slice_rows: int = Field(default=50, ge=1)
    """Smaller slices are shown but never judged."""
    max_drop: float = Field(default=0.01, ge=0, lt=1)
    """How much worse than that of the model that is pushed now each metric with a threshold may be."""

    must_beat: bool = False
    """Push only what beats the model that is pushed now, on the same held-out rows: no metric with a threshold worse, and
    one of them better. `bertline watch` wants it so."""

    baselines: bool = True
    """Measure simple baselines on the same evaluation examples, as TF-IDF with logistic regression; it takes seconds."""
    must_beat_baselines: bool = True
    """Refuse a model whose first metric with a threshold is worse than that of the best baseline, by more than the standard
    error of the difference. With fewer than 50 evaluation examples baselines are shown, and do not judge."""

    @field_validator("thresholds")
    @classmethod
    def _not_empty(cls, value: dict[str, float]) -> dict[str, float]:
        if not value:
            raise ValueError("name at least one metric with its lower bound, for example {accuracy: 0.8}")
        return value


class ServeCheckConfig(Frozen):
    """What a blessed model must show in a server of its own before it is pushed."""

    enabled: bool = True
    """Load each blessed model in a fresh server process and ask it the samples by gRPC, before it is pushed."""
    samples: int = Field(default=4, ge=0, le=100)
    """Held-out rows that travel with the model, as requests with the trained model's own answers; a server also warms up
    with them. 0: no text of yours is in the model, and the check is only whether it loads."""
    max_ms: float = Field(default=1000.0, gt=0)
    """Milliseconds that the median answer may take."""


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
    """Record files that hold texts of yours: held-out rows with the model's answers, which comparisons need, the worst
    mistakes, rows in quarantine, and an example of a request."""
    encoder_run: str | None = None
    """MLflow run whose encoder this one starts from; set by `model.checkpoint: runs:/…` and recorded with the run."""

    @field_validator("uri")
    @classmethod
    def _holds_no_password(cls, value: str | None) -> str | None:
        if value and without_password(value) != value:
            raise ValueError("a config is recorded with the run: give the password in MLFLOW_TRACKING_PASSWORD instead")
        return value
