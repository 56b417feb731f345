"""Compiles a query: parses its text, binds the tree to a plan, optimizes the plan and chooses its execution
(docs/compiler.md)."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from query.binder.planning import bind
from query.binder.scope import Known
from query.functions import FUNCTIONS
from query.model.limits import GROUPS_DEFAULT
from query.optimizer import RULES, rewrite
from query.planner import plan_execution

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from query.model.types import Schema
    from query.optimizer import Rewriting, Rule
    from query.plan.plan import Plan
    from query.plan.wire import BeyondGroups
    from query.syntax import ast


_SCALAR_FUNCTIONS = {name: function.signature for name, function in FUNCTIONS.items()}


def parse(text: str) -> ast.Query:
    """The tree of one query; raises QueryError for any other text. Linear in the text's length.

    >>> parse("SELECT COUNT(*) FROM web").source.name
    'web'
    """
    from query.syntax import parser  # by whoever parses: an agent that is asked nothing need not hold the grammar

    return parser.parse(text, _SCALAR_FUNCTIONS)


def keywords() -> frozenset[str]:
    """The grammar's own words, in capitals."""
    from query.syntax import parser

    return parser.keywords()


def analyze(
    query: ast.Query,
    catalog: Mapping[str, Schema],
    tables: Mapping[str, Schema] = MappingProxyType({}),
    *,
    max_groups: int = GROUPS_DEFAULT,
    beyond_groups: BeyondGroups = "other",
) -> Plan:
    """The plan of a query over the streams of a catalog; raises QueryError for a query that cannot run.

    `tables`: the known schemas of look-up tables; other tables' columns are unknown.

    Each window keeps `max_groups` groups, from 1 to GROUPS_MAX; further groups are combined into one, OTHER, or are an
    error.

    >>> from query import Schema, parse
    >>> query = parse("SELECT SUM(hits) FROM web WHERE hits > 2 * 50")
    >>> analyze(query, {"web": Schema({}, open=True)}).where.operands[1]
    Constant(value=100, type='integer')
    """
    return analyze_with_rules(query, catalog, tables, max_groups=max_groups, beyond_groups=beyond_groups).plan


def analyze_with_rules(
    query: ast.Query,
    catalog: Mapping[str, Schema],
    tables: Mapping[str, Schema] = MappingProxyType({}),
    *,
    max_groups: int = GROUPS_DEFAULT,
    beyond_groups: BeyondGroups = "other",
    rules: Sequence[Rule] = RULES,
) -> Rewriting:
    """The plan of a query, and the rules that changed it; with `rules=()`, the plan as the query is written."""
    written = bind(query, Known(catalog, tables))
    rewriting = rewrite(replace(written, max_groups=max_groups, beyond_groups=beyond_groups), rules)
    return replace(rewriting, plan=plan_execution(rewriting.plan))
