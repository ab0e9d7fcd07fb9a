"""A text in one language, written in another: the original Transformer, encoder and decoder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bertline.models.responses.translation import ALIGNED, SAMPLED, TRANSLATED
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
    Signature,
    Task,
)
from bertline.pipeline.config import TEXT_KEYS

if TYPE_CHECKING:
    from bertline.models.tasks.graphs import translation as graph
else:
    graph = later("bertline.models.tasks.graphs.translation")
baselines = later("bertline.components.baselines.tasks.translation", counts=False)
outcomes = later("bertline.components.evaluator.predictions.outcomes", counts=False)
plots = later("bertline.components.evaluator.predictions.plots", counts=False)
targets = later("bertline.models.explain.targets", counts=False)
translations = later("bertline.pipeline.new.translations", counts=False)


def _defaults(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Texts as they are to be read, and a training as the Transformer's paper has it."""
    training = {
        "epochs": 20,
        "batch_tokens": 4096,
        "label_smoothing": 0.1,
        "schedule": "inverse_sqrt",
        "learning_rate": 1e-3,
        "weight_decay": 0.0,
        "beta_2": 0.98,
        "restore_best": True,
        "monitor": "bleu",
    }
    if "batch_size" in (raw.get("training") or {}):
        del training["batch_tokens"]  # the user counts in examples
    return {
        "data": {"max_words": 200, "max_word_ratio": 9},
        "text": {"lowercase": False, "strip_accents": False, "preserve_whitespace": True},
        "training": training,
    }


TASK = Task(
    name="translation",
    preprocessing=Preprocessing(
        text_keys=TEXT_KEYS[:1], label="text", features=graph.features, request=graph.request, expand=graph.expand
    ),
    model=Model(build=graph.build, make_encoder=graph.make_model),
    objective=Objective(loss=graph.loss, smoothing=graph.spread_loss, accuracy=graph.correct, counted_key="target_ids"),
    evaluation=Evaluation(
        measure=graph.measure,
        targets=graph.targets,
        outputs={
            "": Output("translation", "reference", "row_weight"),
            "greedy": Output("greedy_translation", "reference", "row_weight"),
            "token_loss": Output("token_loss", "zero", "token_weight"),
            "token_right": Output("token_right", "zero", "token_weight"),
        },
        metrics={
            "bleu": Metric("Bleu"),
            "chrf": Metric("Chrf"),
            "greedy_bleu": Metric("Bleu", "greedy"),
            "greedy_chrf": Metric("Chrf", "greedy"),
            "cross_entropy": Metric("MeanPrediction", "token_loss", better="lower"),
            "perplexity": Metric(of="cross_entropy", function=math.exp, better="lower"),
            "token_accuracy": Metric("MeanPrediction", "token_right"),
        },
        outcomes=outcomes.of_translations,
        plots=plots.of_translations,
        baselines=baselines.translation,
    ),
    serving=Serving(
        signature=graph.answer,
        response=TRANSLATED,
        predict=graph.ask,
        signatures={
            "greedy": Signature(answer=graph.greedy_answer),
            "sample": Signature(
                answer=graph.sample_answer,
                numbers={"temperature": "float32", "top_k": "int32", "top_p": "float32", "seed": "int64"},
                response=SAMPLED,
            ),
            "align": Signature(answer=graph.align_answer, response=ALIGNED),
        },
    ),
    inspection=Inspection(
        vectors=graph.vectors,
        attend=graph.attend,
        heads=graph.heads,
        writes=True,
        target=targets.of_translation,
        by_label=False,
        by_word=True,
    ),
    config=Configuration(
        defaults=_defaults,
        recognition=Recognition(table=translations.guess_table, precedence=70, only_asked=True),
    ),
)
