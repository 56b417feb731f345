"""A fleet of the predecessor's agents is upgraded, one server after the other, while a query runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from machines import Machine, wait_until
from web_servers import QUERY, LiveQuery, WebServers, Window, follow_each_other, install, is_active, rows

pytestmark = pytest.mark.sidecar


def version(machine: Machine) -> str:
    return machine.output("dpkg-query", "-W", "-f", "${Version}", "elf-agent")


def is_whole(servers: WebServers, window: Window) -> bool:
    return len(servers.machines) == window["contributors"] and rows(window) == servers.truth(window)


def begins_whole(servers: WebServers, window: Window, after: datetime) -> bool:
    return datetime.fromisoformat(window["window_start"]) >= after and is_whole(servers, window)


def test_an_upgrade_leaves_no_window_out(servers: WebServers, previous: Path, package: Path) -> None:
    """Two of three get the new agent; the query, asked at the third, goes on over old and new ones."""
    for machine in servers.machines:
        install(machine, previous)
    servers.make_fleet(seeds=2)
    old = version(servers.first)
    with servers.traffic(), LiveQuery(servers.machines[1], QUERY) as query:
        query.wait_for(2)
        for machine in (servers.machines[0], servers.machines[2]):
            before = machine.unit("MainPID")
            install(machine, package)
            wait_until(lambda m=machine, b=before: is_active(m) and m.unit("MainPID") not in ("0", b), "the new agent")  # type: ignore[misc]
            back = datetime.now(UTC)
            wait_until(lambda back=back: begins_whole(servers, query.windows[-1], back), "a window with all three", 90)  # type: ignore[misc]
        windows = query.wait_for(3)
    assert follow_each_other(windows)
    less = [window for window in windows[1:] if not is_whole(servers, window)]
    assert all(window["partial"] or window["missing"] or window["expected"] < 3 for window in less), less
    assert all(is_whole(servers, window) for window in windows[-3:])
    new = version(servers.first)
    assert [version(machine) for machine in servers.machines] == [new, old, new]
    assert servers.first.run("dpkg", "--compare-versions", new, "gt", old, check=False).returncode == 0
    print(f"{old} -> {new}: {len(windows)} windows, {len(less)} of them said that an agent was away, none missing")


def test_old_and_new_agents_answer_a_query_asked_at_a_new_one(servers: WebServers) -> None:
    with servers.traffic(), LiveQuery(servers.first, QUERY) as query:
        windows = query.wait_for(3)
    assert follow_each_other(windows)
    assert all(is_whole(servers, window) for window in windows[1:]), windows
