"""Any number of classes at once, for one text or a pair of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertline.models.responses.types import MULTI_CLASSIFIED
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
    from bertline.models.tasks.graphs import multilabel as graph
    from bertline.models.training import probing
else:
    graph = later("bertline.models.tasks.graphs.multilabel")
    deciding = later("bertline.models.decisions.graph")
    pooled = later("bertline.models.heads.pooled")
    probing = later("bertline.models.training.probing")
classes = later("bertline.components.baselines.tasks.classes", counts=False)
layers = later("bertline.components.baselines.layers", counts=False)
outcomes = later("bertline.components.evaluator.predictions.outcomes", counts=False)
plots = later("bertline.components.evaluator.predictions.plots", counts=False)
targets = later("bertline.models.explain.targets", counts=False)
several = later("bertline.pipeline.new.tables.multilabel", counts=False)

TASK = Task(
    name="multilabel",
    preprocessing=Preprocessing(
        text_keys=TEXT_KEYS,
        label="classes",
        features=graph.features,
        request=pooled.request,
        long=("auto", "cut", "head_tail", "windows"),
    ),
    model=Model(
        build=graph.build, linear_probe=probing.FLAGS, fallback=Fallback(name="logistic regression", lesson=layers.of_flags)
    ),
    objective=Objective(
        loss=graph.loss,
        smoothing=graph.spread_loss,
        accuracy=graph.correct,
        class_key="label_flags",
        class_weights=graph.apply_class_weights,
    ),
    evaluation=Evaluation(
        measure=graph.answer,
        targets=graph.targets,
        outputs={"": Output("probabilities", "label_flags", "label_weight")},
        metrics={
            "micro_f1": Metric("DecisionsMicroF1"),
            "macro_f1": Metric("DecisionsMacroF1"),
            "subset_accuracy": Metric("SubsetAccuracy"),
            "cross_entropy": Metric("DecisionsCrossEntropy", better="lower"),
        },
        tune=deciding.tune_decision,
        outcomes=outcomes.of_decisions,
        plots=plots.of_classes,
        baselines=classes.multilabel,
    ),
    serving=Serving(signature=graph.answer, response=MULTI_CLASSIFIED, decides=True),
    inspection=Inspection(attend=pooled.attend, target=targets.of_flag),
    config=Configuration(
        recognition=Recognition(table=several.guess_several, precedence=30),  # after lists that one is chosen from
    ),
)
