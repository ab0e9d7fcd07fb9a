"""A tag for each word: names of persons, places, products, and whatever else the tags of a corpus tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.answers import TAGGED
from models.later import later
from models.task import Evaluation, Inspection, Metric, Model, Objective, Output, Preprocessing, Serving, Task

if TYPE_CHECKING:
    from models.tasks.graphs import tagging as graph
else:
    graph = later("models.tasks.graphs.tagging")

TASK = Task(
    name="tagging",
    preprocessing=Preprocessing(
        text_keys=("text",),
        label="tags",
        features=graph.features,
        request=graph.request,
        long=(),
        expand=graph.expand,
        prepare=graph.prepare,
    ),
    model=Model(build=graph.build),
    objective=Objective(
        loss=graph.loss,
        smoothing=graph.spread_loss,
        accuracy=graph.correct,
        class_key="tag_ids",
        class_weights=graph.weigh,
    ),
    evaluation=Evaluation(
        measure=graph.measure,
        targets=graph.targets,
        outputs={"": Output("answer", "tag_ids", "label_weight")},
        metrics={
            "f1": Metric("EntityF1"),
            "precision": Metric("EntityPrecision"),
            "recall": Metric("EntityRecall"),
            "accuracy": Metric("WordAccuracy"),
        },
    ),
    serving=Serving(signature=graph.answer, response=TAGGED),
    inspection=Inspection(),
)
