"""GLUE's files as they are handed around: each layout is read by its name, quirks included."""

from __future__ import annotations

import json

import pytest

from bertline.components.evaluator.verdict import check_metrics
from bertline.components.ingest.filters import EXCLUDE, LeftOut
from bertline.components.ingest.readers.records import BadRow
from bertline.components.ingest.readers.registry import check_inputs, needed_columns, read
from bertline.components.ingest.rows import sort_example
from bertline.models.tasks.base.task import check_texts, get_task
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.settings.glue import ALIASES, LAYOUTS
from bertline.pipeline.settings.loader import load

PARSES = "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse".split()
HEADERS = {
    "cola": None,
    "sst-2": ["sentence", "label"],
    "mrpc": ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"],
    "qqp": ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
    "sts-b": "index genre filename year old_index source1 source2 sentence1 sentence2 score".split(),
    "mnli": [*PARSES, "sentence1", "sentence2", "label1", "gold_label"],
    "mnli-mm": [*PARSES, "sentence1", "sentence2", "label1", "label2", "gold_label"],
    "qnli": ["index", "question", "sentence", "label"],
    "rte": ["index", "sentence1", "sentence2", "label"],
    "wnli": ["index", "sentence1", "sentence2", "label"],
}
# Quotes are literal, also where only one of them stands; texts are of any script.
FIRST, SECOND = 'She said "no', "c'est l'été 好 \"\""


def write_files(folder, name, layout, end="\n", start=""):
    header = list(layout.columns) or HEADERS[name]
    texts = (layout.text,) if isinstance(layout.text, str) else layout.text
    for file in (layout.train, layout.eval):
        lines = [] if layout.columns else ["\t".join(header)]
        for label in layout.labels or ("0.0", "4.75"):
            values = dict.fromkeys(header, "x") | dict(zip(texts, (FIRST, SECOND), strict=False)) | {layout.label: label}
            lines.append("\t".join(values[column] for column in header))
        (folder / file).write_bytes((start + end.join(lines) + end).encode("utf-8"))


def load_glue(tmp_path, task, *more):
    path = tmp_path / "glue.yaml"
    path.write_text("\n".join([f"task: glue/{task}", *(more or ["data: files"])]))
    return load(str(path))


def kept_rows(config):
    kind = get_task(config.task).preprocessing.label
    columns = list(needed_columns(config.data))
    return [
        row if isinstance(row, BadRow) else sort_example(row, config.data, file.split, (), kind)
        for file in check_inputs(config.data)
        for row in read(file, config.data, columns)
    ]


@pytest.mark.parametrize(("end", "start"), [("\n", ""), ("\r\n", "\ufeff")], ids=["plain", "BOM and CRLF"])
@pytest.mark.parametrize(
    ("name", "layout"), [(name, layout) for name, layouts in LAYOUTS.items() for layout in layouts], ids=str
)
def test_each_layout_is_read_by_its_name(tmp_path, name, layout, end, start):
    (tmp_path / "files").mkdir()
    write_files(tmp_path / "files", name, layout, end, start)
    config = load_glue(tmp_path, name)
    rows = kept_rows(config)
    pair = {"text": FIRST, "text_2": SECOND}
    texts = pair if len(config.data.text_columns) == 2 else {"text": FIRST}
    labels = layout.labels or (0.0, 4.75)
    for split in ("train", "eval"):
        found = [row.features for row in rows if row.split == split]
        assert [{key: features[key] for key in texts} for features in found] == [texts] * len(labels)
        assert [features["label"] for features in found] == list(labels)
    assert config.name == name and config.data.labels == layout.labels
    check_metrics(get_task(config.task), config.evaluation, len(config.data.labels))
    check_texts(get_task(config.task), list(config.data.text_columns))


def test_pairs_without_an_agreed_label_are_left_out(tmp_path):
    (tmp_path / "files").mkdir()
    (layout,) = LAYOUTS["mnli"]
    write_files(tmp_path / "files", "mnli", layout)
    with (tmp_path / "files" / "dev_matched.tsv").open("a") as file:
        file.write("\t".join(["x"] * 11 + ["-"]) + "\n")
    assert kept_rows(load_glue(tmp_path, "mnli")).count(LeftOut(EXCLUDE)) == 1


def test_lines_of_the_sts_benchmark_may_name_their_sources(tmp_path):
    (tmp_path / "files").mkdir()
    layout = LAYOUTS["sts-b"][1]
    write_files(tmp_path / "files", "sts-b", layout)
    with (tmp_path / "files" / layout.train).open("a") as file:
        file.write("main-news\theadlines\t2016\t0012\t4\tone\tother\tsomebody's news\tanother's\n")
        file.write("main-news\theadlines\t2016\t0013\t4\tone\n")
    *_, longer, shorter = [
        row for row in kept_rows(load_glue(tmp_path, "stsb")) if getattr(row, "split", "train") == "train"
    ]
    assert longer.features["text_2"] == "other" and longer.features["label"] == 4.0
    assert isinstance(shorter, BadRow) and shorter.line == 4 and "6 columns where 7 belong" in shorter.reason


def test_what_the_config_says_stands_above_the_layout(tmp_path):
    more = ["name: mine", "data: {folder: files, max_bad_fraction: 0.5}", "evaluation: {thresholds: {accuracy: 0.9}}"]
    config = load_glue(tmp_path, "cola", *more)
    assert config.name == "mine" and config.data.max_bad_fraction == 0.5
    assert config.evaluation.thresholds == {"accuracy": 0.9}
    assert config.data.train == str(tmp_path / "files" / "train.tsv")


def test_every_alias_names_a_layout(tmp_path):
    for alias, name in ALIASES.items():
        assert json.loads(load_glue(tmp_path, alias).to_json())["name"] == name


@pytest.mark.parametrize(
    ("lines", "parts"),
    [
        (["task: glue/colla", "data: files"], ["line 1", "GLUE has no task 'colla'; did you mean cola?", "wnli"]),
        (["name: x", "task: glue/rte"], ["line 2", "data: name the folder that holds the files of glue/rte"]),
        (["task: glue/rte", "data: {train: a.tsv}"], ["name the folder"]),
        (["task: glue/rte", "data: {folder: files, lable: x}"], ["data.lable is not a setting; did you mean label?"]),
    ],
)
def test_a_mistake_is_one_clear_sentence(tmp_path, lines, parts):
    (tmp_path / "my.yaml").write_text("\n".join(lines))
    with pytest.raises(BertlineError) as error:
        load(str(tmp_path / "my.yaml"))
    for part in parts:
        assert part in str(error.value)


def test_missing_files_and_other_columns_are_told_by_name(tmp_path):
    (tmp_path / "files").mkdir()
    with pytest.raises(BertlineError, match=r"there is no file .*files/train\.tsv"):
        check_inputs(load_glue(tmp_path, "rte").data)
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / "files" / name).write_text("index\tpremise\thypothesis\tlabel\n0\ta\tb\tentailment\n")
    with pytest.raises(BertlineError, match=r"train\.tsv: data\.text: there is no column 'sentence1'"):
        check_inputs(load_glue(tmp_path, "rte").data)
