"""Costs of work on a machine: measured within a bound, kept as long as they are of it, and measured anew otherwise."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_work import OF_WORK, ticking

from agent.calibration.keeper import CalibrationKeeper
from agent.calibration.machine import FILE_BYTES_MAX, Machine, MachineCosts, keep_costs, measured_costs, read_costs
from query.latency import LinearCost, Phase

HERE = Machine("cpu x2", "0.2.0", "2.1.0")
COSTS = MachineCosts(HERE, {Phase.SEAL: LinearCost(0.004, 0.0, 2e-6, 1e-9, 0.2, 15.0)}, LinearCost(0.01, byte=1e-8))


def test_each_kind_of_work_is_measured(tmp_path: Path) -> None:
    costs = measured_costs(HERE, tmp_path, ticking(0.005), ticking(0.005))
    assert costs.phases.keys() == set(OF_WORK)
    assert all(cost.fixed > 0 and cost.pieces >= 3 for cost in costs.phases.values())
    assert costs.write.fixed > 0
    assert not list(tmp_path.iterdir()), "nothing is left on disk"


def test_a_slow_machine_is_not_worked_on_for_long(tmp_path: Path) -> None:
    costs = measured_costs(HERE, tmp_path, ticking(10.0), ticking(10.0))
    assert costs.phases.keys() == set(OF_WORK)
    assert max(cost.pieces for cost in (*costs.phases.values(), costs.write)) <= 3


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "calibration"
    assert read_costs(path, HERE) == (None, "there is none yet")
    keep_costs(path, COSTS)
    assert read_costs(path, HERE) == (COSTS, "")


@pytest.mark.parametrize("what", ["cpu", "elf", "polars"])
def test_costs_of_another_machine_or_software_are_not_believed(tmp_path: Path, what: str) -> None:
    keep_costs(tmp_path / "calibration", COSTS)
    found, why = read_costs(tmp_path / "calibration", msgspec.structs.replace(HERE, **{what: "new"}))
    assert found is None
    assert why == f"it is of another {what}: {getattr(HERE, what)}"


@pytest.mark.parametrize(
    "change",
    [
        {"form": 2},
        {"phases": {"seal": [-1.0, 0, 0, 0, 0, 1]}},
        {"phases": {"seal": [1e9, 0, 0, 0, 0, 1]}},
        {"phases": {"dance": [0, 0, 0, 0, 0, 1]}},
        {"phases": {"seal": [0, 0]}},
        {"write": None},
        {"more": 1},
    ],
)
def test_a_file_that_cannot_be_is_told_of(tmp_path: Path, change: dict[str, object]) -> None:
    path = tmp_path / "calibration"
    keep_costs(path, COSTS)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    found, why = read_costs(path, HERE)
    assert found is None
    assert why.startswith("calibration is ")


@given(st.one_of(st.binary(max_size=200), st.just(b" " * (FILE_BYTES_MAX + 1)), st.just(b"[" * 50_000)))
def test_any_bytes_are_refused_and_none_raises(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "calibration"
    path.write_bytes(data)
    found, why = read_costs(path, HERE)
    assert found is None
    assert "damaged" in why


def test_an_agent_measures_once_and_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "calibration"
    path.write_text("junk")
    first = CalibrationKeeper(path, lambda: "0.2.0", ticking(0.01))
    with caplog.at_level(logging.INFO):
        first.calibrate()
    assert first.costs is not None
    assert [one.message for one in caplog.records] == ["machine calibrated"]
    assert "calibration is damaged" in caplog.records[0].__dict__["fields"]["why"]
    caplog.clear()
    again = CalibrationKeeper(path, lambda: "0.2.0", ticking(0.01))
    again.calibrate()
    assert again.costs == first.costs
    assert not caplog.records


def test_a_disk_that_takes_nothing_is_said_and_the_agent_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = CalibrationKeeper(tmp_path / "gone" / "calibration", lambda: "0.2.0", ticking(0.01))
    keeper.calibrate()
    assert keeper.costs is None
    assert [one.message for one in caplog.records] == ["machine not calibrated"]
    (tmp_path / "calibration").mkdir()
    keeper = CalibrationKeeper(tmp_path / "calibration", lambda: "0.2.0", ticking(0.01))
    keeper.calibrate()
    assert keeper.costs is not None, "until the agent ends"
    assert caplog.records[-1].message == "calibration is not kept"
