"""Plans are small: each travels to every agent."""

import msgspec
from case_files import read_cases

from query import Schema, analyze, parse

BYTES_MAX = 4_096


def test_plans_of_all_cases_are_at_most_4_kb():
    sizes = {}
    for case in read_cases():
        catalog = {name: Schema(table.columns, open=False) for name, table in case.tables.items()}
        sizes[case.id] = len(msgspec.msgpack.encode(analyze(parse(case.query), catalog).to_wire()))
    assert {id_: size for id_, size in sizes.items() if size > BYTES_MAX} == {}
