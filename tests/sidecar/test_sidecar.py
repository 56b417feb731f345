"""The life of an agent as a sidecar: installed, set up, asked, killed, stalled, reloaded, upgraded, removed.

Real machines (systemd, dpkg, Debian's nginx), real traffic; the answers are held against the servers' own logs. The
steps build on each other: `make test-sidecar` stops at the first that fails.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
from pathlib import Path

import pytest
from machines import Machine, wait_until
from web_servers import HOSTILE_AGENT, LiveQuery, WebServers, follow_each_other, rows

pytestmark = pytest.mark.sidecar
QUERY = "SELECT status, COUNT(*) AS hits FROM web GROUP BY status WINDOWING 3 SECONDS GRACE 10 SECONDS"
DEPLOY = Path(__file__).parents[2] / "deploy"
SNIPPETS = {
    "nginx/elf.conf": "/etc/nginx/conf.d/elf.conf",
    "rsyslog/30-elf-web.conf": "/etc/rsyslog.d/30-elf-web.conf",
    "logrotate/elf-web": "/etc/logrotate.d/elf-web",
}
ENROLMENT_PORT = 7699
CONFIGURATION = "/etc/elf/agent.toml"
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


def install(machine: Machine, package: Path) -> str:
    """Installs a package as apt would once it has the file; returns what was said."""
    shutil.copy(package, machine.path(f"/srv/{package.name}"))
    return machine.run("dpkg", "--force-unsafe-io", "--install", f"/srv/{package.name}").stdout


def listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True


def is_active(machine: Machine) -> bool:
    return machine.unit("ActiveState") == "active"


def test_the_package_makes_user_folders_and_configuration_and_names_the_next_steps(
    servers: WebServers, previous: Path
) -> None:
    for machine in servers.machines:
        said = install(machine, previous)
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
    assert re.search(r"agent\.toml:\d+: identity\.ca: /etc/elf/ca\.pem: No such file", web.journal())
    web.run("systemctl", "stop", "elf-agent")  # it would be started again


def test_three_agents_make_a_fleet(servers: WebServers) -> None:
    web = servers.first
    web.run("elf", "ca", "init", "/srv/web-ca", "--fleet", "web", "--no-password")
    with web.running("elf", "ca", "serve", "/srv/web-ca", "--listen", web.address):
        wait_until(lambda: listens(web.address, ENROLMENT_PORT), "the authority admits agents")
        for machine in servers.machines:
            token = web.output("elf", "ca", "token", "/srv/web-ca")
            machine.run("elf", "agent", "enroll", f"{token}@{web.address}")
    for machine in servers.machines:
        seeds = [] if machine is web else ["--seed", f"{web.address}:7700"]
        machine.run("elf", "init", "--force", "--listen", f"{machine.address}:7700", *seeds)
        assert machine.output("elf", "config", "check", CONFIGURATION) == "ok"
        machine.run("systemctl", "enable", "--now", "elf-agent")
        assert is_active(machine)
        wait_until(lambda machine=machine: "in fleet web" in machine.unit("StatusText"), "the status of the unit")  # type: ignore[misc]
    wait_until(lambda: len(web.status()["leaf_set"]) == 2, "three agents that know each other")


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


def test_an_upgrade_leaves_no_window_out(servers: WebServers, package: Path) -> None:
    with servers.traffic(), LiveQuery(servers.machines[1], QUERY) as query:
        query.wait_for(2)
        for machine in (servers.machines[0], servers.machines[2]):
            before = machine.unit("MainPID")
            install(machine, package)
            wait_until(lambda m=machine, b=before: is_active(m) and m.unit("MainPID") not in ("0", b), "the new agent")  # type: ignore[misc]
            query.wait_for(2)
        windows = query.wait_for(5)
    assert follow_each_other(windows)
    less = [window for window in windows[1:] if rows(window) != servers.truth(window)]
    assert all(window["partial"] or window["missing"] or window["expected"] < 3 for window in less), less
    assert windows[-1]["contributors"] == 3
    assert rows(windows[-1]) == servers.truth(windows[-1])


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
