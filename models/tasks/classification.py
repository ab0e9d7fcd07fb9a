"""One class out of any number, for one text or a pair of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertline.models.responses.types import CLASSIFIED
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
    from bertline.models.decisions import graph as deciding
    from bertline.models.heads import pooled
    from bertline.models.tasks.graphs import classification as graph
    from bertline.models.training import probing
else:
    graph = later("bertline.models.tasks.graphs.classification")
    deciding = later("bertline.models.decisions.graph")
    pooled = later("bertline.models.heads.pooled")
    probing = later("bertline.models.training.probing")
classes = later("bertline.components.baselines.tasks.classes", counts=False)
layers = later("bertline.components.baselines.layers", counts=False)
outcomes = later("bertline.components.evaluator.predictions.outcomes", counts=False)
plots = later("bertline.components.evaluator.predictions.plots", counts=False)
targets = later("bertline.models.explain.targets", counts=False)
new = later("bertline.pipeline.new.tables.kinds", counts=False)

TASK = Task(
    name="classification",
    preprocessing=Preprocessing(
        text_keys=TEXT_KEYS,
        label="class",
        features=graph.features,
        request=pooled.request,
        long=("auto", "cut", "head_tail", "windows"),
    ),
    model=Model(
        build=graph.build,
        linear_probe=probing.CLASSES,
        fallback=Fallback(name="logistic regression", lesson=layers.of_classes),
    ),
    objective=Objective(
        loss=graph.loss,
        smoothing=graph.spread_loss,
        accuracy=graph.correct,
        class_key="label_id",
        class_weights=graph.apply_class_weights,
    ),
    evaluation=Evaluation(
        measure=graph.answer,
        targets=graph.targets,
        outputs={"": Output("probabilities", "label_id", "label_weight")},
        metrics={
            "accuracy": Metric("SparseCategoricalAccuracy"),
            "f1": Metric("F1", classes=2),
            "precision": Metric("Precision", classes=2),
            "recall": Metric("Recall", classes=2),
            "macro_f1": Metric("MacroF1"),
            "micro_f1": Metric("MicroF1"),
            "matthews": Metric("Matthews"),
            "cross_entropy": Metric("SparseCategoricalCrossentropy", better="lower"),
        },
        confusion="",
        tune=deciding.tune_decision,
        outcomes=outcomes.of_classes,
        plots=plots.of_classes,
        baselines=classes.classification,
    ),
    serving=Serving(signature=graph.answer, response=CLASSIFIED, decides=True),
    inspection=Inspection(attend=pooled.attend, target=targets.of_class),
    config=Configuration(recognition=Recognition(table=new.guess_classes, precedence=50)),
)
