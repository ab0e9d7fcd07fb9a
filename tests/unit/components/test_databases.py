"""A query on a database becomes rows: streamed, never written to, and without a password anywhere."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from bertline.components.ingest.files import digest, find_files, raw_bytes
from bertline.components.ingest.readers.database import PASSWORD_VARIABLE, _address, _reason
from bertline.components.ingest.readers.registry import check_inputs, read
from bertline.pipeline.commands.watch import look
from bertline.pipeline.config import DataConfig
from bertline.pipeline.config.databases import has_password
from bertline.pipeline.core.errors import BertlineError
from bertline.pipeline.new import write_config
from bertline.pipeline.settings.loader import load

QUERY = "SELECT body AS text, queue AS label, paid FROM tickets"
SECRET = "hunter/2?x"


@pytest.fixture
def url(tmp_path):
    """The address of a database with 40 tickets."""
    with sqlite3.connect(tmp_path / "tickets.db") as connection:
        connection.execute("CREATE TABLE tickets (body TEXT, queue TEXT, paid REAL)")
        rows = [(f"My ticket number {at} is 100% lost: help!", ("billing", "travel")[at % 2], at / 4) for at in range(40)]
        connection.executemany("INSERT INTO tickets VALUES (?, ?, ?)", rows)
    connection.close()
    return f"sqlite:///{tmp_path / 'tickets.db'}"


def rows_of(url, query=QUERY, columns=("text", "label")):
    data = DataConfig(path=url, query=query)
    return list(read(find_files(data)[0], data, columns))


def change(url, statement):
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        connection.execute(statement)
    connection.close()


def test_rows_of_a_query_are_rows_with_texts(url):
    rows = rows_of(url, columns=("text", "label", "paid"))
    assert [row.line for row in rows] == list(range(1, 41)) and rows[0].file == url
    assert rows[1].values == {"text": "My ticket number 1 is 100% lost: help!", "label": "travel", "paid": "0.25"}
    found = rows_of(url, "-- all of them\n/* or so */ WITH a AS (SELECT 'x:y %' AS text, x'ff' AS label) SELECT * FROM a")
    assert "not valid UTF-8" in found[0].reason


@pytest.mark.parametrize(
    "query, message",
    [
        ("DELETE FROM tickets", "begin with SELECT or WITH"),
        ("WITH a AS (SELECT 1) DELETE FROM tickets", "readonly|read-only"),
        ("SELECT gone FROM tickets", "no such column: gone"),
        ("SELECT body, body FROM tickets", "two columns are named 'body'"),
        ("SELECT body AS text FROM tickets", "there is no column 'label'"),
        ("SELECT body AS text, queue AS label FROM tickets WHERE 0", "no examples"),
    ],
)
def test_what_is_no_query_for_rows_is_refused_and_changes_nothing(url, query, message):
    with pytest.raises(BertlineError, match=message):
        check_inputs(DataConfig(path=url, query=query))
    assert len(rows_of(url)) == 40


def test_the_digest_is_that_of_the_rows_whatever_their_order(url):
    def of(query=QUERY):
        return digest(DataConfig(path=url, query=query))

    before = of()
    assert of() == of(f"{QUERY} ORDER BY paid DESC") == before != of(f"{QUERY} LIMIT 39")
    change(url, "UPDATE tickets SET queue = 'other' WHERE paid = 1")
    assert of() != before
    assert raw_bytes(find_files(DataConfig(path=url, query=QUERY))) > 0


def test_a_relative_file_is_that_beside_the_config(url, tmp_path):
    config = tmp_path / "a.yaml"
    whole = {
        "name": "a",
        "data": {"path": "sqlite:///tickets.db", "query": QUERY},
        "evaluation": {"thresholds": {"accuracy": 0.5}},
    }
    config.write_text(json.dumps(whole))
    assert load(str(config)).data.path == url


@pytest.mark.parametrize("address", ["sqlite:////nowhere/a.db", "sqlite://", "nosuchdb://host/x"])
def test_a_database_that_is_not_there_is_told_of(address):
    with pytest.raises(BertlineError, match="there is no file|no address"):
        check_inputs(DataConfig(path=address, query=QUERY))


def test_a_missing_driver_is_named_with_what_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(BertlineError, match=r"pip install 'bertline\[postgres\]'"):
        check_inputs(DataConfig(path="postgresql+psycopg://me@localhost/x", query=QUERY))


@pytest.mark.parametrize(
    "address", [f"postgresql://me:{SECRET}@host/x", "mysql://me:@host/x", f"postgresql://host/x?password={SECRET}"]
)
def test_an_address_with_a_password_is_refused_without_saying_it(address, tmp_path):
    assert has_password(address)
    config = tmp_path / "a.yaml"
    config.write_text(
        f"name: a\ndata: {{path: '{address}', query: SELECT 1}}\nevaluation: {{thresholds: {{accuracy: 0.5}}}}"
    )
    for refused in (lambda: load(str(config)), lambda: write_config(address, str(tmp_path / "b.yaml"), query=QUERY)):
        with pytest.raises(BertlineError, match=f"give (it|the password) in {PASSWORD_VARIABLE}") as error:
            refused()
        assert SECRET not in str(error.value)


def test_the_password_of_the_environment_reaches_the_driver_and_no_message(monkeypatch):
    monkeypatch.setenv(PASSWORD_VARIABLE, SECRET)
    address = _address("postgresql+psycopg://me@host/x")
    assert address.password == SECRET and SECRET not in f"{address} {address!r}"
    told = _reason(sa.exc.OperationalError("SELECT 1", {}, Exception(f"no entry for me with {SECRET}\nDetail.")))
    assert told == "no entry for me with …"


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"path": "postgresql://host/x"}, "set `query`"),
        ({"path": "a.csv", "query": "SELECT 1"}, "the address of one database"),
        ({"path": "sqlite:///a.db", "query": "SELECT 1", "format": "csv"}, "leave out `format`"),
        ({"path": "sqlite:///a.db", "query": "SELECT 1", "test": "a.csv"}, "no files beside it"),
    ],
)
def test_a_query_and_an_address_go_together(settings, message):
    with pytest.raises(ValueError, match=message):
        DataConfig(**settings)


def test_new_writes_a_config_for_a_query_that_the_pipeline_takes(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = write_config("sqlite:///tickets.db", str(tmp_path / "a" / "tickets.yaml"), query=QUERY)
    assert text.startswith("# Inferred from 40 examples of tickets.db") and "name: tickets" in text
    config = load(str(tmp_path / "a" / "tickets.yaml"))
    assert (config.task, config.data.path, config.data.query) == ("classification", url, QUERY)
    check_inputs(config.data)
    with pytest.raises(BertlineError, match="give --query"):
        write_config(url, str(tmp_path / "b.yaml"))
    with pytest.raises(BertlineError, match="watch waits for files"):
        look(config)


def test_reading_files_imports_no_sqlalchemy():
    import subprocess

    code = "import sys, bertline.components.ingest.readers.registry; print({'sqlalchemy', 'openpyxl'} & set(sys.modules))"
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True).stdout == "set()\n"
