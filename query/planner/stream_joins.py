"""Lowers a join of two streams to keyed elements: a source for each side, an element that joins them, and a plan over
the pairs.

The graph has the shape that `agent.programs.element_graph` reads. What WHERE says of one side alone goes to its source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from query.model.expression import Constant, Reference, references
from query.model.limits import ROWS_MAX
from query.optimizer.folding import fold_constants
from query.plan.plan import Output, Plan, PlanColumn
from query.plan.spelling import Spelling
from query.plan.walk import conjunction, conjuncts, event_expressions, with_references
from query.syntax import ast
from query.syntax.printer import format_expression, format_streams

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from query.model.expression import Expression
    from query.plan.plan import PlanJoin

ELEMENT = "join"
"""The name of the element that joins."""
_NAME_CHARACTERS_MAX = 40
_Field = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a join: the type its events form, its streams, what it reads of them, and what it keeps."""

    type: str
    stream: str
    columns: tuple[PlanColumn, ...]
    where: Expression | None
    keys: tuple[str, ...]
    fields: tuple[tuple[PlanColumn, _Field], ...]

    @property
    def plan(self) -> Plan:
        """The plan of the side's source: a row for each event it keeps."""
        output = tuple(Output(name, Reference(one.name, one.type)) for one, (name, _) in self.fields)
        return Plan(self.stream, self.columns, None, "rows", self.where, (), (), (), output, (), ROWS_MAX)

    @property
    def source(self) -> dict[str, object]:
        """The side's source in the graph."""
        spelled = Spelling({one.name: ast.ColumnRef(one.path) for one in self.columns})
        items = (_item(format_expression(ast.ColumnRef(one.path)), name) for one, (name, _) in self.fields)
        where = "" if self.where is None else f" WHERE {spelled(self.where)}"
        text = f"SELECT {', '.join(items)} FROM {format_streams(self.stream)}{where}"
        return {"type": self.type, "query": text, "plan": self.plan.to_wire()}

    @property
    def key(self) -> list[str]:
        """The fields of its key, in the order of ON."""
        names = {column.name: name for column, (name, _) in self.fields}
        return [names[one] for one in self.keys]

    def event_type(self) -> dict[str, object]:
        """The type of its events in the graph."""
        return {"name": self.type, "fields": [list(field) for _, field in self.fields]}


def lower_join(plan: Plan) -> Plan:
    """The plan over the pairs of two joined streams, with the elements that make them; other plans as they are."""
    join = plan.join
    if join is None or join.stream is None:
        return plan
    ours, theirs, rest, outer = _conditions(plan, join)
    above = replace(plan, where=rest, join=None)
    used = {reference.name for one in event_expressions(above) for reference in references(one)}
    texts = _as_texts(plan, join)
    type_ = _type_name(join.events, "left")
    other = _type_name(join.alias, "right")
    other = f"{other}_2" if other == type_ else other
    prefix = f"{other}_"
    left_keys, right_keys = (tuple(dict.fromkeys(keys)) for keys in zip(*join.keys, strict=True))
    right = _side(other, join.stream, join.columns, theirs, right_keys, used, texts, prefix="")
    left = _side(type_, plan.stream, plan.columns, ours, left_keys, used, texts, prefix=prefix)
    left, right = replace(left, keys=_in_pairs(join, 0)), replace(right, keys=_in_pairs(join, 1))
    output = f"{type_}_join_{other}"
    joined = [(column, field) for column, field in left.fields]
    joined += [(column, (f"{prefix}{name}", kind)) for column, (name, kind) in right.fields]
    element = {
        "name": ELEMENT,
        "kind": "join",
        "inputs": [{"type": side.type, "key": side.key} for side in (left, right)],
        "output": output,
        "options": {
            "left": left.type,
            "right": right.type,
            "on": [list(pair) for pair in zip(left.key, right.key, strict=True)],
            "within_ms": join.within_ms,
            "mode": "all",
            "outer": outer,
            "prefix": prefix,
        },
    }
    types = [left.event_type(), right.event_type(), {"name": output, "fields": [list(field) for _, field in joined]}]
    return replace(
        above,
        stream=output,
        columns=tuple(replace(column, path=(name,)) for column, (name, _) in joined if column.name in used),
        elements={"sources": [left.source, right.source], "types": types, "elements": [element]},
    )


