"""The right one of several endings to a text: any number of them, and not the same in every example."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertline.models.responses.types import CHOSEN
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
from bertline.pipeline.config import CHOICES, TEXT_KEYS

if TYPE_CHECKING:
    from bertline.models.tasks.graphs import choice as graph
    from bertline.models.tasks.graphs import classification
else:
    classification = later("bertline.models.tasks.graphs.classification")
    graph = later("bertline.models.tasks.graphs.choice")
choices = later("bertline.components.baselines.tasks.choices", counts=False)
outcomes = later("bertline.components.evaluator.predictions.outcomes", counts=False)
targets = later("bertline.models.explain.targets", counts=False)
new = later("bertline.pipeline.new.tables.choice", counts=False)

TASK = Task(
    name="choice",
    preprocessing=Preprocessing(
        text_keys=(*TEXT_KEYS, CHOICES), label="index", features=graph.features, request=graph.request
    ),
    model=Model(build=graph.build),
    objective=Objective(loss=classification.loss, smoothing=graph.spread_loss, accuracy=classification.correct),
    evaluation=Evaluation(
        measure=graph.measure,
        targets=graph.targets,
        outputs={
            "right": Output("right", "target", "label_weight"),
            "row_loss": Output("row_loss", "target", "label_weight"),
            "index": Output("index", "label_id", "label_weight"),
        },
        metrics={
            "accuracy": Metric("MeanPrediction", "right"),
            "cross_entropy": Metric("MeanPrediction", "row_loss", better="lower"),
        },
        outcomes=outcomes.of_choices,
        baselines=choices.choice,
    ),
    serving=Serving(signature=graph.answer, response=CHOSEN),
    inspection=Inspection(target=targets.of_choice),
    config=Configuration(recognition=Recognition(table=new.guess_choice, precedence=10)),
)
