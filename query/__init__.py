"""ELF QL: a query's text comes in, a plan goes out, and stages that run the plan on events and on results as Polars
expressions. Imports nothing of the other rooms."""

from query.binder.latency import check_live
from query.compiler import analyze, analyze_with_rules, keywords, parse
from query.execution.event_stage import BranchesStage, EventStage
from query.execution.join_stage import JoinStage, TableError
from query.execution.result_stage import OtherStage, ResultStage
from query.execution.rows import ResultRows, ResultTable, are_shown_whole
from query.explain import Explanation, aggregate_texts, explain, measures, relative_error
from query.functions import signatures
from query.fusion.components import FusedComponent, FusedJob, fused_job
from query.fusion.fusion_text import fusion_text
from query.model.errors import QueryError, listed, nearest
from query.model.limits import GROUPS_DEFAULT, GROUPS_MAX, TABLE_BYTES_MAX, TABLE_ROWS_MAX, TREES_MAX
from query.model.streams import covers, patterns, selects
from query.model.timestamps import format_timestamp, parse_timestamp
from query.model.types import Schema
from query.operators.job_operators import job_operators
from query.operators.nesting import NestedPlans, nested_plans
from query.operators.operator import DataOperator, OperatorGraph
from query.optimizer import Rewriting
from query.plan.column_tests import where_clauses
from query.plan.keyed_stream import keyed_stream, without_keys
from query.plan.operations import regex_size
from query.plan.plan import Plan, PlanColumn, PlanJoin, PlanKey, output_names
from query.plan.stream_join import Fields, JoinedSide, StreamJoin, stream_join
from query.plan.windows import PART_MIN_MS, tumbling
from query.plan.wire import BeyondGroups, PlanError
from query.plan.within import GRACE_DEFAULT_MS, Within
from query.syntax.ast import App, Query, Stream, TableRef, apps, sources, streams_read, with_aggregates, with_apps
from query.syntax.printer import format_query

__all__ = [
    "GRACE_DEFAULT_MS",
    "GROUPS_DEFAULT",
    "GROUPS_MAX",
    "PART_MIN_MS",
    "TABLE_BYTES_MAX",
    "TABLE_ROWS_MAX",
    "TREES_MAX",
    "App",
    "BeyondGroups",
    "BranchesStage",
    "DataOperator",
    "EventStage",
    "Explanation",
    "Fields",
    "FusedComponent",
    "FusedJob",
    "JoinStage",
    "JoinedSide",
    "NestedPlans",
    "OperatorGraph",
    "OtherStage",
    "Plan",
    "PlanColumn",
    "PlanError",
    "PlanJoin",
    "PlanKey",
    "Query",
    "QueryError",
    "ResultRows",
    "ResultStage",
    "ResultTable",
    "Rewriting",
    "Schema",
    "Stream",
    "StreamJoin",
    "TableError",
    "TableRef",
    "Within",
    "aggregate_texts",
    "analyze",
    "analyze_with_rules",
    "apps",
    "are_shown_whole",
    "check_live",
    "covers",
    "explain",
    "format_query",
    "format_timestamp",
    "fused_job",
    "fusion_text",
    "job_operators",
    "keyed_stream",
    "keywords",
    "listed",
    "measures",
    "nearest",
    "nested_plans",
    "output_names",
    "parse",
    "parse_timestamp",
    "patterns",
    "regex_size",
    "relative_error",
    "selects",
    "signatures",
    "sources",
    "stream_join",
    "streams_read",
    "tumbling",
    "where_clauses",
    "with_aggregates",
    "with_apps",
    "without_keys",
]
