"""The life of an agent as a sidecar: installed, set up, asked, reloaded, killed, stalled, removed.

Real machines (systemd, dpkg, Debian's nginx), real traffic; the answers are held against the servers' own logs. The
steps build on each other: `make test-sidecar` stops at the first that fails.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from machines import Machine, wait_until
from web_servers import (
    CONFIGURATION,
    HOSTILE_AGENT,
    QUERY,
    LiveQuery,
    WebServers,
    follow_each_other,
    install,
    is_active,
    rows,
)

pytestmark = pytest.mark.sidecar
DEPLOY = Path(__file__).parents[2] / "deploy"
SNIPPETS = {
    "nginx/elf.conf": "/etc/nginx/conf.d/elf.conf",
    "rsyslog/30-elf-web.conf": "/etc/rsyslog.d/30-elf-web.conf",
    "logrotate/elf-web": "/etc/logrotate.d/elf-web",
}
JOB = """\
import elf


class Counts(elf.Job):
    query = "SELECT status, COUNT(*) AS n FROM web GROUP BY status WINDOWING 2 SECONDS GRACE 1 SECOND"

    def on_result(self, window):
        try:
            open("/etc/passwd")
        except PermissionError:
            self.log(f"contained, {sum(row['n'] for row in window.rows)} seen")
