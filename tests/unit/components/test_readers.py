"""Every format is read row by row, and nothing in a file can stop its other rows from being read."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertline.components.ingest import files
from bertline.components.ingest.files import InputFile, digest, find_files
from bertline.components.ingest.readers import delimited, records
from bertline.components.ingest.readers.documents import split_sentences
from bertline.components.ingest.readers.records import ENCODING, BadRow, Row
from bertline.components.ingest.readers.registry import READERS, check_inputs, read
from bertline.pipeline.config import DataConfig, Formats
from bertline.pipeline.core.errors import BertlineError


def data_for(path: Path, **settings) -> DataConfig:
    return DataConfig(path=str(path), **settings)


def rows_of(path: Path, **settings) -> list[Row | BadRow]:
    data = data_for(path, **settings)
    (file,) = find_files(data)
    return list(read(file, data, ("text", "label")))


def values_of(path: Path, **settings) -> list[tuple]:
    return [(row.line, row.values["text"], row.values["label"]) for row in rows_of(path, **settings)]


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_reading_imports_neither_tensorflow_nor_beam():
    code = (
        "import sys, bertline.components.ingest.readers.registry; print({'tensorflow', 'tfx', 'apache_beam'} "
        "& set(sys.modules))"
    )
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True).stdout == "set()\n"


# CSV and TSV


def test_csv_quotes_hold_delimiters_quotes_and_line_ends(tmp_path):
    path = written(tmp_path, "a.csv", 'text,label\n"a, ""b""\nc",x\r\n\nd,y')
    assert values_of(path) == [(2, 'a, "b"\nc', "x"), (5, "d", "y")]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    path = written(tmp_path, "a.csv", b"\xef\xbb\xbftext,label\r\na,x\r\n")
    assert values_of(path) == [(2, "a", "x")]


def test_tsv_quotes_are_literal_unless_the_config_says_otherwise(tmp_path):
    path = written(tmp_path, "a.tsv", 'text\tlabel\n"a\tx\n"b"\ty\n')
    assert values_of(path) == [(2, '"a', "x"), (3, '"b"', "y")]
    path = written(tmp_path, "b.tsv", 'text\tlabel\n"a\tb"\tx\n')
    assert values_of(path, quotes=True) == [(2, "a\tb", "x")]


def test_columns_delimiter_and_encoding_come_from_the_config(tmp_path):
    path = written(tmp_path, "a.csv", "x;é\ny;ü\n".encode("latin-1"))
    settings = {"columns": ("label", "text"), "delimiter": ";", "encoding": "latin-1"}
    assert values_of(path, **settings) == [(1, "é", "x"), (2, "ü", "y")]
    path = written(tmp_path, "b.csv", "text,label\né,x\n".encode("utf-16"))
    assert values_of(path, encoding="utf-16") == [(2, "é", "x")]


@pytest.mark.parametrize("ending, compress", [(".gz", gzip.compress), (".bz2", bz2.compress)])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.parquet"])
def test_compressed_files_are_looked_through(tmp_path, name, ending, compress):
    if name.endswith("parquet"):
        pq.write_table(pa.table({"text": ["a"], "label": ["x"]}), tmp_path / name)
        content = (tmp_path / name).read_bytes()
    else:
        content = {"a.csv": b"text,label\na,x\n", "a.tsv": b"text\tlabel\na\tx\n"}.get(
            name, b'{"text": "a", "label": "x"}\n'
        )
    path = written(tmp_path, name + ending, compress(content))
    check_inputs(data_for(path))
    assert [row.values for row in rows_of(path)] == [{"text": "a", "label": "x"}]


def test_an_undecodable_byte_spoils_its_own_row_only(tmp_path):
    path = written(tmp_path, "a.csv", b'text,label\ngood,x\n"two\nlin\xe9s, quoted",y\ncaf\xc3\xa9,x\n')
    good, bad, after = rows_of(path)
    assert good.values["text"] == "good"
    assert (bad.line, bad.kind) == (3, records.ENCODING)
    for part in ("a.csv", "line 4", "column 4", "0xE9", "utf-8", "data.encoding", "latin-1"):
        assert part in bad.reason
    assert bad.raw == '"two\nlin\\xe9s, quoted",y'
    assert (after.line, after.values["text"]) == (5, "café")


def test_rows_with_too_many_or_too_few_columns_are_bad(tmp_path):
    few, many, good = rows_of(written(tmp_path, "a.csv", "text,label\na\na,b,c\na,x\n"))
    assert few.kind == many.kind == records.COLUMNS
    assert few.reason == "1 columns where 2 belong" and few.raw == "a" and few.line == 2
    assert isinstance(good, Row)


def test_a_quote_that_is_never_closed_spoils_its_own_line_only(tmp_path):
    lines = [f"a{number},x" for number in range(50)]
    lines[10] = '"never closed,x'
    lines[30] = '"closed, but" goes on,x'
    rows = rows_of(written(tmp_path, "a.csv", "\n".join(["text,label", *lines])))
    assert [(row.line, row.kind) for row in rows if isinstance(row, BadRow)] == [
        (12, records.QUOTES),
        (32, records.QUOTES),
    ]
    assert [row.line for row in rows] == list(range(2, 52))


def test_a_record_over_the_limit_is_bad_and_the_next_is_read(tmp_path, monkeypatch):
    for module in (delimited, files):
        monkeypatch.setattr(module, "MAX_RECORD_CHARS", 100)
    path = written(tmp_path, "a.csv", f'text,label\n{"a" * 1000},x\nb,y\n"{"c" * 60}\n{"c" * 60}\n')
    assert [getattr(row, "kind", "good") for row in rows_of(path)] == ["too long", "good", "too long", records.COLUMNS]


def test_a_text_longer_than_the_csv_module_allows_by_default_is_read(tmp_path):
    text = "word " * 50_000
    assert values_of(written(tmp_path, "a.csv", f"text,label\n{text},x\n")) == [(2, text, "x")]


def test_nul_bytes_are_bad_rows(tmp_path):
    bad, good = rows_of(written(tmp_path, "a.csv", b"text,label\na\x00b,x\nc,y\n"))
    assert bad.kind == records.UNUSABLE and "line 2, column 2: a NUL byte" in bad.reason
    assert good.values["text"] == "c"


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=8))
def test_what_the_csv_module_writes_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with open(path, "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
    found = [tuple(value or "" for value in row.values.values()) for row in rows_of(path)]
    assert found == rows


@given(st.binary(max_size=200), st.sampled_from(["csv", "tsv", "jsonl", "parquet"]))
def test_no_bytes_make_a_reader_raise(tmp_path_factory, content, format):
    path = written(tmp_path_factory.mktemp("any"), "any", content)
    data = data_for(path, format=format, columns=("text", "label"))
    for row in read(InputFile(str(path), format, None), data, ("text", "label")):
        assert isinstance(row, Row) or row.reason.encode() and json.dumps(row.raw, ensure_ascii=False).encode()


# JSON Lines


def test_jsonl_values_become_text(tmp_path):
    lines = [
        '{"text": "a", "label": 1}',
        "",
        '{"label": true, "text": 2.5, "other": {"nested": 1}}',
        '{"text": 3.0, "label": NaN}\r',
        '{"text": "", "label": null}',
        "{}",
    ]
    path = written(tmp_path, "a.jsonl", "\n".join(lines))
    assert values_of(path) == [
        (1, "a", "1"), (3, "2.5", "true"), (4, "3", None), (5, None, None), (6, None, None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line, kind, part",
    [
        ('{"text": "a", ', records.JSON, "column"),
        ('["a", "x"]', records.JSON, "a list, not an object"),
        ("3", records.JSON, "a number, not an object"),
        ("[" * 100_000, records.JSON, "not usable JSON"),
        ('{"label": ' + "1" * 5000 + "}", records.JSON, "not usable JSON"),
        ('{"text": "\\ud800", "label": "x"}', records.UNUSABLE, "lone surrogate (\\ud800) at position 1"),
        ('{"text": "a\\u0000", "label": "x"}', records.UNUSABLE, "a NUL character at position 2"),
        ('{"text": {"a": 1}, "label": "x"}', records.NESTED, "column 'text' holds a mapping"),
        ('{"text": ["a", ["b"]], "label": "x"}', records.NESTED, "column 'text' holds a list where one value belongs"),
        (b'{"text": "\xff"}', records.ENCODING, "0xFF"),
    ],
)
def test_bad_json_is_a_bad_row_with_a_reason(tmp_path, line, kind, part):
    content = (line if isinstance(line, bytes) else line.encode()) + b'\n{"text": "a", "label": "x"}\n'
    bad, good = rows_of(written(tmp_path, "a.jsonl", content))
    assert (bad.line, bad.kind) == (1, kind) and part in bad.reason
    assert good.line == 2 and len(bad.raw) <= 500


# Parquet


def test_parquet_values_become_text_and_rows_are_numbered(tmp_path):
    path = tmp_path / "a.parquet"
    table = {"text": ["a", None, "c"], "label": pa.array([1.0, float("nan"), None]), "unused": [[1], [2], [3]]}
    pq.write_table(pa.table(table), path)
    assert values_of(path) == [(1, "a", "1"), (2, None, None), (3, "c", None)]


def test_parquet_strings_that_are_not_utf8_are_bad_rows(tmp_path):
    path = tmp_path / "a.parquet"
    text = pa.array([b"good", b"\xff\xfe", b"good"]).cast(pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": text, "label": ["x", "y", "x"]}), path)
    first, bad, last = rows_of(path)
    assert (bad.line, bad.kind) == (2, records.ENCODING) and "0xFF" in bad.reason
    assert first.values == last.values == {"text": "good", "label": "x"}


def test_parquet_is_read_over_many_batches(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [f"t{n}" for n in range(3000)], "label": ["x"] * 3000}), path)
    assert [row.line for row in rows_of(path)] == list(range(1, 3001))


# Before anything is started


def test_every_format_of_the_config_has_a_reader():
    assert set(READERS) == set(get_args(Formats))


@pytest.mark.parametrize(
    "name, content, settings, parts",
    [
        ("a.csv", "", {}, ["a.csv", "empty"]),
        ("a.csv", "text,label\n", {}, ["a.csv", "no examples"]),
        ("a.jsonl", "\n", {}, ["a.jsonl", "empty"]),
        ("a.jsonl", "[1]\n", {}, ["a.jsonl:1", "not an object"]),
        ("a.dat", "text,label\na,x\n", {}, ["a.dat", "'.dat'", "data.format"]),
        ("a.txt", "text,label\na,x\n", {}, ["a.txt", "plain text has no columns", "data.format"]),
        ("a.csv", "texts,label\na,x\n", {}, ["data.text", "'text'", "did you mean 'texts'", "texts, label"]),
        ("a.csv", "text,label\na,x\n", {"label": "category"}, ["data.label", "text, label", "data.columns"]),
        ("a.csv", "text,label\na,x\n", {"exclude": {"kind": ["x"]}}, ["data.exclude", "'kind'"]),
        ("a.csv", "text,label\na,x\n", {"split": {"column": "fold"}}, ["data.split.column", "'fold'"]),
        ("a.csv", "text,label,text\na,x,b\n", {}, ["line 1", "'text'", "rename"]),
        ("a.csv", "text,label\na,x\n", {"columns": ["text", "label"]}, ["header", "data.columns"]),
        ("a.csv", "text,label\na,x\n".encode("utf-16"), {}, ["UTF-16", "data.encoding"]),
        ("a.csv", "text,label\na,x\n", {"encoding": "utf-9"}, ["data.encoding", "utf-9"]),
        ("a.csv", "text,label\na,x\n", {"delimiter": "\n"}, ["data.delimiter"]),
        ("a.csv.gz", "text,label\na,x\n", {}, ["a.csv.gz", "cannot be read"]),
        ("a.parquet", "text,label\na,x\n", {}, ["a.parquet", "not readable as Parquet"]),
    ],
)
def test_a_file_that_cannot_be_used_is_told_before_anything_starts(tmp_path, name, content, settings, parts):
    path = written(tmp_path, name, content)
    with pytest.raises(BertlineError) as error:
        check_inputs(data_for(path, **settings))
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize(
    "name, part",
    [
        ("rows.cvs", "did you mean 'rows.csv'?"),
        ("*.tsv", "no file matches"),
        ("", "is a folder"),
        ("no/rows.csv", "nor its folder"),
    ],
)
def test_a_path_that_names_no_file_is_told(tmp_path, name, part):
    written(tmp_path, "rows.csv", "text,label\na,x\n")
    with pytest.raises(BertlineError, match="data.path") as error:
        check_inputs(data_for(tmp_path / name))
    assert part in str(error.value)


def test_slices_must_be_columns(tmp_path):
    path = written(tmp_path, "a.csv", "text,label\na,x\n")
    with pytest.raises(BertlineError, match="evaluation.slices: there is no column 'movie'"):
        check_inputs(data_for(path), ["movie"])


def test_a_file_must_not_be_on_both_sides(tmp_path):
    path = written(tmp_path, "a.csv", "text,label\na,x\n")
    with pytest.raises(BertlineError, match="both data.train and data.eval"):
        check_inputs(DataConfig(train=str(path), eval=str(tmp_path / "*.csv")))


def test_files_come_sorted_and_know_their_split(tmp_path):
    for name in ("b.csv", "a.csv", "c.jsonl"):
        written(tmp_path, name, '{"text": 1, "label": 2}\n' if name == "c.jsonl" else "text,label\na,x\n")
    found = check_inputs(DataConfig(train=str(tmp_path / "*.csv"), eval=str(tmp_path / "c.jsonl")))
    assert [(Path(file.path).name, file.format, file.split) for file in found] == [
        ("a.csv", "csv", "train"), ("b.csv", "csv", "train"), ("c.jsonl", "jsonl", "eval")
    ]  # fmt: skip


def test_a_truncated_file_ends_with_a_row_that_says_so(tmp_path):
    lines = "".join(f"text number {number},{number * 7919 % 1000}\n" for number in range(20_000))
    whole = gzip.compress(f"text,label\n{lines}".encode())
    path = written(tmp_path, "a.csv.gz", whole[: len(whole) // 2])
    *rows, last = rows_of(path)
    assert len(rows) > 1000 and all(isinstance(row, Row) for row in rows)
    assert last.kind == records.UNREADABLE and "a.csv.gz" in last.reason


def test_the_digest_is_of_names_and_content_not_of_folders(tmp_path):
    digests = []
    for folder, name, content in (
        ("one", "a.csv", "x"), ("two", "a.csv", "x"), ("three", "b.csv", "x"), ("four", "a.csv", "y")
    ):  # fmt: skip
        (tmp_path / folder).mkdir()
        digests.append(digest(data_for(written(tmp_path / folder, name, content))))
    assert digests[0] == digests[1] and len(set(digests)) == 3


def documents(path, **settings):
    found = list(read(InputFile(path, "documents", None), data_for(path, label=None, **settings)))
    return [row.values["text"].split("\n") if isinstance(row, Row) else row.kind for row in found], [r.line for r in found]


def test_documents_are_parted_by_empty_lines(tmp_path):
    path = written(tmp_path, "a.txt", "\n\none .\n two .\r\n\n \nthree .\n\n")
    assert documents(path) == ([["one .", "two ."], ["three ."]], [3, 7])


def test_documents_begin_at_headings_and_lines_are_split_into_sentences(tmp_path):
    text = " = First = \n \n One . Two ! \n \n = = Part = = \n Three = 3 . \n \n = Second = \n \n Four .\n"
    path = written(tmp_path, "a.txt", text)
    found, lines = documents(path, documents="headings", sentences="split")
    assert found == [["One .", "Two !", "Three = 3 ."], ["Four ."]] and lines == [3, 10]


def test_a_line_that_is_not_utf_8_is_one_bad_row_of_its_document(tmp_path):
    path = written(tmp_path, "a.txt", b"one .\nt\xffo .\nthree .\n")
    assert documents(path) == ([ENCODING, ["one .", "three ."]], [2, 1])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("It rained. Nobody came! Why? He left.", ["It rained.", "Nobody came!", "Why?", "He left."]),
        ('He said "No." Then he left.', ['He said "No."', "Then he left."]),
        ("about 3.5 m and e.g. this", ["about 3.5 m and e.g. this"]),
        ("他来了。她走了！好", ["他来了。", "她走了！", "好"]),
        ("  ", []),
    ],
)
def test_sentences_end_where_another_one_seems_to_begin(line, expected):
    assert split_sentences(line) == expected
