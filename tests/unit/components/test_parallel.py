"""Two aligned files are read as one, and never out of step: what would shift their lines stops the pipeline."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bertline.components.ingest.files import InputFile, digest, find_files, partner_of
from bertline.components.ingest.readers import records
from bertline.components.ingest.readers.records import ENCODING, TOO_LONG, UNREADABLE, UNUSABLE, BadRow, Row
from bertline.components.ingest.readers.registry import check_inputs, read
from bertline.components.ingest.report import Tally, judge
from bertline.components.ingest.rows import sort_example
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError


def written(folder: Path, **files: str | bytes) -> Path:
    """Writes files, `train_en` under the name train.en; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def parallel(path: Path | None, **settings) -> DataConfig:
    return DataConfig(
        **{"path": str(path) if path else None, "format": "parallel", "text": "en", "label": "de", **settings}
    )


def rows_of(path: Path, **settings) -> list[Row | BadRow]:
    data = parallel(path, **settings)
    (file,) = find_files(data)
    return list(read(file, data))


def test_a_row_is_the_same_line_of_both_files(tmp_path):
    folder = written(tmp_path, train_en="A dog.\r\n\nA cat.", train_de="Ein Hund.\nNichts.\n\n")
    assert check_inputs(parallel(folder / "train.en")) == [
        InputFile(str(folder / "train.en"), "parallel", None, str(folder / "train.de"))
    ]
    assert [(row.line, row.values) for row in rows_of(folder / "train.en")] == [
        (1, {"en": "A dog.", "de": "Ein Hund."}),
        (2, {"en": None, "de": "Nichts."}),
        (3, {"en": "A cat.", "de": None}),
    ]


def test_marks_inside_a_line_that_other_programs_part_lines_at_shift_nothing(tmp_path):
    folder = written(tmp_path, train_en="a\u2028b\rc\x0bd\u0085e\nf\n", train_de="g\nh\n")
    assert [row.values["de"] for row in rows_of(folder / "train.en")] == ["g", "h"]


@pytest.mark.parametrize(
    "source, target, settings",
    [
        ("train.en.gz", "train.de.gz", {}),
        ("train.en.gz", "train.de", {}),
        ("train.en", "train.de.bz2", {}),
        ("source.txt", "target.txt", {"text": "source", "label": "target"}),
        ("news.en-de.en", "news.en-de.de", {}),
        ("en.2016.en.tok", "en.2016.de.tok", {}),
        ("en", "de", {}),
        ("train.pt_BR.txt", "train.zh-Hans.txt", {"text": "pt_BR", "label": "zh-Hans"}),
    ],
)
def test_the_partner_stands_beside_it_under_the_other_languages_name(tmp_path, source, target, settings):
    packed = {".gz": gzip.compress, ".bz2": bz2.compress}
    for name, content in ((source, b"a\n"), (target, b"b\n")):
        (tmp_path / name).write_bytes(packed.get(Path(name).suffix, bytes)(content))
    (row,) = rows_of(tmp_path / source, **settings)
    assert list(row.values.values()) == ["a", "b"]


def test_the_same_compression_is_looked_for_first(tmp_path):
    folder = written(tmp_path, train_en_gz=gzip.compress(b"a\n"), train_de="other\n", train_de_gz=gzip.compress(b"b\n"))
    assert partner_of(str(folder / "train.en.gz"), parallel(folder / "train.en.gz")) == str(folder / "train.de.gz")


def test_a_name_without_the_language_is_told(tmp_path):
    folder = written(tmp_path, train_english="a\n", train_de="b\n")
    with pytest.raises(BertlineError, match="train.english: no part of the name between dots is 'en' .data.text."):
        check_inputs(parallel(folder / "train.english"))


def test_a_missing_partner_is_told_with_every_place_that_was_looked_at(tmp_path):
    folder = written(tmp_path, train_en_gz=gzip.compress(b"a\n"))
    with pytest.raises(BertlineError, match="data.label") as error:
        check_inputs(parallel(folder / "train.en.gz"))
    for name in ("train.de.gz", "train.de,", "train.de.bz2"):
        assert str(folder / name) in str(error.value)


@pytest.mark.parametrize(
    "english, german, ended",
    [("a\nb\nc\n", "a\nb\nc\nd\ne", "train.en has 3 lines"), ("a\nb\nc\nd\ne\n", "a\nb\nc\n", "train.de has 3 lines")],
)
def test_different_numbers_of_lines_stop_the_pipeline_whatever_is_allowed(tmp_path, english, german, ended):
    folder = written(tmp_path, train_en=english, train_de=german)
    *rows, last = rows_of(folder / "train.en")
    assert len(rows) == 3 and last.kind == UNREADABLE
    for part in (ended, "has 5: the former ends before line 4"):
        assert part in last.reason
    tally, data = Tally(), parallel(folder / "train.en", max_bad_fraction=1.0)
    for row in (*rows, last):
        tally.add(row, row if isinstance(row, BadRow) else sort_example(row, data, "train", (), "text"))
    with pytest.raises(BertlineError, match="shifts all that follow"):
        judge(tally.as_report([]), data, None, "", "text")


