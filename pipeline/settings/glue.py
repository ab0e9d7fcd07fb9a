"""GLUE's tasks by name: how the files of each are laid out, what is learned from them, and what it is judged by.

`task: glue/cola` with `data: FOLDER` stands for the settings that `settings_of` makes. They are defaults: whatever else the
config says stands above them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PREFIX = "glue/"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One task's files in one form. They are TSV whose quotes are plain characters, whatever their names end in."""

    text: str | tuple[str, str]
    label: str
    labels: tuple[str, ...] = ()
    """The classes; none where labels are numbers."""
    metric: str
    bound: float
    """What the metric must reach by default: more than an answer that does not look at the text."""
    columns: tuple[str, ...] = ()
    """Of files without a header line."""
    further_columns: bool = False
    train: str = "train.tsv"
    eval: str = "dev.tsv"
    exclude: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_BINARY = ("0", "1")
_ENTAILMENT = ("not_entailment", "entailment")


def _mnli(split: str) -> Layout:
    return Layout(
        text=("sentence1", "sentence2"),
        label="gold_label",
        labels=("contradiction", "neutral", "entailment"),
        metric="accuracy",
        bound=0.4,
        eval=f"dev_{split}.tsv",
        exclude={"gold_label": ("-",)},  # pairs that the annotators did not agree on
    )


LAYOUTS: Mapping[str, tuple[Layout, ...]] = {
    "cola": (
        Layout(
            columns=("source", "label", "mark", "sentence"),
            text="sentence",
            label="label",
            labels=_BINARY,
            metric="matthews",
            bound=0.05,
        ),
    ),
    "sst-2": (Layout(text="sentence", label="label", labels=_BINARY, metric="accuracy", bound=0.6),),
    "mrpc": (
        Layout(text=("#1 String", "#2 String"), label="Quality", labels=_BINARY, metric="f1", bound=0.82),
        Layout(
            text=("#1 String", "#2 String"),
            label="Quality",
            labels=_BINARY,
            metric="f1",
            bound=0.82,
            train="msr_paraphrase_train.txt",
            eval="msr_paraphrase_test.txt",
        ),
    ),
    "qqp": (Layout(text=("question1", "question2"), label="is_duplicate", labels=_BINARY, metric="f1", bound=0.56),),
    "sts-b": (
        Layout(text=("sentence1", "sentence2"), label="score", metric="pearson", bound=0.3),
        Layout(  # STS benchmark's own files, which GLUE's were made from
            columns=("genre", "file", "year", "id", "score", "sentence1", "sentence2"),
            further_columns=True,  # where some of its sentences were taken from
            text=("sentence1", "sentence2"),
            label="score",
            metric="pearson",
            bound=0.3,
            train="sts-train.csv",
            eval="sts-dev.csv",
        ),
    ),
    "mnli": (_mnli("matched"),),
    "mnli-mm": (_mnli("mismatched"),),
    "qnli": (Layout(text=("question", "sentence"), label="label", labels=_ENTAILMENT, metric="accuracy", bound=0.55),),
    "rte": (Layout(text=("sentence1", "sentence2"), label="label", labels=_ENTAILMENT, metric="accuracy", bound=0.54),),
    "wnli": (Layout(text=("sentence1", "sentence2"), label="label", labels=_BINARY, metric="accuracy", bound=0.57),),
}
ALIASES = {"sst2": "sst-2", "stsb": "sts-b", "mnli-matched": "mnli", "mnli-mismatched": "mnli-mm"}


def settings_of(name: str, folder: Path) -> dict[str, Any]:
    """The settings that a task of GLUE stands for, as a config would say them.

    Args:
      name: one of LAYOUTS or ALIASES.
      folder: of its files. Where a task is handed around in two forms, the files that are there say which one it is.
    """
    name = ALIASES.get(name, name)
    layouts = LAYOUTS[name]
    layout = next((layout for layout in layouts if (folder / layout.train).is_file()), layouts[0])
    data: dict[str, Any] = {
        "train": str(folder / layout.train),
        "eval": str(folder / layout.eval),
        "format": "tsv",
        "quotes": False,
        "text": layout.text,
        "label": layout.label,
        "labels": layout.labels,
        "columns": layout.columns,
        "further_columns": layout.further_columns,
        "exclude": dict(layout.exclude),
    }
    return {
        "name": name,
        "task": "classification" if layout.labels else "regression",
        "data": data,
        "evaluation": {"thresholds": {layout.metric: layout.bound}},
    }
