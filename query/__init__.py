"""ELF QL: a query's text to a plan, and the plan to Polars expressions over events and over results."""

from query.approximation import relative_error
from query.ast import App, Query, Stream, Table, apps, sources, streams_read, with_apps
from query.branch_stage import BranchesStage
from query.compiler import analyze, analyze_with_rules
from query.errors import QueryError, listed, nearest
from query.explain import Explanation, aggregate_texts, explain
from query.joining import JoinStage, TableError
from query.limits import GROUPS_DEFAULT, GROUPS_MAX, TABLE_BYTES_MAX, TABLE_ROWS_MAX, TREES_MAX
from query.measures import measures
from query.other import OtherStage
from query.parser import parse
from query.plan import Plan, output_names
from query.plan_parts import PlanKey
from query.plan_sources import Column, PlanJoin
from query.printer import format_query
from query.results import ResultStage
from query.rewrite import Rewriting
from query.rows import Rows
from query.streams import patterns, selects
from query.timestamps import format_timestamp
from query.to_polars import EventStage
from query.types import Schema
from query.vocabulary import functions, keywords
from query.windows import tumbling
from query.wire import BeyondGroups, PlanError

__all__ = [
    "GROUPS_DEFAULT",
    "GROUPS_MAX",
    "TABLE_BYTES_MAX",
    "TABLE_ROWS_MAX",
    "TREES_MAX",
    "App",
    "BeyondGroups",
    "BranchesStage",
    "Column",
    "EventStage",
    "Explanation",
    "JoinStage",
    "OtherStage",
    "Plan",
    "PlanError",
    "PlanJoin",
    "PlanKey",
    "Query",
    "QueryError",
    "ResultStage",
    "Rewriting",
    "Rows",
    "Schema",
    "Stream",
    "Table",
    "TableError",
    "aggregate_texts",
    "analyze",
    "analyze_with_rules",
    "apps",
    "explain",
    "format_query",
    "format_timestamp",
    "functions",
    "keywords",
    "listed",
    "measures",
    "nearest",
    "output_names",
    "parse",
    "patterns",
    "relative_error",
    "selects",
    "sources",
    "streams_read",
    "tumbling",
    "with_apps",
]