"""


def failed_once(machine: Machine, fault: str) -> bool:
    """Whether the unit has failed for good, with the fault in its journal once."""
    wait_until(lambda: machine.unit("ActiveState") == "failed", "a failed unit", 20)
    restarts, invocation = machine.unit("NRestarts"), machine.unit("InvocationID")
    said = machine.output("journalctl", "--no-pager", "-o", "cat", f"_SYSTEMD_INVOCATION_ID={invocation}")
    return restarts == "0" and len(re.findall(fault, said)) == 1


def test_the_package_makes_user_folders_and_configuration_and_names_the_next_steps(
    servers: WebServers, package: Path
) -> None:
    for machine in servers.machines:
        said = install(machine, package)
        assert re.search(r"1\. elf agent enroll .* && elf init .*2\. systemctl enable --now elf-agent", said, re.DOTALL)
    web = servers.first
    assert web.output("stat", "-c", "%U %G %a", "/etc/elf", "/var/lib/elf").split("\n") == [
        "root elf 2750",
        "elf elf 750",
    ]
    assert web.unit("ActiveState") == "inactive"
    assert web.output("elf", "--version").startswith("elf, version ")
    for place in ("man/man1/elf-query.1.gz", "bash-completion/completions/elf", "zsh/vendor-completions/_elf"):
        assert web.path(f"/usr/share/{place}").stat().st_size > 100


def test_the_unit_is_as_hard_as_promised(servers: WebServers) -> None:
    verified = servers.first.run("systemd-analyze", "verify", "--man=no", "elf-agent.service")
    assert verified.stdout + verified.stderr == ""
    servers.first.run("systemd-analyze", "security", "--threshold=20", "elf-agent.service")


def test_a_machine_without_certificate_says_what_is_missing(servers: WebServers) -> None:
    web = servers.first
    found = web.run("elf", "init")
    assert "nginx: /var/log/nginx/access.log: combined" in found.stderr
    assert "elf query" in found.stderr
    assert web.run("systemctl", "start", "elf-agent", check=False).returncode != 0
    assert failed_once(web, r"agent\.toml:\d+: identity\.ca: /etc/elf/ca\.pem: No such file")


def test_three_agents_make_a_fleet(servers: WebServers) -> None:
    servers.make_fleet()
    for machine in servers.machines:
        wait_until(lambda machine=machine: "in fleet web" in machine.unit("StatusText"), "the status of the unit")  # type: ignore[misc]


def test_the_fleet_answers_under_traffic_as_the_servers_have_logged(servers: WebServers) -> None:
    with servers.traffic(), LiveQuery(servers.machines[1], QUERY) as query:
        windows = query.wait_for(4)
        assert follow_each_other(windows)
        for window in windows[1:]:
            assert (window["contributors"], window["expected"], window["malformed"]) == (3, 3, 0)
            assert rows(window) == servers.truth(window)
            assert set(rows(window)) == {200, 404}


def test_a_faulty_configuration_fails_the_reload_and_changes_nothing(servers: WebServers) -> None:
    web = servers.first
    before = web.unit("MainPID")
    good = web.path(CONFIGURATION).read_text()
    web.path(CONFIGURATION).write_text(good.replace("[[streams]]", "[[streamz]]", 1))
    assert web.run("systemctl", "reload", "elf-agent", check=False).returncode != 0
    assert re.search(r"agent\.toml:\d+: streamz: unknown key", web.journal())
    assert (is_active(web), web.unit("MainPID")) == (True, before)
    web.path(CONFIGURATION).write_text(good)


def test_a_reload_puts_a_new_stream_in_force_without_a_restart(servers: WebServers) -> None:
    web = servers.first
    before = web.unit("MainPID")
    more = web.path("/etc/elf/conf.d/more.toml")
    more.parent.mkdir(exist_ok=True)
    more.write_text('[[streams]]\nname = "old"\npaths = ["/var/log/nginx/access.log.*"]\n')
    web.run("systemctl", "reload", "elf-agent")
    assert {stream["name"] for stream in web.status()["streams"]} == {"web", "old"}
    more.unlink()
    web.run("systemctl", "reload", "elf-agent")
    assert {stream["name"] for stream in web.status()["streams"]} == {"web"}
    assert (is_active(web), web.unit("MainPID")) == (True, before)


def test_a_configuration_that_breaks_between_check_and_start_is_said_once(servers: WebServers) -> None:
    web = servers.first
    good = web.path(CONFIGURATION).read_text()
    drop_in = web.path("/etc/systemd/system/elf-agent.service.d/breaks.conf")
    drop_in.parent.mkdir(parents=True, exist_ok=True)
    drop_in.write_text(f"[Service]\nExecStartPre=+/bin/sed -i s/streams/streamz/ {CONFIGURATION}\n")
    web.run("systemctl", "daemon-reload")
    assert web.run("systemctl", "restart", "elf-agent", check=False).returncode != 0
    assert failed_once(web, r"agent\.toml:\d+: streamz: unknown key")
    drop_in.unlink()
    web.path(CONFIGURATION).write_text(good)
    web.run("systemctl", "daemon-reload")
    web.run("systemctl", "start", "elf-agent")
    assert is_active(web)
    assert '"first of the fleet"' not in web.journal().rpartition('"starting"')[2]  # without seeds, by its neighbours
    wait_until(lambda: len(web.status()["leaf_set"]) == 2, "the fleet that it was in", 10)


def test_a_member_of_elf_admin_operates_and_a_stranger_is_not_let_in(servers: WebServers) -> None:
    web = servers.first
    for command in (
        ("useradd", "ann"),
        ("usermod", "-aG", "elf-admin", "ann"),
        ("useradd", "eve"),
    ):
        web.run(*command)
    assert "operate" in web.output("runuser", "-u", "ann", "--", "elf", "rights")
    web.run("runuser", "-u", "ann", "--", "elf", "reload")
    refused = web.run("runuser", "-u", "eve", "--", "elf", "status", check=False)
    assert refused.returncode != 0
    assert "not permitted" in refused.stderr


def test_a_stop_hands_over_and_leaves_no_window_out(servers: WebServers) -> None:
    leaver = servers.machines[2]
    with servers.traffic(), LiveQuery(servers.machines[1], QUERY) as query:
        query.wait_for(2)
        leaver.run("systemctl", "stop", "elf-agent")
        wait_until(lambda: query.windows[-1]["expected"] == 2, "a window that does not expect it", 60)
        windows = query.windows
    assert follow_each_other(windows)
    assert (leaver.unit("ActiveState"), leaver.unit("Result"), leaver.unit("ExecMainStatus")) == (
        "inactive",
        "success",
        "0",
    )
    said = leaver.journal()
    assert said.rindex('"leaving"') < said.rindex('"ended"')
    assert "left before everything was handed over" not in said
    leaver.run("systemctl", "start", "elf-agent")


def test_an_agent_lives_on_while_its_disk_is_full_and_when_it_fails(servers: WebServers) -> None:
    victim, state = servers.machines[2], "/var/lib/elf"
    victim.run("systemctl", "stop", "elf-agent")
    with victim.small_disk(state) as fail:
        victim.run("systemctl", "start", "elf-agent")
        before = victim.unit("MainPID")
        with servers.traffic(), LiveQuery(servers.machines[1], QUERY) as query:
            query.wait_for(2)
            victim.run("dd", "if=/dev/zero", f"of={state}/filler", check=False)
            query.wait_for(3)
            doctor = victim.run("elf", "doctor", check=False).stdout
            assert re.search(r"FAULT +disk of data_directory: 0\.0 GiB free", doctor), doctor
            wait_until(lambda: "o space left on device" in victim.journal(), "a line about the full disk")
            fail()
            query.wait_for(3)
            doctor = victim.run("elf", "doctor", check=False).stdout
            assert f"FAULT  data_directory: {state} is read-only" in doctor, doctor
            wait_until(lambda: "ead-only file system" in victim.journal(), "a line about the read-only disk")
            windows = query.wait_for(3)
        assert (is_active(victim), victim.unit("MainPID")) == (True, before)
        victim.run("systemctl", "stop", "elf-agent")
    assert follow_each_other(windows)
    assert [window for window in windows[1:] if rows(window) != servers.truth(window)] == []
    assert len(re.findall("o space left on device|ead-only file system", victim.journal())) < 40
    victim.run("rm", f"{state}/filler")
    victim.run("systemctl", "start", "elf-agent")


def test_a_killed_agent_is_started_again_and_nothing_is_lost(servers: WebServers) -> None:
    victim = servers.machines[2]
    with servers.traffic(), LiveQuery(servers.machines[1], QUERY) as query:
        query.wait_for(2)
        before = victim.unit("MainPID")
        victim.run("kill", "-KILL", before)
        wait_until(lambda: is_active(victim) and victim.unit("MainPID") != before, "the agent is there again")
        windows = query.wait_for(5)
    assert follow_each_other(windows)
    for window in windows[1:]:
        assert rows(window) == servers.truth(window), window
        assert window["missing"] == []


def test_an_agent_that_stands_still_is_ended_by_the_watchdog(servers: WebServers) -> None:
    victim = servers.machines[2]
    drop_in = victim.path("/etc/systemd/system/elf-agent.service.d/watchdog.conf")
    drop_in.parent.mkdir(parents=True, exist_ok=True)
    drop_in.write_text("[Service]\nWatchdogSec=4\nTimeoutAbortSec=1\n")
    victim.run("systemctl", "daemon-reload")
    victim.run("systemctl", "restart", "elf-agent")
    before = victim.unit("MainPID")
    victim.run("kill", "-STOP", before)
    wait_until(lambda: is_active(victim) and victim.unit("MainPID") not in ("0", before), "another agent")
    assert "Watchdog timeout" in victim.journal()
    drop_in.unlink()
    victim.run("systemctl", "daemon-reload")
    victim.run("systemctl", "restart", "elf-agent")


def test_programs_of_jobs_are_contained_under_the_unit(servers: WebServers) -> None:
    web = servers.first
    own = "/root/.config/elf/creator"
    web.run("elf", "creator", "init", "maria")
    web.run(
        "elf",
        "creator",
        "trust",
        f"{own}/creator.pub",
        "--name",
        "maria",
        "--ca",
        "/srv/web-ca",
        "--out",
        f"{own}/creator.pem",
    )
    web.path("/srv/counts.py").write_text(JOB)
    with servers.traffic():
        web.run("elf", "submit", "/srv/counts.py")
        wait_until(lambda: "contained, " in web.output("elf", "logs", "counts"), "a line of the job", 60)
    web.run("elf", "stop", "counts")


def test_snippets_for_servers_make_logs_that_agents_read(servers: WebServers) -> None:
    web = servers.machines[1]
    for name, place in SNIPPETS.items():
        shutil.copy(DEPLOY / name, web.path(place))
    web.path("/etc/nginx/conf.d/syslog.conf").write_text(
        "access_log syslog:server=unix:/dev/log,nohostname,tag=elf_web,severity=info elf_json;\n"
    )
    site = web.path("/etc/nginx/sites-enabled/default")
    site.unlink()
    web.path("/etc/nginx/conf.d/site.conf").write_text("server { listen 80; root /var/www/html; }\n")
    web.run("nginx", "-t")
    web.run("systemctl", "restart", "rsyslog", "nginx")
    with servers.traffic():
        for log in ("/var/log/nginx/elf.json.log", "/var/log/web/access.log"):
            wait_until(lambda log=log: web.path(log).exists() and web.path(log).stat().st_size > 10_000, log)  # type: ignore[misc]
    web.run("logrotate", "--force", "/etc/logrotate.d/elf-web")
    for log in ("/var/log/nginx/elf.json.log", "/var/log/web/access.log.1"):
        lines = web.path(log).read_bytes().splitlines()
        assert {json.loads(line)["http_user_agent"] for line in lines} == {HOSTILE_AGENT}
        query = "SELECT status, COUNT(*) AS hits, MAX(request_time) AS slowest FROM logs GROUP BY status"
        found = web.output("elf", "local", query, log, "--output", "json")
        assert json.loads(found)["malformed"] == 0
        assert sum(row["hits"] for row in json.loads(found)["rows"]) == len(lines)
    wait_until(lambda: web.path("/var/log/web/access.log").exists(), "a new log")
    found = web.run("elf", "init", "--output", "-")
    assert "/var/log/nginx/elf.json.log" in found.stdout
    assert "nginx logs to syslog:" in found.stderr


def test_removal_keeps_what_a_purge_takes_away(servers: WebServers) -> None:
    web = servers.first
    web.run("dpkg", "--remove", "elf-agent")
    assert not web.path("/usr/lib/elf").exists()
    assert web.path(CONFIGURATION).exists()
    assert web.path("/var/lib/elf/incarnation").exists()
    assert web.output("systemctl", "is-active", "nginx") == "active"
    web.run("dpkg", "--purge", "elf-agent")
    for place in ("/etc/elf", "/var/lib/elf", "/run/elf", "/usr/share/doc/elf-agent", "/usr/bin/elf"):
        assert web.run("test", "-e", place, check=False).returncode == 1, place
    assert web.run("getent", "passwd", "elf", check=False).returncode != 0
    assert web.run("getent", "group", "elf", check=False).returncode != 0
    assert web.run("systemctl", "cat", "elf-agent.service", check=False).returncode != 0
    assert web.run("dpkg-query", "-W", "elf-agent", check=False).returncode != 0
