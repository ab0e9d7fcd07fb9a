"""Questions about a text, answered by a span of it or not at all, as in SQuAD 1.1 and 2.0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.answers import SPAN_ANSWER
from models.later import later
from models.task import Evaluation, Inspection, Metric, Model, Objective, Output, Preprocessing, Serving, Task
from pipeline.config import TEXT_KEYS

if TYPE_CHECKING:
    from models.tasks.graphs import answering as graph
else:
    graph = later("models.tasks.graphs.answering")

TASK = Task(
    name="answering",
    preprocessing=Preprocessing(
        text_keys=TEXT_KEYS,
        min_texts=2,
        input_names=("question", "context"),
        label=None,
        list_keys={"answers": "string", "answer_starts": "int64"},
        features=graph.features,
        request=graph.request,
        long=(),
        expand=graph.expand,
    ),
    model=Model(build=graph.build),
    objective=Objective(loss=graph.loss, accuracy=graph.correct),
    evaluation=Evaluation(
        measure=graph.measure,
        targets=graph.targets,
        outputs={"": Output("answer", "answers", "row_weight")},
        metrics={
            "f1": Metric("AnswerF1"),
            "exact_match": Metric("ExactMatch"),
            "has_answer_f1": Metric("HasAnswerF1"),
            "has_answer_exact_match": Metric("HasAnswerExactMatch"),
            "no_answer_exact_match": Metric("NoAnswerExactMatch"),
        },
        tune=graph.tune,
    ),
    serving=Serving(signature=graph.answer, response=SPAN_ANSWER),
    inspection=Inspection(),
)
