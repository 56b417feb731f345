"""Eight real agents whose master decides where windows are merged, by what they measure, and who are killed then."""

from __future__ import annotations

import pytest
from agent_process import eventually
from elf_process import elf
from test_moved_groups_live import APP, ASKED, MASTER, NEW, Stage
from test_moved_groups_live import stage as stage

from agent.runtime.master.owners.deciding import KEPT_S

pytestmark = [pytest.mark.live, pytest.mark.slow]


def test_decisions_are_made_of_what_agents_measure_and_outlive_those_who_are_killed(stage: Stage) -> None:
    """Whatever is decided on this machine: all of it is shown, and no window is the worse for it."""
    mark = len(stage.watch.windows) - 1
    stage.watch.wait_for("decisions", lambda came: came.at_s > stage.watch.windows[mark].at_s + KEPT_S + 15, after=mark)
    eventually(lambda: all(one.cost_s for one in stage.placement().decisions), "statistics are there")
    told = stage.placement()
    merging = told.decisions[-1]
    assert merging.other_s is not None
    rows = {one.what: one.value for one in told.measured}["rows/s"]
    assert 1_600 < rows < 6_400, "3,200 lines a second are written"
    shown = elf("place", APP, "--socket", str(stage.fleet.socket(ASKED))).out
    assert merging.choice in shown
    for name in (NEW, MASTER):
        killed = len(stage.watch.windows)
        stage.fleet.kill(name)
        stage.watch.wait_for(
            f"a window without {name}", lambda came, name=name: name in came.result.missing, after=killed
        )
        stage.fleet.restart(name)
        stage.until_whole(len(stage.watch.windows))
    silence_s = stage.check(mark)
    lines = [one.text for one in stage.client().log(APP).lines if one.text.startswith("windows are merged")]
    print(shown, *lines, f"between two windows: {silence_s:.1f} s at most", sep="\n")
