"""The rows of a query on a database, by its SQLAlchemy address.

Rows are fetched as they are read, by a cursor of the server where it has one. Nothing is written: only a query is sent, in
a transaction that may only read, and that is rolled back. The password is in no config; see `PASSWORD_VARIABLE`.
"""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bertline.components.ingest.readers.records import BadRow, Row, make_row
from bertline.pipeline.config import DataConfig
from bertline.pipeline.config.databases import PASSWORD_VARIABLE
from bertline.pipeline.core.errors import BertlineError

LIKELY_BYTES = 64 << 20
"""What is taken for the size of a query's rows before they are read."""
_ROWS_AT_ONCE = 1000
_COMMENTS = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
_QUERY = re.compile(rf"{_COMMENTS}(?:select|with|values|table)\b", re.IGNORECASE | re.DOTALL)
_READ_ONLY: dict[str, dict[str, Any]] = {"postgresql": {"postgresql_readonly": True}}
_SESSION = {"mysql": "SET SESSION TRANSACTION READ ONLY", "mariadb": "SET SESSION TRANSACTION READ ONLY"}
_EXTRAS = {"postgresql": "postgres"}


def columns(path: str, data: DataConfig) -> list[str]:
    with _asked(path, data) as result:
        return _names(path, result)


def read(path: str, data: DataConfig, columns: Collection[str] | None = None) -> Iterator[Row | BadRow]:
    """A row's number is its place in the result."""
    with _asked(path, data) as result:
        names = _names(path, result)
        for number, values in enumerate(result, 1):
            row = dict(zip(names, map(_plain, values), strict=True))
            yield make_row(path, number, row, columns, list_columns=data.list_columns)


def digest(path: str, data: DataConfig) -> str:
    """Of all rows, whatever their order: a database need not keep one."""
    total = count = 0
    with _asked(path, data) as result:
        names = _names(path, result)
        for values in result:
            row = repr(tuple(map(_plain, values))).encode("utf-8", "backslashreplace")
            total += int.from_bytes(hashlib.sha256(row).digest()[:16], "big")
            count += 1
    return hashlib.sha256(f"{names} {count} {total % 2**128:032x}".encode()).hexdigest()


def size(path: str) -> int:
    """About how many bytes there are to read."""
    file = _file_of(path)
    return file.stat().st_size if file and file.is_file() else LIKELY_BYTES


def _file_of(url: str) -> Path | None:
    """Where SQLite has the database."""
    scheme, _, rest = url.partition(":///")
    return Path(rest.partition("?")[0]) if scheme.partition("+")[0] == "sqlite" and rest else None


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def _names(path: str, result: Any) -> list[str]:
    names = list(map(str, result.keys()))
    if twice := next((name for at, name in enumerate(names) if name in names[:at]), None):
        raise BertlineError(f"{path}: data.query: two columns are named {twice!r}; give one another name by AS.")
    return names


@contextmanager
def _asked(path: str, data: DataConfig) -> Iterator[Any]:
    """The result of the query, whose rows come as they are asked for."""
    import sqlalchemy as sa

    query = data.query or ""
    if not _QUERY.match(query):
        raise BertlineError(f"{path}: data.query: only queries that begin with SELECT or WITH are allowed.")
    engine = _engine(path)
    try:
        with engine.connect() as connection:
            name = engine.dialect.name
            connection.execution_options(**_READ_ONLY.get(name, {}))
            if name in _SESSION:
                connection.exec_driver_sql(_SESSION[name])
            # Without parameters a % in the query is nothing but that.
            options = {"stream_results": True, "yield_per": _ROWS_AT_ONCE, "no_parameters": True}
            yield connection.exec_driver_sql(query, execution_options=options)
    except sa.exc.SQLAlchemyError as error:
        raise BertlineError(f"{path}: {_reason(error)}; check data.path, data.query and the rights of the user.") from None
    finally:
        engine.dispose()


def _engine(path: str) -> Any:
    import sqlalchemy as sa

    try:
        url = _address(path)
        if url.get_backend_name() == "sqlite":
            return sa.create_engine(url, poolclass=sa.pool.NullPool, creator=lambda: _open_file(path))
        return sa.create_engine(url, poolclass=sa.pool.NullPool)
    except sa.exc.ArgumentError as error:
        raise BertlineError(f"{path}: this is no address of a database: {_reason(error)}.") from None
    except ImportError as error:
        extra = _EXTRAS.get(url.get_backend_name())
        remedy = f"pip install 'bertline[{extra}]' and write {extra}ql+psycopg://…" if extra else "install it"
        raise BertlineError(f"{path}: the driver of the database is not installed ({error}); {remedy}.") from None


def _address(path: str) -> Any:
    """With the password of the environment; it stands in no text that the address is shown as."""
    from sqlalchemy.engine import make_url

    url, password = make_url(path), os.environ.get(PASSWORD_VARIABLE)
    return url.set(password=password) if password and url.get_backend_name() != "sqlite" else url


def _open_file(path: str) -> sqlite3.Connection:
    file = _file_of(path)
    if file is None or not file.is_file():
        raise BertlineError(f"{path}: there is no file {file}; check the path, which has three slashes before it.")
    return sqlite3.connect(f"file:{quote(str(file.absolute()))}?mode=ro", uri=True, check_same_thread=False)


def _reason(error: Exception) -> str:
    """The first line of what the driver says, without the password."""
    told = str(getattr(error, "orig", None) or error).strip() or type(error).__name__
    password = os.environ.get(PASSWORD_VARIABLE)
    line = told.splitlines()[0].rstrip(".")
    return line.replace(password, "…") if password else line
