"""The rules and the dashboard of `deploy/` are what Prometheus can read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

promql = pytest.importorskip("promql_parser")
yaml = pytest.importorskip("yaml")
DEPLOY = Path(__file__).parents[2] / "deploy"
INTERVAL = re.compile(r"\$__\w+")
"""Grafana replaces them by a time."""


def test_every_rule_has_a_condition_a_summary_and_an_action() -> None:
    groups = yaml.safe_load((DEPLOY / "prometheus/elf-rules.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len(rules) == len({rule["alert"] for rule in rules}) > 15
    for rule in rules:
        assert str(promql.parse(rule["expr"])), rule["alert"]
        assert rule["annotations"].keys() == {"summary", "action"}
        assert rule["labels"]["severity"] in ("warning", "critical")


def test_every_panel_has_queries() -> None:
    panels = json.loads((DEPLOY / "grafana/elf-fleet.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(queries) >= 15
    for query in queries:
        assert str(promql.parse(INTERVAL.sub("5m", query))), query
