"""Names as MLflow takes them."""

from __future__ import annotations

import re


def valid_name(name: str) -> str:
    """MLflow takes letters, digits and `_-. :/` in a name of a metric, a param or a tag, at most 250, and no odd path.

    >>> valid_name("slice/café=yes/f1"), valid_name("slice/a//../f1")
    ('slice/café_yes/f1', 'slice/a/_/_/f1')
    """
    parts = re.sub(r"[^\w\-. :/]", "_", name)[:250].split("/")
    return "/".join("_" * max(1, len(part)) if part.strip(".") == "" else part for part in parts)[:250]
