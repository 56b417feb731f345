"""Agents' code in the regions: its states are combined by ranges of hashes, within limits, on a cluster too."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from case_archives import archived_lines
from spark_answers import haste

from elf.batch.query import coprocessor as regions
from elf.batch.query.run import BatchOptions, BatchRun
from elf.batch.table.table import ArchiveTable
from elf.errors import ElfError
from elf.local import LocalOptions, LocalRun, LocalSource

pytestmark = pytest.mark.spark

LINES = [json.dumps({"user": f"User {number * number % 701}", "ms": number % 97}) for number in range(4_000)]
BY_USER = "SELECT LOWER(user) AS who, COUNT(*), SUM(ms), COUNT(DISTINCT ms) FROM web GROUP BY who"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return archived_lines(tmp_path_factory.mktemp("regions") / "store", "web", LINES, 0, segments=4)


@pytest.fixture
def table(spark, store):
    with haste(spark):
        yield ArchiveTable.open(spark, [str(store)])


def answered(table, options=None):
    return [json.loads(result.to_json()) for result in BatchRun(BY_USER, table, options or BatchOptions()).results()]


def answered_locally(folder, **limits):
    (folder / "web.log").write_text("".join(line + "\n" for line in LINES))
    run = LocalRun(BY_USER, [LocalSource("web", (str(folder / "web.log"),))], LocalOptions(0, **limits))
    return [json.loads(result.to_json()) | {"app": "batch"} for result in run.results()]


@pytest.mark.parametrize("bytes_per_tree", [regions.BYTES_PER_TREE, 1])
def test_shuffled_or_not_the_states_are_the_same(table, tmp_path, monkeypatch, bytes_per_tree):
    monkeypatch.setattr(regions, "BYTES_PER_TREE", bytes_per_tree)
    assert answered(table) == answered_locally(tmp_path)


@pytest.mark.parametrize("bytes_per_tree", [regions.BYTES_PER_TREE, 1])
def test_of_too_many_groups_all_others_are_one(table, tmp_path, monkeypatch, bytes_per_tree):
    monkeypatch.setattr(regions, "BYTES_PER_TREE", bytes_per_tree)
    (result,) = answered(table, BatchOptions(max_groups=60))
    assert [result] == answered_locally(tmp_path, max_groups=60)
    assert result["other"]["kept"] == 60


def test_too_many_groups_can_be_an_error(table):
    with pytest.raises(ElfError, match="more than the 60 it may have"):
        answered(table, BatchOptions(max_groups=60, beyond_groups="error"))


@pytest.mark.slow  # what runs in processes of a cluster runs in those of a local session by default
def test_a_cluster_runs_agents_code(cluster, store, tmp_path):
    command = [sys.executable, "-m", "elf", "batch", "run", BY_USER, "--archive", str(store), "--output", "json"]
    ran = subprocess.run([*command, "--master", cluster.master], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [json.loads(line) for line in ran.stdout.splitlines()] == answered_locally(tmp_path)
