"""The right one of several endings to a text: any number of them, and not the same in every example."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.answers import CHOSEN
from models.later import later
from models.task import (
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
from pipeline.config import CHOICES, TEXT_KEYS

if TYPE_CHECKING:
    from models.tasks.graphs import choice as graph
    from models.tasks.graphs import classification
else:
    classification = later("models.tasks.graphs.classification")
    graph = later("models.tasks.graphs.choice")
choices = later("components.baselines.choices", counts=False)
outcomes = later("components.held_out.outcomes", counts=False)
targets = later("models.explaining.targets", counts=False)
new = later("pipeline.new.choice", counts=False)

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
