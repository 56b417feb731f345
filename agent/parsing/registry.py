"""Registry of formats: one row each. A new format is a file with its functions and a row here."""

from __future__ import annotations

from collections.abc import Sequence

from agent.parsing.combined import (
    TIME_FIELD,
    CombinedParser,
    CombinedRecords,
    combined_evidence,
    combined_schema,
    recognise_combined,
)
from agent.parsing.delimited import (
    DelimitedParser,
    DelimitedRecords,
    csv_evidence,
    delimited_schema,
    recognise_csv,
    recognise_tsv,
    tsv_evidence,
)
from agent.parsing.formats import LINE_FORMATS, Format, LineFormat, Parser, SourceColumn
from agent.parsing.json_lines import JsonParser, JsonRecords, json_evidence, json_schema, recognise_json
from agent.parsing.native import Clauses

_ROWS = (
    LineFormat(
        "json", JsonParser, JsonRecords, json_evidence, recognise_json, json_schema, has_open_columns=True,
        passing_parser=JsonParser,
    ),
    LineFormat(
        "combined", CombinedParser, CombinedRecords, combined_evidence, recognise_combined, combined_schema,
        fixed_time_field=TIME_FIELD, passing_parser=CombinedParser,
    ),
    LineFormat(
        "csv", DelimitedParser, DelimitedRecords, csv_evidence, recognise_csv, delimited_schema,
        tier=2, quotes_span_lines=True, has_header_line=True,
    ),
    LineFormat(
        "tsv", DelimitedParser, DelimitedRecords, tsv_evidence, recognise_tsv, delimited_schema,
        tier=1, has_header_line=True,
    ),
)  # fmt: skip
LINE_FORMATS.update({row.name: row for row in _ROWS})


def parser(form: Format, columns: Sequence[SourceColumn], clauses: Clauses = ()) -> Parser:
    """The parser of files of this format that reads only the given columns. Events that fail `clauses` are not needed,
    beyond their times: it may pass over them, or not."""
    traits = form.traits
    if clauses and traits.passing_parser is not None:
        return traits.passing_parser(form, columns, clauses)
    return traits.parser(form, columns)
