"""What to do after a run: commands that follow from what it came to, ready to be typed again.

A model that was pushed is asked with a text of the run's own evaluation examples. A model that was refused has ways on,
the likeliest first.
"""

from __future__ import annotations

import math
import re
import shlex
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from bertline.components.evaluator.predictions.rows import EvaluationPredictions, Texts
from bertline.components.evaluator.verdict import FILE_NAME as VERDICT
from bertline.components.evaluator.verdict import Verdict
from bertline.models.kinds import without_encoder
from bertline.models.responses.types import EMBED, FILLED
from bertline.models.tasks.base.task import get_task
from bertline.pipeline.commands.run import Started
from bertline.pipeline.config import CHOICES, Config
from bertline.pipeline.console.summary import Summary
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.core.paths import program
from bertline.serving.settings import REST_PORT

Step = tuple[str, str]
"""A command, and what it is for. Without a command it is advice."""

_LONGEST_EXAMPLE = 160  # characters; more would hide the command
_LOOKED_AT = 500
_FEW_EXAMPLES = 1000
_RARE, _OVERLOOKED = 0.1, 0.5
"""A fraction of the evaluation examples, and a recall."""
_FEW_OF_A_CLASS = 10
_EPOCHS = "training.epochs"


def next_steps(config: Config, started: Started, summary: Summary) -> list[Step]:
    """Commands that work as they are, from where the user stands."""
    if summary.pushed_version:
        return list(_after_a_push(config, started, summary))
    return list(_after_a_refusal(config, started, summary)) if summary.blessed is False else []


def _after_a_push(config: Config, started: Started, summary: Summary) -> Iterator[Step]:
    elsewhere, bertline = _elsewhere(config), program("bertline")
    yield f"{bertline} predict{elsewhere} {_example(config, summary)}", "predict with the pushed model"
    yield f"{bertline} serve{elsewhere}", f"or try it in a browser, on http://localhost:{REST_PORT}/"
    if fallback := without_encoder(summary.kind, summary.task):
        why = f"the pushed model is {fallback}; for a better one start from a pre-trained encoder of this language"
        yield _again(config, started, "model.checkpoint=FOLDER"), why
    yield f"{bertline} ui{elsewhere}", "curves, slices and the confusion matrix, beside other runs"
    if (longer := _longer(config, started, summary)) and not fallback:
        yield longer
    elif config.tracking.enabled:
        yield f"{bertline} report --last{elsewhere}", "write a report of this run as one page"


def _other_epochs(config: Config, started: Started, summary: Summary) -> Iterator[Step]:
    if longer := _longer(config, started, summary):
        yield longer
    elif not config.training.restore_best and "restore_best" not in config.training.recipe and _rose(summary.eval_losses):
        best = summary.eval_losses.index(min(summary.eval_losses)) + 1
        why = f"the evaluation loss was lowest after epoch {best} and has risen since: keep the weights of the best epoch"
        yield _again(config, started, "training.restore_best=true"), why


def _after_a_refusal(config: Config, started: Started, summary: Summary) -> Iterator[Step]:
    if summary.serve_check and not summary.serve_check["blessed"]:  # what was learned was good enough
        yield from _faster(config, started, summary)
    else:
        yield from _to_learn_better(config, started, summary)
    if config.tracking.enabled and summary.baseline.get("pushed"):
        yield f"{program('bertline')} compare --last 2{_elsewhere(config)}", "what differs from the run before"
    if config.tracking.enabled:
        purpose = "a page with the examples that it gets wrong"
        yield f"{program('bertline')} report --last{_elsewhere(config)}", purpose
    yield f"{program('bertline')} run --help", "all that a run can be told; `bertline settings` lists every setting"


