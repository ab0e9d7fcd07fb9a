"""Sheets of Excel workbooks are tables like others: numbered as Excel numbers rows, bounded, told of where they are not."""

from __future__ import annotations

import datetime
import sys
import zipfile
from pathlib import Path

import pytest

from bertline.components.ingest.files import find_files
from bertline.components.ingest.readers import excel
from bertline.components.ingest.readers.records import BadRow
from bertline.components.ingest.readers.registry import check_inputs, read
from bertline.pipeline.config import DataConfig
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new import describe, write_config
from bertline.pipeline.settings.loader import load

HEADER = ("text", "label")


def workbook(path: Path, **sheets) -> Path:
    """Args: sheets: name -> rows."""
    openpyxl = pytest.importorskip("openpyxl", reason="in the extra `excel`, which `make setup` installs")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def rows_of(path: Path, columns=HEADER, **settings):
    data = DataConfig(path=str(path), **settings)
    return list(read(find_files(data)[0], data, columns))


def test_cells_become_texts_and_rows_have_the_numbers_that_excel_shows(tmp_path):
    day = datetime.date(2024, 2, 3)
    path = workbook(tmp_path / "a.xlsx", a=[(), HEADER, ("Good.", 1), (), ("Bad.", 2.5), (day, True), (None, "x")])
    assert [(row.line, *row.values.values()) for row in rows_of(path)] == [
        (3, "Good.", "1"), (5, "Bad.", "2.5"), (6, "2024-02-03 00:00:00", "true"), (7, None, "x"),
    ]  # fmt: skip


def test_columns_without_a_header_and_cells_beyond_it_are_not_read(tmp_path):
    path = workbook(tmp_path / "a.xlsx", a=[("text", None, "label"), ("Good.", "note", "x", "beyond")])
    assert rows_of(path, None)[0].values == {"text": "Good.", "label": "x"}


def test_the_first_sheet_that_is_seen_is_read_unless_another_is_named(tmp_path):
    path = workbook(tmp_path / "a.xlsx", hidden=[HEADER, ("h", "h")], one=[HEADER, ("1", "x")], two=[HEADER, ("2", "y")])
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(path)
    book["hidden"].sheet_state = "hidden"
    book.save(path)
    assert [row.values["text"] for row in rows_of(path)] == ["1"]
    assert [row.values["text"] for row in rows_of(path, sheet="hidden")] == ["h"]
    with pytest.raises(BertlineError, match="there is no sheet 'tow'; did you mean 'two'.*Sheets: one, two, hidden"):
        check_inputs(DataConfig(path=str(path), sheet="tow"))


def test_a_sheet_without_a_header_has_the_columns_of_the_config(tmp_path):
    path = workbook(tmp_path / "a.xlsx", a=[("Good.", "x")])
    data = DataConfig(path=str(path), columns=HEADER)
    assert [row.values for row in read(find_files(data)[0], data)] == [{"text": "Good.", "label": "x"}]


def test_an_error_of_a_formula_costs_its_row_alone(tmp_path):
    path = workbook(tmp_path / "a.xlsx", a=[HEADER, ("Good.", "x"), ("#N/A", "x"), ("Bad.", "x")])
    found = rows_of(path)
    assert [isinstance(row, BadRow) for row in found] == [False, True, False]
    assert "column 'text' holds #N/A" in found[1].reason and found[1].line == 3


@pytest.mark.parametrize(
    "rows, message", [([], "the sheet is empty"), ([("a", "a")], "two columns are named 'a'"), ([HEADER], "no examples")]
)
def test_a_sheet_that_is_no_table_is_told_of(tmp_path, rows, message):
    with pytest.raises(BertlineError, match=message):
        check_inputs(DataConfig(path=str(workbook(tmp_path / "a.xlsx", a=rows))))


def test_what_is_no_workbook_or_too_large_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    path = workbook(tmp_path / "a.xlsx", a=[HEADER, ("Good.", "x")])
    for bound in ("MAX_HELD", "MAX_UNPACKED"):
        with monkeypatch.context() as patched, pytest.raises(BertlineError, match="unpacks to .* save the sheet as CSV"):
            patched.setattr(excel, bound, 10)
            check_inputs(DataConfig(path=str(path)))
    for content in (b"PK\x03\x04", b"no archive", b""):
        path.write_bytes(content)
        with pytest.raises(BertlineError, match="no workbook that can be read"):
            check_inputs(DataConfig(path=str(path)))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "no sheet")
    with pytest.raises(BertlineError, match="no workbook that can be read"):
        check_inputs(DataConfig(path=str(path)))


def test_a_row_with_a_number_that_excel_has_not_ends_the_reading(tmp_path):
    path = workbook(tmp_path / "a.xlsx", a=[HEADER, ("Good.", "x")])
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    sheet = members["xl/worksheets/sheet1.xml"].replace(b'<row r="2"', b'<row r="99999999999"')
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, sheet if name == "xl/worksheets/sheet1.xml" else content)
    (bad,) = rows_of(path)
    assert isinstance(bad, BadRow) and "says it has over 1,048,576 rows" in bad.reason


def test_a_missing_package_is_named_with_the_extra_that_brings_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(BertlineError, match=r"pip install 'bertline\[excel\]', or save the sheet as CSV"):
        check_inputs(DataConfig(path=str(tmp_path / "a.xlsx")))


def test_new_takes_the_first_sheet_and_names_the_others(tmp_path):
    rows = [HEADER, *((f"This is sentence number {at}.", "ab"[at % 2]) for at in range(40))]
    path = workbook(tmp_path / "mails.xlsx", mails=rows, notes=[("x",)])
    text = write_config(str(path), str(tmp_path / "a.yaml"))
    assert "  sheet: mails   # the first; or notes" in text and "format" not in text
    config = load(str(tmp_path / "a.yaml"))
    assert (config.task, config.data.sheet) == ("classification", "mails")
    check_inputs(config.data)


def test_new_says_of_an_old_workbook_what_to_save_it_as(tmp_path):
    (tmp_path / "a.xls").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    with pytest.raises(BertlineError, match="save it as .xlsx without one"):
        describe(str(tmp_path / "a.xls"))
