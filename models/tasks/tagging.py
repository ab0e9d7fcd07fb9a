"""A tag for each word: names of persons, places, products, and whatever else the tags of a corpus tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertline.models.responses.types import TAGGED
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
    from bertline.models.tasks.graphs import tagging as graph
else:
    graph = later("bertline.models.tasks.graphs.tagging")
baselines = later("bertline.components.baselines.tasks.tagging", counts=False)
outcomes = later("bertline.components.evaluator.predictions.outcomes", counts=False)
targets = later("bertline.models.explain.targets", counts=False)
new = later("bertline.pipeline.new.tables.kinds", counts=False)
texts = later("bertline.pipeline.new.text_files", counts=False)

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
        class_weights=graph.apply_class_weights,
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
        outcomes=outcomes.of_entities,
        baselines=baselines.tagging,
    ),
    serving=Serving(signature=graph.answer, response=TAGGED),
    inspection=Inspection(target=targets.of_tags, by_word=True),
    config=Configuration(recognition=Recognition(table=new.guess_tags, precedence=20, formats={"conll": texts.guess_tags})),
)