def _faster(config: Config, started: Started, summary: Summary) -> Iterator[Step]:
    """Ways on where the server has answered too slowly."""
    took = summary.serve_check.get("median_ms") or 0.0
    if took <= config.serve_check.max_latency_ms:
        return
    yield _again(config, started), "ask it again, if the machine was busy; only the ServeCheck and what follows run"
    words = [len(str(text).split()) for texts in _evaluation_texts(summary) for text in texts.values()]
    may_be_windows = config.text.long in ("auto", "windows") and len(config.data.text_columns) == 1
    if may_be_windows and words and statistics.median(words) > 2 * config.text.seq_len:
        why = "read the begin and the end of a long text, in the time of one window; the Trainer and what follows run"
        yield _again(config, started, "text.long=head_tail"), why
    limit = math.ceil(took / 500) * 500
    why = f"if {took:,.0f} ms are fast enough for you; only the ServeCheck and what follows run"
    yield _again(config, started, f"serve_check.max_latency_ms={limit}"), why


def _to_learn_better(config: Config, started: Started, summary: Summary) -> Iterator[Step]:
    if not without_encoder(summary.kind, summary.task):  # neither more epochs nor the best of them would change that
        yield from _other_epochs(config, started, summary)
    if config.model.checkpoint is None and not get_task(config.task).model.has("make_encoder"):
        why = "start from a pre-trained encoder, the folder of a Hugging Face BERT, instead of from scratch"
        yield _again(config, started, "model.checkpoint=FOLDER"), why
    yield from _rare_class(config, started, summary)
    examples = summary.rows.get("train", 0)
    if examples < _FEW_EXAMPLES:
        yield "", f"more labelled examples: {examples:,} are few to train on"
    yield from _lower_thresholds(config, started, summary)


def _rare_class(config: Config, started: Started, summary: Summary) -> Iterator[Step]:
    """Ways to find a positive class that is rare and mostly overlooked."""
    found, examples = summary.classes.get(summary.positive or "", {}), summary.metrics.get("rows", 0)
    if not found or found["rows"] > _RARE * examples or found["recall"] > _OVERLOOKED:
        return
    if found["rows"] < _FEW_OF_A_CLASS:
        yield (
            "",
            f"more labelled examples of {summary.positive!r}: {found['rows']:.0f} evaluation examples are too few"
            " to measure it",
        )
    if config.training.class_weights is None and config.training.sampling == "natural":
        why = f"{summary.positive!r} is rare and mostly missed: give its examples a higher weight"
        yield _again(config, started, "training.class_weights=balanced"), why


