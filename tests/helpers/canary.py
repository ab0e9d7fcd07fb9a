"""Whether a library's private side is still what our compat modules take it for."""

from __future__ import annotations

import inspect
from typing import Any

import pytest


def still_takes(owner: Any, name: str, *arguments: str, entry: str, **named: str) -> None:
    """Fails with a sentence where a function is gone, or can no longer be called as it is.

    Args:
      owner: the class or the module of the library.
      name: of the function in it.
      arguments: what it is given by place, self among it; only their number counts.
      entry: what of ours calls it, and would have to be changed.
      named: what it is given by name.
    """
    where = f"{getattr(owner, '__module__', '')}.{owner.__name__}".lstrip(".")
    if not hasattr(owner, name):
        pytest.fail(f"{where} has no {name} in the installed version; change {entry}, which calls it.", pytrace=False)
    try:
        inspect.signature(getattr(owner, name)).bind(*arguments, **named)
    except TypeError as error:
        pytest.fail(
            f"{where}.{name} is called otherwise in the installed version ({error}); change {entry}.", pytrace=False
        )
