"""A number for one text or a pair of texts: how alike two sentences are, how many stars a review gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.answers import NUMBER
from models.later import later
from models.task import Evaluation, Inspection, Metric, Model, Objective, Output, Preprocessing, Serving, Task
from pipeline.config import TEXT_KEYS

if TYPE_CHECKING:
    from models import pooled, probing
    from models.tasks.graphs import regression as graph
else:
    graph = later("models.tasks.graphs.regression")
    pooled = later("models.pooled")
    probing = later("models.probing")

TASK = Task(
    name="regression",
    preprocessing=Preprocessing(
        text_keys=TEXT_KEYS, label="number", features=graph.features, request=pooled.request, long=pooled.LONG
    ),
    model=Model(build=graph.build, linear_probe=probing.NUMBER),
    objective=Objective(loss=graph.loss, accuracy=graph.correct),
    evaluation=Evaluation(
        measure=graph.answer,
        targets=graph.targets,
        outputs={"": Output("value", "label_value", "label_weight")},
        metrics={
            "pearson": Metric("Pearson"),
            "spearman": Metric("Spearman"),
            "mean_squared_error": Metric("MeanSquaredError", better="lower"),
        },
    ),
    serving=Serving(signature=graph.answer, response=NUMBER),
    inspection=Inspection(attend=pooled.attend),
)