def _longer(config: Config, started: Started, summary: Summary) -> Step | None:
    """More epochs, where they promise something: the loss on the evaluation examples still fell at the last one."""
    losses, epochs = summary.eval_losses, config.training.epochs
    if config.pretraining.phases and get_task(config.task).preprocessing.number_keys or not isinstance(epochs, int):
        return None  # the epochs are not those of this setting
    if "epochs" in config.training.recipe:
        return None  # it has trained until nothing became better; and epochs that are given end the recipe as a whole
    if not losses or not math.isfinite(losses[-1]) or losses[-1] > min(losses) or (len(losses) > 1 and _rose(losses[-2:])):
        return None
    fell = "one epoch is short" if len(losses) == 1 else "the evaluation loss still fell at the last epoch"
    more = epochs + max(1, epochs // 2)
    return _again(
        config, started, f"{_EPOCHS}={more}"
    ), f"{fell}: train longer; only the Trainer and the steps after it run"


def _rose(losses: Sequence[float]) -> bool:
    return len(losses) > 1 and losses[-1] >= min(losses[:-1])


def _lower_thresholds(config: Config, started: Started, summary: Summary) -> Iterator[Step]:
    """A threshold that what was measured reaches, for each that was missed; none that an answer without a look at the text
    would reach as well."""
    verdict = _verdict(summary)
    if verdict is None:
        return
    lower = verdict.less_is_better or ()
    for name, threshold in config.evaluation.thresholds.items():
        value = summary.metrics.get(name, math.nan)
        if not math.isfinite(value) or (value <= threshold if name in lower else value >= threshold):
            continue
        majority = _of_majority(name, verdict, summary)
        if (value >= majority) if name in lower else (value <= majority):
            always = (
                f"always predicting {summary.baseline['majority']['label']!r}" if summary.baseline.get("majority") else ""
            )
            yield "", f"a lower threshold would not help: {always or 'the majority'} reaches {name} {majority:.4f} as well"
            continue
        again = "only the Evaluator and the steps after it run"
        reached = math.ceil(value * 1000) / 1000 if name in lower else math.floor(value * 1000) / 1000
        enough, changes = f"{name} {value:.4f} is good enough for you", [f"evaluation.thresholds.{name}={reached:g}"]
        # The lower threshold alone would not do where a simple baseline is better as well.
        others = (metrics for baseline, metrics in verdict.baselines.items() if baseline != summary.kind)
        rivals = [metrics[name] for metrics in others if name in metrics]
        if config.evaluation.must_beat_baselines and any(one < value if name in lower else one > value for one in rivals):
            changes.append("evaluation.must_beat_baselines=false")
            enough += ", though a simple baseline is better"
            if config.model.checkpoint is None:
                again = "the Trainer, which then tries no fallback, and the steps after it run"
        yield _again(config, started, *changes), f"if {enough}; {again}"


def _of_majority(metric: str, verdict: Verdict, summary: Summary) -> float:
    """What an answer without a look at the text reaches; NaN where that is not known."""
    told = summary.baseline.get("majority") or {}
    return verdict.baselines.get("majority", {}).get(metric, told.get(metric, math.nan))


def _verdict(summary: Summary) -> Verdict | None:
    path = Path(summary.evaluation or "", VERDICT)
    return Verdict.from_json(path.read_text()) if summary.evaluation and path.is_file() else None


def _again(config: Config, started: Started, *changes: str) -> str:
    """The same run with some settings changed."""
    keys = {change.partition("=")[0] for change in changes}
    kept = [override for override in started.overrides if override.partition("=")[0] not in keys]
    given = "".join(f" --set {shlex.quote(override)}" for override in (*kept, *changes))
    return f"{program('bertline')} run {shlex.quote(str(started.source))}{_elsewhere(config)}{given}"


def _elsewhere(config: Config) -> str:
    here = f"{Path.cwd()}/"
    if config.workspace == f"{here}workspace":
        return ""
    return f" --workspace {shlex.quote(config.workspace.replace(here, ''))}"


def _example(config: Config, summary: Summary) -> str:
    """What `bertline predict` is asked: an evaluation example that fits into a line, or else texts that say nothing."""
    serving = get_task(config.task).serving
    embed = "--embed " if EMBED in serving.signatures else ""
    for texts in _evaluation_texts(summary):
        asked = _asked(texts, alone=bool(embed))
        if len(asked) <= _LONGEST_EXAMPLE and asked.isprintable():
            return embed + asked
    if serving.response is FILLED:
        return '--mask "This is a [MASK]."'
    second = ' --second "Another text."' if len(config.data.text_columns) == 2 and not embed else ""
    choices = ' --choice "One end." --choice "Another end."' if config.data.choices else ""
    return f'{embed}"Your text."{second}{choices}'


def _asked(texts: Texts, *, alone: bool) -> str:
    first, *others = (text for key, text in texts.items() if key != CHOICES)
    choices = [f" --choice {_quoted(text)}" for text in texts.get(CHOICES) or ()]
    second = "" if alone else "".join(f" --second {_quoted(str(text))}" for text in others)
    return f"{_quoted(str(first))}{second}{''.join(choices)}"


def _quoted(text: str) -> str:
    """Fit for a shell, in the quotes that people write."""
    return shlex.quote(text) if re.search(r'["$`\\!]', text) else f'"{text}"'


def _evaluation_texts(summary: Summary) -> list[Texts]:
    if not summary.evaluation:
        return []
    try:
        rows = EvaluationPredictions.read(summary.evaluation)
    except (BertlineError, OSError):
        return []
    found = rows.first(_LOOKED_AT).texts
    return [texts for texts in found if texts and all(str(text).strip() for text in texts.values())]
