"""Files that arrive one after the other."""

import pytest

from bertline.components.ingest.files import find_files
from bertline.components.ingest.spans import files_of_spans
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError


@pytest.fixture
def folder(tmp_path):
    for name in ("rows-2.csv", "rows-10.csv", "rows-007.csv", "rows-x.csv", "rows-3.csv.part", "other-4.csv"):
        (tmp_path / name).write_text("text,label\n")
    return tmp_path


def names(paths):
    return [path.rpartition("/")[2] for path in paths]


def test_spans_are_in_the_order_of_their_numbers_and_nothing_else_is_taken(folder):
    assert names(files_of_spans(f"{folder}/rows-{{SPAN}}.csv")) == ["rows-2.csv", "rows-007.csv", "rows-10.csv"]


def test_only_the_newest_are_read_where_the_config_says_so(folder):
    data = DataConfig(path=f"{folder}/rows-{{SPAN}}.csv", spans=2)
    assert names(file.path for file in find_files(data)) == ["rows-007.csv", "rows-10.csv"]


def test_a_span_may_be_a_folder_of_several_files(tmp_path):
    for name in ("1/a.csv", "1/b.csv", "2/a.csv", "2/deep/c.csv", "3/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert [path.removeprefix(f"{tmp_path}/") for path in files_of_spans(f"{tmp_path}/{{SPAN}}/*.csv", 2)] == [
        "1/a.csv",
        "1/b.csv",
        "2/a.csv",
    ]


def test_a_number_that_stands_twice_is_the_same(tmp_path):
    for name in ("1/rows-1.csv", "1/rows-2.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert names(files_of_spans(f"{tmp_path}/{{SPAN}}/rows-{{SPAN}}.csv")) == ["rows-1.csv"]


def test_before_the_first_one_it_is_told(tmp_path):
    with pytest.raises(BertlineError, match="no file matches .* with a number for {SPAN}"):
        find_files(DataConfig(path=f"{tmp_path}/rows-{{SPAN}}.csv"))
