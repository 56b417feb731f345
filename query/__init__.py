"""ELF QL: a query's text to a plan, and the plan to Polars expressions over events and over results."""

from query.analysis import analyze
from query.approximation import relative_error
from query.ast import App, Query, Stream, apps, with_apps
from query.errors import QueryError
from query.explain import Explanation, aggregate_texts, explain
from query.joining import JoinStage, TableError
from query.limits import GROUPS_DEFAULT, GROUPS_MAX, TABLE_BYTES_MAX, TREES_MAX
from query.measures import measures
from query.other import OtherStage
from query.parser import parse
from query.plan import Plan, PlanJoin, output_names
from query.printer import format_query
from query.results import ResultStage
from query.rows import Rows
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
    "TREES_MAX",
    "App",
    "BeyondGroups",
    "EventStage",
    "Explanation",
    "JoinStage",
    "OtherStage",
    "Plan",
    "PlanError",
    "PlanJoin",
    "Query",
    "QueryError",
    "ResultStage",
    "Rows",
    "Schema",
    "Stream",
    "TableError",
    "aggregate_texts",
    "analyze",
    "apps",
    "explain",
    "format_query",
    "format_timestamp",
    "functions",
    "keywords",
    "measures",
    "output_names",
    "parse",
    "relative_error",
    "tumbling",
    "with_apps",
]
