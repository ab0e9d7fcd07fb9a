"""What a source file takes from others, as a whole or definition by definition: by its syntax, without running it."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Reference(NamedTuple):
    """A module, or a name that is taken from it."""

    module: str
    name: str | None = None


@dataclass(frozen=True)
class Definition:
    """A class, a function or a constant of a module, or a name that the module imports and so hands on."""

    digest: str
    """Of its code, without docstrings, comments and formatting; empty of a name that is only handed on."""
    references: list[Reference]


class Source:
    """One source file.

    Args:
      module: its dotted name, by which its definitions refer to each other.
      text: what it holds.
    """

    def __init__(self, module: str, text: bytes) -> None:
        self._module, self._text = module, text
        self.digest = hashlib.sha256(text).hexdigest()[:12]
        self._definitions: dict[str, Definition] = {}
        self.references: list[Reference] = []
        """All imports that may run, those within functions among them."""
        self.on_demand: dict[str, list[Reference]] = {}
        """Imports for type checkers, by name. They are not run; a package that has some gives these names when it is asked
        for them. What only annotations name needs no other import: whoever makes the object has one."""
        for statement, for_types in _statements(ast.parse(text)):
            for bound, reference in _imported(statement):
                if for_types:
                    self.on_demand.setdefault(bound, []).append(reference)
                else:
                    self.references.append(reference)

    @cached_property
    def hands_on_only(self) -> bool:
        """Whether it has no code of its own: names that it imports, if anything."""
        own = {name for name, found in self._bound.items() if not isinstance(found[0], ast.Import | ast.ImportFrom)}
        return self._only_binds and own <= {"__all__"}

    def definition(self, name: str) -> Definition | None:
        """What a name stands for; None where that does not follow from the statements that bind it alone."""
        if not self._only_binds or name not in self._bound:
            return None
        if name not in self._definitions:
            self._definitions[name] = self._define(name)
        return self._definitions[name]

    def _define(self, name: str) -> Definition:
        digest, references = hashlib.sha256(), []
        own = [node for node in self._bound[name] if not isinstance(node, ast.Import | ast.ImportFrom)]
        for node in self._bound[name]:
            references += [reference for bound, reference in _imported(node) if bound == name]
        for node in own:
            digest.update(ast.dump(_Bare().visit(node)).encode())
            for part in ast.walk(node):
                if isinstance(part, ast.Name) and part.id != name and part.id in self._bound:
                    references.append(Reference(self._module, part.id))
                references += [reference for _, reference in _imported(part)]
        return Definition(digest.hexdigest()[:12] if own else "", references)

    @cached_property
    def _body(self) -> list[ast.stmt]:
        """Parsed again where it is wanted: to keep every tree costs the garbage collector more than to make a few anew."""
        return ast.parse(self._text).body

    @cached_property
    def _bound(self) -> dict[str, list[ast.stmt]]:
        """Names of the module, and the statements that bind them."""
        found: dict[str, list[ast.stmt]] = {}
        for statement in self._body:
            for name in _names(statement):
                found.setdefault(name, []).append(statement)
        return found

    @cached_property
    def _only_binds(self) -> bool:
        """Whether no statement does more than bind names; one that changes what another has made would count for both."""
        return all(_is_text(statement) or _names(statement) for statement in self._body)


class _Bare(ast.NodeTransformer):
    """Leaves out docstrings, those of settings too."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if _is_text(node) else node


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _names(statement: ast.stmt) -> list[str]:
    """The names that a statement binds; none where it does, or may do, anything else."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names if alias.name != "*"]
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        targets = [part for target in statement.targets for part in getattr(target, "elts", [target])]
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    else:
        return []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if len(names) == len(targets) else []


def _imported(node: ast.AST) -> Iterator[tuple[str, Reference]]:
    """What an import takes, with the name that stands for it afterwards."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0], Reference(alias.name)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        for alias in node.names:
            yield alias.asname or alias.name, Reference(node.module, alias.name)
    elif isinstance(node, ast.Assign):
        for name in _named_for_later(node.value):
            yield ast.unparse(node.targets[0]), Reference(name)


def _named_for_later(value: ast.expr) -> list[str]:
    """The modules of `later("…")` in `models/tasks/base/later.py`, unless it says that they do not count."""
    if not (isinstance(value, ast.Call) and getattr(value.func, "id", None) == "later") or value.keywords:
        return []
    return [part.value for part in value.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _statements(node: ast.AST, for_types: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """All statements below, and whether they are for type checkers. To walk through expressions would double the time."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        within = for_types or (field == "body" and isinstance(node, ast.If) and _asks_for_type_checkers(node.test))
        for child in getattr(node, field, ()):
            if isinstance(child, ast.stmt):
                yield child, within
            yield from _statements(child, within)


def _asks_for_type_checkers(test: ast.expr) -> bool:
    return getattr(test, "id", None) == "TYPE_CHECKING" or getattr(test, "attr", None) == "TYPE_CHECKING"
