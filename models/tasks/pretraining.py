"""BERT's own task: predict masked tokens, and whether the second half of an example follows the first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bertline.models.responses.types import FILLED
from bertline.models.tasks.base.later import later
from bertline.models.tasks.base.task import (
    Configuration,
    Evaluation,
    Inspection,
    Metric,
    Model,
    Objective,
    Output,
    Preprocessing,
    Recognition,
    Serving,
    Task,
)

if TYPE_CHECKING:
    from bertline.models.tasks.graphs import pretraining as graph
else:
    graph = later("bertline.models.tasks.graphs.pretraining")
outcomes = later("bertline.components.evaluator.predictions.outcomes", counts=False)
targets = later("bertline.models.explain.targets", counts=False)
texts = later("bertline.pipeline.new.text_files", counts=False)


def _defaults(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Texts without labels, and [MASK] in a request as one token; the last phase has the longest examples."""
    text: dict[str, Any] = {"tokenizer_variant": "huggingface"}
    pretraining = raw.get("pretraining")
    phases = pretraining.get("phases") if isinstance(pretraining, dict) else None
    if isinstance(phases, list) and phases and isinstance(phases[-1], dict) and "seq_len" in phases[-1]:
        text["seq_len"] = phases[-1]["seq_len"]
    return {"data": {"label": None}, "text": text}


TASK = Task(
    name="pretraining",
    preprocessing=Preprocessing(
        text_keys=("text",),
        label="class",
        number_keys=("token_ids", "segment_ids", "masked_positions", "masked_ids", "phase"),
        features=graph.features,
        request=graph.request,
        prepare=graph.prepare,
    ),
    model=Model(build=graph.build, heads=graph.heads, take_heads=graph.take_heads),
    objective=Objective(loss=graph.loss, accuracy=graph.correct),
    evaluation=Evaluation(
        measure=graph.measure,
        targets=graph.targets,
        outputs={
            "follows": Output("follows", "label_id", "label_weight"),
            "guess_loss": Output("guess_loss", "guess_target", "guess_weight"),
            "guess_right": Output("guess_right", "guess_target", "guess_weight"),
        },
        metrics={
            "mlm_accuracy": Metric("MeanPrediction", "guess_right"),
            "mlm_loss": Metric("MeanPrediction", "guess_loss", better="lower"),
            "perplexity": Metric(of="mlm_loss", function=math.exp, better="lower"),
            "nsp_accuracy": Metric("SparseCategoricalAccuracy", "follows"),
        },
        left_out=lambda settings: () if settings.next_sentence else ("nsp_accuracy",),
        confusion="follows",
        prepare=graph.with_stored_masks,
        outcomes=outcomes.of_masked_tokens,
    ),
    serving=Serving(signature=graph.answer, response=FILLED, as_asked=graph.as_asked),
    inspection=Inspection(target=targets.of_masks, by_word=True),
    config=Configuration(defaults=_defaults, recognition=Recognition(formats={"documents": texts.guess_documents})),
)
