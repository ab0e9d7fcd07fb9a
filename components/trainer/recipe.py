"""What the Trainer decides by the data before the first step: the recipe's settings, the pooling, the first head."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bertline.models.data.batching import Corpus, read_lengths
from bertline.models.data.long_texts import choose_long, left_open
from bertline.models.heads.pooled import PAIR, poolings, sliding_of
from bertline.models.tasks.base.task import Context, Task
from bertline.models.training.cluster import Cluster
from bertline.models.training.probing import Probe, probe
from bertline.models.training.recipe import choose, keeps_too_much, parts_of_windows
from bertline.pipeline.config import ModelConfig, Pooling, TextConfig, TrainingConfig
from bertline.pipeline.core import events
from bertline.pipeline.core.storage import local_copy

_POOLING = "1_Pooling/config.json"
_POOLING_MODES: Mapping[str, Pooling] = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """How a training is done, and why."""

    settings: TrainingConfig
    context: Context
    probe: Probe | None = None
    """The head to begin with, which is a candidate itself."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    ends_at_best: bool = False
    """Whether the training is over once no later epoch could be measured as better."""

    def begin(self, model: Any) -> Any:
        """The model with the probe's head."""
        if self.probe:
            model.head.kernel.assign(self.probe.layer.kernel)
            model.head.bias.assign(self.probe.layer.bias)
        return model

    def ended(self, step: int, evaluated: int) -> Prepared:
        """Says that the training was over early, and why.

        Args:
          step: whose weights are left; 0 where it was over before the first one.
          evaluated: evaluation examples.
        """
        what = f"ended at step {step}" if step else "left out; the linear model of the probe is exported"
        already = f"all {evaluated:,} evaluation examples are answered rightly, and nothing could be measured as better"
        way = f"more of them could tell, and training.epochs={self.settings.epochs} trains in any case"
        reason = f"{what}  ({already}; {way})"
        name = "fine-tuning" if self.probe else "training"
        events.emit(events.Note(f"{name} {reason}"))
        return replace(self, reasons={**self.reasons, name: reason})

    def to_json(self) -> str:
        """For the record of the run."""
        chosen = {name: getattr(self.settings, name) for name in self.settings.recipe}
        scores = {name: round(score, 6) for name, score in self.probe.scores.items()} if self.probe else {}
        told = {"settings": chosen, "reasons": dict(self.reasons), "pooling": self.context.pooling, "probe": scores}
        return json.dumps(told | ({"long": self.context.text.long} if "long" in self.reasons else {}), indent=1)


def decide_long(
    task: Task, text: TextConfig, texts: int, files: Sequence[str], feature_spec: Mapping[str, Any], *, xla: bool = False
) -> tuple[TextConfig, Mapping[str, str]]:
    """The settings with the way in which long texts are read, and the reason where there was something to choose.

    Args:
      texts: of an example.
      files: transformed training examples.
      xla: whether the training step is compiled, which windows cannot be.
    """
    if not left_open(task, text):
        return text, {}
    way = choose_long(read_lengths(files, feature_spec), text, windows=texts == 1 and not xla)
    return text.model_copy(update={"long": way.long}), {"long": f"{way.long}  ({way.why})"} if way.why else {}


