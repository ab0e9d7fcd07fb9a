"""BERT's own task: predict masked tokens, and whether the second half of an example follows the first."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from models.answers import FILLED
from models.later import later
from models.task import Evaluation, Inspection, Metric, Model, Objective, Output, Preprocessing, Serving, Task

if TYPE_CHECKING:
    from models.tasks.graphs import pretraining as graph
else:
    graph = later("models.tasks.graphs.pretraining")

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
    ),
    serving=Serving(signature=graph.answer, response=FILLED, as_asked=graph.as_asked),
    inspection=Inspection(),
)
