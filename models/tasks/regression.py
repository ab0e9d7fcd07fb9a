"""A number for one text or a pair of texts: how alike two sentences are, how many stars a review gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertline.models.responses.types import NUMBER
from bertline.models.tasks.base.later import later
from bertline.models.tasks.base.task import (
    Configuration,
    Evaluation,
    Fallback,
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
from bertline.pipeline.config import TEXT_KEYS

if TYPE_CHECKING:
    from bertline.models.heads import pooled
    from bertline.models.tasks.graphs import regression as graph
    from bertline.models.training import probing
else:
    graph = later("bertline.models.tasks.graphs.regression")
    pooled = later("bertline.models.heads.pooled")
    probing = later("bertline.models.training.probing")
layers = later("bertline.components.baselines.layers", counts=False)
numbers = later("bertline.components.baselines.tasks.numbers", counts=False)
outcomes = later("bertline.components.evaluator.predictions.outcomes", counts=False)
plots = later("bertline.components.evaluator.predictions.plots", counts=False)
targets = later("bertline.models.explain.targets", counts=False)
new = later("bertline.pipeline.new.tables.kinds", counts=False)

TASK = Task(
    name="regression",
    preprocessing=Preprocessing(
        text_keys=TEXT_KEYS,
        label="number",
        features=graph.features,
        request=pooled.request,
        long=("auto", "cut", "head_tail", "windows"),
    ),
    model=Model(
        build=graph.build, linear_probe=probing.NUMBER, fallback=Fallback(name="ridge regression", lesson=layers.of_numbers)
    ),
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
        outcomes=outcomes.of_numbers,
        plots=plots.of_numbers,
        baselines=numbers.numbers,
    ),
    serving=Serving(signature=graph.answer, response=NUMBER),
    inspection=Inspection(attend=pooled.attend, target=targets.of_number, by_label=False),
    config=Configuration(recognition=Recognition(table=new.guess_numbers, precedence=40)),
)