def prepare(
    task: Task,
    context: Context,
    model: ModelConfig,
    settings: TrainingConfig,
    encoder: Any,
    rows: Corpus,
    evaluated: int,
    before: Mapping[str, str] | None = None,
    replicas: int = 1,
) -> Prepared:
    """Chooses what the config leaves to the data, and says so.

    Args:
      encoder: () -> the checkpoint's encoder, or a fresh one.
      evaluated: evaluation examples.
      before: the reasons of what has been chosen already.
      replicas: copies of the model that a batch is dealt out to.
    """
    reasons = dict(before or {})
    found, why = None, "as the config says"
    given = model.pooling or (_pooling_of(model.checkpoint) if model.checkpoint and settings.recipe else None)
    if given and not model.pooling:
        why = f"as the checkpoint was trained, by its {_POOLING}"
    tried: tuple[Pooling, ...] = poolings(len(context.text_keys))
    if given:  # a checkpoint's own is that of one text
        tried = (given, PAIR) if PAIR in tried and not model.pooling else (given,)
    linear = task.model.linear_probe
    if linear and _is_probed(model, settings):
        outputs = 1 if task.preprocessing.label == "number" else len(context.labels)
        found = probe(encoder(), rows, linear, outputs, poolings=tried, sliding=sliding_of(context), seed=settings.seed)
    if linear and found and len(tried) > 1:
        others = ", ".join(f"{name} {score:.4f}" for name, score in found.scores.items())
        why = f"best for a linear model on frozen vectors, by {linear.measure}: {others}"
        if found.pooling == PAIR:
            why += "; each text is encoded by itself, and their vectors are compared"
    pooling = found.pooling if found else given or "pooler"
    if linear and (found or given):
        reasons["pooling"] = f"{pooling}  ({why})"
    if linear and found:
        reasons["probe"] = (
            f"{linear.measure} {found.scores[pooling]:.4f} on training examples set aside  ({found.examples:,}"
            " examples; training starts from its head, and keeps it if nothing is better)"
        )
    if settings.recipe:
        chosen = choose(
            task,
            settings,
            examples=len(rows),
            evaluated=evaluated,
            classes=len(context.labels),
            hidden=model.hidden_dim or encoder().size.hidden,
            from_checkpoint=model.checkpoint is not None,
            probed=found is not None,
        )
        settings, reasons = chosen.settings, {**reasons, **chosen.reasons}
    sliding = sliding_of(context)
    if sliding and settings.gradient_accumulation_steps == 1:
        parts = parts_of_windows(settings.batch_size, sliding.most, sliding.size + 2, replicas)
        settings = settings.model_copy(update={"gradient_accumulation_steps": parts})
        most = sliding.most * settings.batch_size // parts
        reasons["gradient_accumulation_steps"] = (
            f"{parts}  (parts of a batch, to save memory: each has up to {most} windows)"
        )
    if sliding and not settings.gradient_checkpointing:
        at_once = sliding.most * settings.batch_size // (settings.gradient_accumulation_steps * replicas)
        if keeps_too_much(at_once * (sliding.size + 2), sliding.size + 2, encoder().size):
            settings = settings.model_copy(update={"gradient_checkpointing": True})
            reasons["gradient_checkpointing"] = f"true  ({at_once} windows at once would keep more than memory may have)"
    for name, reason in reasons.items():
        events.emit(events.Note(f"{name} {reason}"))
    return Prepared(
        settings=settings,
        context=replace(context, pooling=pooling),
        probe=found,
        reasons=reasons,
        # Of windows an epoch takes minutes. Short texts are trained on: in seconds, the loss may still become less.
        ends_at_best=sliding is not None and settings.restore_best and {"epochs", "restore_best"} <= set(settings.recipe),
    )


def _is_probed(model: ModelConfig, settings: TrainingConfig) -> bool:
    wanted = bool(settings.recipe) if settings.probe is None else settings.probe
    # Processes that train together begin with the weights of the first one's seed, and know nothing of each other's probes.
    return wanted and model.checkpoint is not None and not Cluster.from_environment()


def _pooling_of(checkpoint: str) -> Pooling | None:
    """What a sentence-transformers folder says of itself; None for one that says nothing, or something else."""
    try:
        told = json.loads(Path(local_copy(checkpoint), _POOLING).read_text(encoding="utf-8"))
        modes = [mode for key, mode in _POOLING_MODES.items() if told.get(key) is True]
    except (OSError, ValueError, AttributeError):
        return None
    return modes[0] if len(modes) == 1 else None
