"""The documentation of keys is made of the code that checks them."""

from __future__ import annotations

import re
from pathlib import Path

from agent.configuration.schema import LIVE_KEYS, described_keys, key_table, overrides

DOCUMENT = (Path(__file__).parents[2] / "docs" / "running-agents.md").read_text()


def test_the_documentation_has_the_table_of_keys() -> None:
    assert key_table() in DOCUMENT, "elf config schema --output markdown prints the table for docs/running-agents.md"


def test_every_key_has_a_meaning_of_its_own() -> None:
    keys = described_keys()
    assert [key.path for key in keys if not key.meaning] == []
    assert len({key.meaning for key in keys}) == len({key.path for key in keys}) == len(keys)


def test_every_variable_belongs_to_one_key() -> None:
    variables = [key.variable for key in described_keys() if key.variable]
    assert sorted(variables) == sorted(overrides())
    assert len(set(variables)) == len(variables)


def test_keys_that_change_without_a_restart_are_marked() -> None:
    assert {key.path.partition(".")[0] for key in described_keys() if key.is_live} == LIVE_KEYS.keys()


def test_a_configuration_names_secrets_and_holds_none() -> None:
    suspect = re.compile("password|secret|token|credential")
    assert [key.path for key in described_keys() if suspect.search(key.path) and not key.path.endswith("_file")] == []
