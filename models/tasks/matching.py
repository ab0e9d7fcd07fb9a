"""Which text belongs to which, by vectors that each has for itself: learned from pairs that belong together.

Every other second text of a batch is taken for one that does not belong (in-batch negatives), unless it is the same text.
The evaluator looks for each first text's own among the second texts of all evaluation examples.
"""

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
    from bertline.models.tasks.graphs import matching as graph
    from bertline.models.tasks.graphs import regression, similarity
else:
    bi_encoder = later("bertline.models.heads.bi_encoder")
    graph = later("bertline.models.tasks.graphs.matching")
    regression = later("bertline.models.tasks.graphs.regression")
    similarity = later("bertline.models.tasks.graphs.similarity")
baselines = later("bertline.components.baselines.tasks.matching", counts=False)
outcomes = later("bertline.components.evaluator.predictions.outcomes", counts=False)
targets = later("bertline.models.explain.targets", counts=False)
new = later("bertline.pipeline.new.tables.kinds", counts=False)

TASK = Task(
    name="matching",
    preprocessing=Preprocessing(
        text_keys=TEXT_KEYS,
        min_texts=2,
        label=None,
        features=graph.features,
        request=bi_encoder.request,
        long=("cut", "head_tail"),
    ),
    model=Model(build=similarity.build),
    objective=Objective(loss=graph.loss, accuracy=regression.correct),
    evaluation=Evaluation(
        measure=graph.measure,
        targets=graph.targets,
        outputs={"": Output("vectors", "second", "weight")},
        metrics={
            "mrr": Metric("ReciprocalRank"),
            "recall_at_1": Metric("RecallAt1"),
            "recall_at_5": Metric("RecallAt5"),
            "recall_at_10": Metric("RecallAt10"),
        },
        outcomes=outcomes.of_search,
        baselines=baselines.matching,
    ),
    serving=Serving(
        signature=bi_encoder.answer,
        response=SIMILAR,
        signatures={EMBED: Signature(answer=bi_encoder.embed, response=EMBEDDED)},
    ),
    inspection=Inspection(target=targets.of_similarity, by_label=False),
    config=Configuration(
        defaults=lambda raw: {"data": {"label": None}},
        recognition=Recognition(table=new.guess_matching, precedence=60, only_asked=True),
    ),
)
