"""Reads the text of elements: the types of events that they may emit, which are the classes that they use but to tell
types apart, and the attributes that they set.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator

_TELLING = ("isinstance", "issubclass")


class FileNames:
    """The names that each class and function of a job's file uses, from its text."""

    def __init__(self, file: str) -> None:
        self._definitions: dict[str, ast.AST] = {}
        try:
            tree = ast.parse("".join(linecache.getlines(file)))
        except (SyntaxError, ValueError):
            return
        for node in _definitions_in(tree):
            self._definitions.setdefault(node.name, node)

    def used_by(self, definitions: Iterable[str]) -> set[str]:
        """The names that these definitions use, themselves or by way of other classes and functions of the file."""
        names: set[str] = set()
        waiting = [self._definitions[name] for name in definitions if name in self._definitions]
        while waiting:
            new = set(_used(waiting.pop())) - names
            names |= new
            waiting += [self._definitions[name] for name in new if name in self._definitions]
        return names

    def set_by(self, kind: str) -> Iterator[tuple[str, str]]:
        """The attributes that methods of a class set, but `__init__`, each with the method."""
        definition = self._definitions.get(kind)
        for method in definition.body if isinstance(definition, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef) and method.args.args and method.name != "__init__":
                own = method.args.args[0].arg
                for node in ast.walk(method):
                    match node:
                        case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()) if name == own:
                            yield node.attr, method.name


def _definitions_in(node: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef]:
    """Classes and functions that others can name; methods of two classes have nothing in common but their name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            yield child
        else:
            yield from _definitions_in(child)


def _used(node: ast.AST) -> Iterator[str]:
    """Names within a definition, but those of patterns, annotations, keys, and of comparisons of types.

    >>> sorted(set(_used(ast.parse("class C:\\n  keys = {A: 1}\\n  def f(s, e: B): isinstance(e, D) and E(1)"))))
    ['E', 'e']
    """
    match node:
        case ast.Name():
            yield node.id
            return
        case ast.Attribute():
            yield node.attr
        case ast.Call(func=ast.Name(id=name)) if name in _TELLING:
            yield from _used(node.args[0]) if node.args else ()
            return
        case ast.Compare(ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.In()], left=ast.Call(func=ast.Name(id="type"))):
            return
        case ast.MatchClass() | ast.arg():
            return
        case ast.Assign(targets=targets) if "keys" in {name for target in targets for name in _targets(target)}:
            return
    for child in ast.iter_child_nodes(node):
        if child is not getattr(node, "annotation", None) and child is not getattr(node, "returns", None):
            yield from _used(child)


def _targets(target: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
