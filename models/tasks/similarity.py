"""How alike two texts are, by vectors that each of them has for itself: learned from pairs with a score, as in STS-B."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bertline.models.responses.types import EMBED, EMBEDDED, SIMILAR
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
    Signature,
    Task,
)
from bertline.pipeline.config import TEXT_KEYS

if TYPE_CHECKING:
    from bertline.models.heads import bi_encoder
    from bertline.models.tasks.graphs import regression
    from bertline.models.tasks.graphs import similarity as graph
else:
    bi_encoder = later("bertline.models.heads.bi_encoder")
    graph = later("bertline.models.tasks.graphs.similarity")
    regression = later("bertline.models.tasks.graphs.regression")
numbers = later("bertline.components.baselines.tasks.numbers", counts=False)
outcomes = later("bertline.components.evaluator.predictions.outcomes", counts=False)
plots = later("bertline.components.evaluator.predictions.plots", counts=False)
targets = later("bertline.models.explain.targets", counts=False)
new = later("bertline.pipeline.new.tables.kinds", counts=False)

TASK = Task(
    name="similarity",
    preprocessing=Preprocessing(
        text_keys=TEXT_KEYS,
        min_texts=2,
        label="number",
        features=graph.features,
        request=bi_encoder.request,
        long=("cut", "head_tail"),
    ),
    model=Model(build=graph.build),
    objective=Objective(loss=graph.loss, accuracy=regression.correct),
    evaluation=Evaluation(
        measure=bi_encoder.answer,
        targets=regression.targets,
        outputs={"": Output("similarity", "label_value", "label_weight")},
        metrics={"pearson": Metric("Pearson"), "spearman": Metric("Spearman")},
        outcomes=outcomes.of_order,
        plots=plots.of_numbers,
        baselines=numbers.numbers,
    ),
    serving=Serving(
        signature=bi_encoder.answer,
        response=SIMILAR,
        signatures={EMBED: Signature(answer=bi_encoder.embed, response=EMBEDDED)},
    ),
    inspection=Inspection(target=targets.of_similarity, by_label=False),
    config=Configuration(recognition=Recognition(table=new.guess_similarity, precedence=45, only_asked=True)),
)
