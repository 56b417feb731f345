"""`elf init` on machines as they are: what it finds, what it writes, and what it leaves alone."""

from __future__ import annotations

import os
import stat
import time
import tomllib
from pathlib import Path

import pytest
from elf_command import elf

from agent import load_config
from elf.setup.nginx import directives, nginx_logs

ROOT = Path(__file__).parents[2]
NGINX = """\
user www-data;
http {
    log_format main '$remote_addr - $remote_user [$time_local] "$request" '
                    '$status $body_bytes_sent "$http_referer" "$http_user_agent"';
    log_format odd '$status # $request';
    access_log /var/log/nginx/access.log;    # the combined format
    include /etc/nginx/conf.d/*.conf;
    include sites-enabled/*;
}
"""
SITE = """\
server {
    server_name "a;b.example"; access_log '/var/log/nginx/${host}.log' main buffer=32k;
    location / { access_log off; }
    location /odd { access_log /var/log/nginx/odd.log odd; }
    location /far { access_log syslog:server=10.0.0.1 main; }
}
"""
LINE = '10.0.0.9 - - [26/Nov/2026:00:00:01 +0000] "GET /a HTTP/1.1" 200 5 "-" "curl/7"\n'


def written(root: Path, name: str, text: str) -> Path:
    path = root / name.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with nginx as Debian installs it, and a log with a line."""
    root = tmp_path / "machine"
    written(root, "/etc/nginx/nginx.conf", NGINX)
    written(root, "/var/log/nginx/access.log", LINE)
    return root


def init(root: Path, *options: str) -> tuple[int, str, str]:
    listen = () if "--listen" in options else ("--listen", "10.0.0.5:7700")
    return elf(root, "init", "--root", str(root), "--output", str(root / "agent.toml"), *listen, *options)


def streams(root: Path) -> dict[str, tuple[list[str], str]]:
    document = tomllib.loads((root / "agent.toml").read_text())
    return {one["name"]: (one["paths"], one["format"]) for one in document.get("streams", [])}


def test_logs_are_found_where_nginx_and_its_included_files_say(machine: Path) -> None:
    written(machine, "/etc/nginx/sites-enabled/shop", SITE)
    written(machine, "/etc/nginx/conf.d/elf.conf", (ROOT / "deploy/nginx/elf.conf").read_text())
    code, _, told = init(machine, "--name", "web-5", "--fleet", "shop", "--seed", "10.0.0.1:7700")
    assert code == 0
    assert streams(machine) == {
        "web": (["/var/log/nginx/access.log", "/var/log/nginx/*.log"], "combined"),
        "web_json": (["/var/log/nginx/elf.json.log"], "json"),
    }
    config = load_config(machine / "agent.toml")
    assert (config.fleet, config.name, config.listen, config.seeds) == (
        "shop", "web-5", "10.0.0.5:7700", ("10.0.0.1:7700",),
    )  # fmt: skip
    assert "nginx: /var/log/nginx/odd.log: left out" in told
    assert "nginx logs to syslog:server=10.0.0.1: an agent reads files" in told


def test_the_query_to_try_gives_a_result(machine: Path) -> None:
    init(machine)
    _, _, told = init(machine, "--force")
    query = told.split('elf local "')[1].split('"')[0]
    code, out, _ = elf(machine, "local", query, "var/log/nginx/access.log", "--output", "csv")
    assert (code, out.splitlines()[-1]) == (0, "200,1")
    assert 'elf query "SELECT status, COUNT(*) AS hits FROM web GROUP BY status WINDOWING 10 SECONDS"' in told


def test_apaches_logs_are_found_by_its_variables_and_formats(tmp_path: Path) -> None:
    written(tmp_path, "/etc/apache2/envvars", "unset HOME\nexport APACHE_LOG_DIR=/var/log/apache2$SUFFIX\n")
    common = 'LogFormat "%h %l %u %t \\"%r\\" %>s %O" common'
    written(tmp_path, "/etc/apache2/apache2.conf", f'{common}\nLogFormat "%v:%p %h %l %u %t \\"%r\\"" vhost\n')
    written(tmp_path, "/etc/apache2/conf-enabled/elf.conf", (ROOT / "deploy/apache/elf.conf").read_text())
    written(tmp_path, "/etc/apache2/sites-enabled/000.conf",
            "<VirtualHost *:80>\n  CustomLog ${APACHE_LOG_DIR}/a.log \\\n    common\n"
            '  CustomLog "|/usr/bin/rotatelogs /var/log/b 86400" common\n'
            "  CustomLog ${APACHE_LOG_DIR}/vhosts.log vhost\n</VirtualHost>\n")  # fmt: skip
    code, _, told = init(tmp_path)
    assert code == 0
    paths = ["/var/log/apache2/elf_access.log", "/var/log/apache2/a.log"]
    assert streams(tmp_path) == {"web": (paths, "combined")}
    assert "apache: /var/log/apache2/vhosts.log: left out" in told
    assert told.count("(vhost_combined) are left out: deploy/apache/elf.conf") == 1
    assert "apache logs to |/usr/bin/rotatelogs" in told


def test_what_a_log_holds_counts_more_than_what_its_configuration_says(machine: Path) -> None:
    written(machine, "/var/log/nginx/access.log", '{"time":"2026-11-26T00:00:01Z","level":"warn"}\n')
    _, _, told = init(machine)
    assert streams(machine) == {"web": (["/var/log/nginx/access.log"], "json")}
    assert "SELECT level, COUNT(*) AS hits FROM web GROUP BY level" in told


def test_logs_are_found_where_they_usually_are_without_any_configuration(tmp_path: Path) -> None:
    written(tmp_path, "/var/log/httpd/shop-access_log", LINE)
    written(tmp_path, "/var/log/nginx/empty-access.log", "")
    init(tmp_path)
    assert streams(tmp_path) == {"web": (["/var/log/httpd/shop-access_log"], "combined")}


def test_a_machine_without_web_server_gets_a_file_to_fill_in(tmp_path: Path) -> None:
    code, _, told = init(tmp_path)
    assert code == 0
    assert streams(tmp_path) == {}
    assert "no access log of nginx or Apache is found" in told


def test_nothing_that_is_set_is_written_over(machine: Path) -> None:
    sample = (ROOT / "deploy/debian/agent.toml").read_text()
    (machine / "agent.toml").write_text(sample)
    assert init(machine)[0] == 0
    before = (machine / "agent.toml").read_text()
    code, _, told = init(machine, "--fleet", "other")
    assert (code, (machine / "agent.toml").read_text()) == (2, before)
    assert "agent.toml is there already: --force writes over it" in told
    assert init(machine, "--fleet", "other", "--force")[0] == 0
    assert 'fleet = "other"' in (machine / "agent.toml").read_text()


def test_the_file_is_not_for_everybody(machine: Path) -> None:
    init(machine)
    assert stat.S_IMODE((machine / "agent.toml").stat().st_mode) == 0o640
    assert sorted(path.name for path in machine.iterdir()) == ["agent.toml", "etc", "var"]


@pytest.mark.parametrize(
    ("option", "value", "complaint"),
    [
        ("--listen", "10.0.0.5", "agent.toml:"),
        ("--name", "a b", "must be letters, digits"),
        ("--seed", "0.0.0.0:1", "stands for every interface"),
        ("--fleet", 'x"\ny', "must be letters, digits"),
    ],
)
def test_what_no_agent_could_start_with_is_refused(machine: Path, option: str, value: str, complaint: str) -> None:
    code, _, told = init(machine, option, value)
    assert code == 1
    assert complaint in told
    assert not (machine / "agent.toml").exists()


def test_hostile_configurations_end_nothing(machine: Path) -> None:
    (machine / "etc/nginx/conf.d").mkdir()
    os.mkfifo(machine / "etc/nginx/conf.d/pipe.conf")
    os.mkfifo(machine / "var/log/nginx/pipe.log")
    (machine / "etc/nginx/conf.d/again.conf").symlink_to("../nginx.conf")
    written(machine, "/etc/nginx/conf.d/binary.conf", 'access_log /var/log/\x1b[31m.log;\naccess_log "unclosed')
    written(
        machine, "/etc/nginx/conf.d/pipe-log.conf", "access_log /var/log/nginx/pipe.log; include /etc/nginx/nginx.conf;"
    )
    code, _, told = init(machine)
    assert code == 0
    assert "\x1b" not in told + (machine / "agent.toml").read_text()
    assert "/var/log/nginx/access.log" in streams(machine)["web"][0]


@pytest.mark.parametrize("text", ["{", '"', "'\\", "${", "'\"", "\\", "#", "include x;", "a b c"])
def test_text_that_is_no_configuration_is_read_in_linear_time(text: str) -> None:
    begun = time.process_time()
    assert len(list(directives(text * 20_000))) <= 20_000
    assert time.process_time() - begun < 2


def test_nginx_that_is_not_there_has_no_logs(tmp_path: Path) -> None:
    assert nginx_logs(tmp_path).logs == ()
