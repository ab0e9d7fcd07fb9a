"""Addresses of databases, as SQLAlchemy writes them: what a config may contain, which is recorded with every run."""

from __future__ import annotations

import re
from pathlib import Path

PASSWORD_VARIABLE = "BERTLINE_DB_PASSWORD"
"""Holds the password of the database, where its driver has no way of its own to find it."""
_DATABASE = re.compile(r"(sqlite|postgres|postgresql|mysql|mariadb|oracle|mssql)(\+\w+)?://")
# As SQLAlchemy parts an address: a password may hold any mark but the @ after it.
_PASSWORD = re.compile(r"[\w+]+://[^:/]*:[^@]*@")
_SECRET = re.compile(r"[?&;][^=&]*(pass|pwd|secret|token)[^=&]*=", re.IGNORECASE)
_LOCAL = re.compile(r"(sqlite(?:\+\w+)?:///)(?!/)(.+)")


def is_database(path: str) -> bool:
    """Whether it is the address of a database that is widely known; others are told by their query alone."""
    return _DATABASE.match(path) is not None


def has_password(url: str) -> bool:
    """
    >>> has_password("postgresql://me:a/b@host/x"), has_password("postgresql://me@host:5432/x?sslmode=require")
    (True, False)
    """
    return bool(_PASSWORD.match(url) or _SECRET.search(url))


def anchored(url: str, folder: Path) -> str:
    """A file of SQLite's by its whole path, so that it does not depend on where a command is given.

    >>> anchored("sqlite:///a.db", Path("/data")), anchored("postgresql://host/x", Path("/data"))
    ('sqlite:////data/a.db', 'postgresql://host/x')
    """
    found = _LOCAL.fullmatch(url)
    return f"{found[1]}{folder / found[2]}" if found and found[2] != ":memory:" else url
