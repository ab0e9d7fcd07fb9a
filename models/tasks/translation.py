"""A text in one language, written in another: the original Transformer, encoder and decoder."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from models.later import later
from models.task import Evaluation, Inspection, Metric, Model, Objective, Output, Preprocessing, Serving, Signature, Task
from models.translated import ALIGNED, SAMPLED, TRANSLATED
from pipeline.config import TEXT_KEYS

if TYPE_CHECKING:
    from models.tasks.graphs import translation as graph
else:
    graph = later("models.tasks.graphs.translation")

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
    inspection=Inspection(vectors=graph.vectors, attend=graph.attend, heads=graph.heads, writes=True),
)
