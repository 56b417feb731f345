"""Every case of tests/query/rewrites, a file a rule: what the rule makes of a query is the other query's plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from query import Schema, analyze_with_rules, parse
from query.model.expression import Operation
from query.optimizer import RULES, Rewriting, Rule, rewrite

FOLDER = Path(__file__).parent / "rewrites"
CATALOG = {
    "web": Schema(
        {"s": "string", "t": "string", "n": "integer", "m": "integer", "x": "number", "b": "boolean",
         "at": "timestamp"}, open=False,
    )
}  # fmt: skip
TIDYING = tuple(rule for rule in RULES if rule.name in ("each_aggregate_once", "prune_columns"))


def cases():
    for rule in RULES:
        for block in (FOLDER / f"{rule.name}.elf").read_text(encoding="utf-8").strip().split("\n\n"):
            title, before, after = block.split("\n")
            yield pytest.param(rule, before, after.removeprefix("-> "), id=f"{rule.name}: {title.removeprefix('-- ')}")


def plan(text, *rules):
    plan = analyze_with_rules(parse(text), CATALOG, rules=rules).plan
    columns = tuple(sorted(plan.columns, key=lambda column: column.name))
    return replace(plan, columns=columns, output=tuple(replace(one, name=f"c{n}") for n, one in enumerate(plan.output)))


@pytest.mark.parametrize(("rule", "before", "after"), list(cases()))
def test_rule(rule, before, after):
    if after == "the same":
        assert analyze_with_rules(parse(before), CATALOG, rules=[rule]).fired == ()
        return
    rewriting = analyze_with_rules(parse(before), CATALOG, rules=[rule])
    assert rewriting.fired == (rule,)
    assert plan(before, rule, *TIDYING) == plan(after, *TIDYING)
    assert analyze_with_rules(parse(after), CATALOG, rules=[rule]).fired == (), "what it made, it would change again"


def test_what_the_other_rules_leave_without_use_is_not_read():
    text = "SELECT s, IF(1 < 2, 'few', MAX(t)) AS u FROM web WHERE m = 1 OR 2 > 1 GROUP BY s HAVING n % 2 >= 0 OR TRUE"
    text = text.replace("HAVING n % 2 >= 0 OR TRUE", "HAVING MAX(n) >= 0 OR TRUE")
    rewriting = analyze_with_rules(parse(text), CATALOG)
    assert [column.name for column in rewriting.plan.columns] == ["s"]
    assert rewriting.plan.aggregates == ()
    assert {rule.name for rule in rewriting.fired} == {
        "fold_constants", "simplify", "each_aggregate_once", "prune_columns",
    }  # fmt: skip


def test_a_rule_does_nothing_beyond_the_limits_of_plans():
    def nest(plan):
        where = plan.where
        for _ in range(250):
            where = Operation("not", (where,), "boolean")
        return replace(plan, where=where)

    written = analyze_with_rules(parse("SELECT COUNT(*) FROM web WHERE b"), CATALOG).plan
    assert rewrite(written, [Rule("nest", "it goes deeper than agents read", nest)]) == Rewriting(written, ())
