"""Questions about a text, answered by a span of it or not at all, as in SQuAD 1.1 and 2.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bertline.models.responses.types import SPAN_ANSWER
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
from bertline.pipeline.config import TEXT_KEYS

if TYPE_CHECKING:
    from bertline.models.tasks.graphs import answering as graph
else:
    graph = later("bertline.models.tasks.graphs.answering")
baselines = later("bertline.components.baselines.tasks.answering", counts=False)
outcomes = later("bertline.components.evaluator.predictions.outcomes", counts=False)
targets = later("bertline.models.explain.targets", counts=False)
texts = later("bertline.pipeline.new.text_files", counts=False)


def _defaults(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """SQuAD's files. All questions about an article are on one side of the split, unless a column says where."""
    split = raw["data"].get("split")
    grouped = {} if isinstance(split, dict) and "column" in split else {"split": {"group": "title"}}
    return {
        "data": {"label": None, "format": "squad", "text": ["question", "context"], **grouped},
        "text": {"seq_len": 384},
    }


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
        outcomes=outcomes.of_answers,
        baselines=baselines.answering,
    ),
    serving=Serving(signature=graph.answer, response=SPAN_ANSWER),
    inspection=Inspection(target=targets.of_span),
    config=Configuration(defaults=_defaults, recognition=Recognition(formats={"squad": texts.guess_answers})),
)