def test_an_empty_file_beside_a_full_one_is_told_before_anything_starts(tmp_path):
    folder = written(tmp_path, train_en="", train_de="a\nb\n")
    with pytest.raises(BertlineError, match="train.en has 0 lines and .*train.de has 2"):
        check_inputs(parallel(folder / "train.en"))
    written(tmp_path, train_de="")
    with pytest.raises(BertlineError, match="no examples"):
        check_inputs(parallel(folder / "train.en"))


def test_a_bad_line_names_its_file_and_spoils_no_other(tmp_path):
    folder = written(tmp_path, train_en=b"a\n\xe9\nc\nd\n", train_de=b"a\nb\n\xfcber\n\0\n")
    first, *bad = rows_of(folder / "train.en")
    assert first.values == {"en": "a", "de": "a"}
    assert [(Path(row.file).name, row.line, row.kind) for row in bad] == [
        ("train.en", 2, ENCODING), ("train.de", 3, ENCODING), ("train.de", 4, UNUSABLE)
    ]  # fmt: skip
    assert "train.de, line 3, column 1: byte 0xFC" in bad[1].reason
    assert rows_of(folder / "train.en", encoding="latin-1")[2].values == {"en": "c", "de": "über"}


def test_a_line_over_the_limit_is_one_bad_row(tmp_path, monkeypatch):
    for module in ("files", "readers.parallel"):
        monkeypatch.setattr(f"bertline.components.ingest.{module}.MAX_RECORD_CHARS", 20)
    folder = written(tmp_path, train_en="a\nb\nc\n", train_de=f"a\n{'x' * 99}\nc\n")
    _, long, last = rows_of(folder / "train.en")
    assert (Path(long.file).name, long.line, long.kind) == ("train.de", 2, TOO_LONG)
    assert last.values == {"en": "c", "de": "c"}


def test_a_partner_that_breaks_off_is_told_by_its_own_name(tmp_path):
    whole = gzip.compress("".join(f"line {number * 7919 % 10007}\n" for number in range(20_000)).encode())
    folder = written(tmp_path, train_en="a\n" * 20_000, train_de_gz=whole[: len(whole) // 2])
    *_, last = rows_of(folder / "train.en")
    assert last.kind == records.UNREADABLE and "train.de.gz: cannot be read to its end" in last.reason


def test_the_partner_is_part_of_the_digest(tmp_path):
    contents = [("a\n", "b\n"), ("a\n", "b\n"), ("a\n", "c\n"), ("b\n", "a\n")]
    found = [
        digest(parallel(written(tmp_path / str(at), train_en=english, train_de=german) / "train.en"))
        for at, (english, german) in enumerate(contents)
    ]
    assert found[0] == found[1] and len(set(found)) == 3


def test_neither_file_may_be_on_both_sides(tmp_path):
    folder = written(tmp_path, a_en="a\n", a_en_gz=gzip.compress(b"b\n"), a_de="c\n")
    with pytest.raises(BertlineError, match="a.de: both data.train and data.eval name it"):
        find_files(parallel(None, train=str(folder / "a.en"), eval=str(folder / "a.en.gz")))


def test_there_are_no_columns_but_the_two(tmp_path):
    folder = written(tmp_path, train_en="a\n", train_de="b\n")
    with pytest.raises(BertlineError, match="evaluation.slices: parallel files are the columns en, de and no others"):
        check_inputs(parallel(folder / "train.en"), ["source"])


@pytest.mark.parametrize("settings", [{"label": None}, {"text": ["en", "fr"]}])
def test_two_languages_must_be_named(tmp_path, settings):
    with pytest.raises(ValidationError, match="the parts of their names that differ, as en and de"):
        parallel(tmp_path / "train.en", **settings)


SOME_BYTES = st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\xe9", b"\0", "é".encode()]), max_size=30).map(b"".join)


@given(english=SOME_BYTES, german=SOME_BYTES)
def test_no_bytes_make_the_reader_raise_and_rows_stay_in_step(tmp_path_factory, english, german):
    folder = written(tmp_path_factory.mktemp("parallel"), train_en=english, train_de=german)
    rows = rows_of(folder / "train.en")
    assert [row.line for row in rows] == list(range(1, len(rows) + 1))
    counts = [len(content.split(b"\n")) - (content.endswith(b"\n") or not content) for content in (english, german)]
    assert (counts[0] != counts[1]) == any(isinstance(row, BadRow) and row.kind == UNREADABLE for row in rows)