def _item(text: str, name: str) -> str:
    return text if text == name else f"{text} AS {name}"


def _in_pairs(join: PlanJoin, side: int) -> tuple[str, ...]:
    return tuple(pair[side] for pair in join.keys)


def _side(
    type_: str,
    stream: str,
    columns: Sequence[PlanColumn],
    where: Expression | None,
    keys: Sequence[str],
    used: Collection[str],
    texts: Collection[str],
    *,
    prefix: str,
) -> _Side:
    """A side that gives its key and what is used of it. `texts`: columns whose fields are of type any. `prefix`: how no
    field's name begins."""
    needed = {*keys, *(() if where is None else (one.name for one in references(where)))}
    read = tuple(one for one in columns if one.name in used or one.name in needed)
    given = [one for one in read if one.name in used or one.name in keys]
    names: dict[str, None] = {}
    for number, column in enumerate(given):
        name = re.sub(r"\W", "_", "_".join(column.path))
        plain = re.fullmatch(r"[^\W\d]\w*", name) and len(name) <= _NAME_CHARACTERS_MAX
        is_free = name not in names and not (prefix and name.startswith(prefix))
        names[name if plain and is_free else f"column_{number}"] = None
    kinds = ("any" if one.name in texts else one.type for one in given)
    fields = tuple(zip(given, zip(names, kinds, strict=True), strict=True))
    return _Side(type_, stream, read, where, tuple(keys), fields)


def _as_texts(plan: Plan, join: PlanJoin) -> set[str]:
    """The columns whose values travel as canonical JSON: a number may be an integer or not, and stays what it is."""
    types = {column.name: column.type for column in (*plan.columns, *join.columns)}
    found = {name for name, type_ in types.items() if type_ in ("any", "number")}
    return found | {name for pair in join.keys if types[pair[0]] != types[pair[1]] for name in pair}


def _type_name(alias: str, default: str) -> str:
    name = re.sub(r"\W", "_", alias)
    return name if re.fullmatch(r"[^\W\d]\w*", name) and len(name) <= _NAME_CHARACTERS_MAX else default


def _conditions(plan: Plan, join: PlanJoin) -> tuple[Expression | None, Expression | None, Expression | None, bool]:
    """Takes WHERE apart: conditions on the left side alone, on the right side alone, and on both, and whether events
    without a match are kept.

    A condition on the right side that NULL does not meet drops what LEFT would add: then the join is an inner one, and
    the condition can be tested before it.
    """
    ours, theirs = {one.name for one in plan.columns}, {one.name for one in join.columns}
    left: list[Expression] = []
    right: list[Expression] = []
    rest: list[Expression] = []
    for condition in conjuncts(plan.where):
        names = {one.name for one in references(condition)}
        side = left if names and names <= ours else right if names and names <= theirs else rest
        side.append(condition)
    outer = join.outer and not any(_rejects_null(plan, one) for one in right)
    if outer:
        right, rest = [], [*right, *rest]
    return conjunction(left), conjunction(right), conjunction(rest), outer


def _rejects_null(plan: Plan, condition: Expression) -> bool:
    """Whether a condition is not TRUE where all of its columns are NULL."""
    nulls = {one.name: Constant(None, one.type) for one in references(condition)}
    alone = replace(
        plan,
        where=with_references(condition, nulls),
        keys=(),
        arguments=(),
        aggregates=(),
        output=(),
        order=(),
        having=None,
    )
    where = fold_constants(alone).where
    return isinstance(where, Constant) and where.value is not True
