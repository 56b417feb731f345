"""`agent.toml`: what a person gets told, key by key and line by line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.access.rules import AccessRole, AccessRule
from agent.configuration.access import ClientsConfig
from agent.configuration.config import (
    ArchiveConfig,
    Config,
    ConfigError,
    MetricsConfig,
    load_config,
)

GOOD = """\
fleet = "shop"
name = "agent-5"
listen = "127.0.0.1:7705"
seeds = ["127.0.0.1:7701", "[::1]:7702"]
data_directory = "data"

[identity]
ca = "ca.crt"
certificate = "/etc/elf/agent.crt"
key = "agent.key"

[[streams]]
name = "web"
paths = ["/var/log/nginx/access.log*", "logs/*.json"]
"""


def faults(folder: Path, text: str | bytes) -> list[str]:
    """The faults of a configuration, without the path before the line."""
    path = folder / "agent.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert all(line.startswith(str(path)) for line in caught.value.lines)
    return [line.removeprefix(str(path)) for line in caught.value.lines]


def loaded(folder: Path, text: str) -> Config:
    path = folder / "agent.toml"
    path.write_text(text)
    return load_config(path)


def test_a_good_file_is_read_with_its_defaults(tmp_path: Path) -> None:
    config = loaded(tmp_path, GOOD)
    assert (config.fleet, config.name, config.listen, config.log_level) == (
        "shop", "agent-5", "127.0.0.1:7705", "info",
    )  # fmt: skip
    assert config.advertise is None
    assert config.job_memory_bytes == 256 << 20
    assert config.spill_disk_bytes == 16 << 30
    assert config.sealed_disk_bytes == 1 << 30
    assert config.program_memory_bytes == 1 << 30
    assert config.seeds == ("127.0.0.1:7701", "[::1]:7702")
    assert config.data_directory == tmp_path / "data"
    assert config.control_socket == tmp_path / "data" / "control.sock"
    assert config.identity.ca == tmp_path / "ca.crt"
    assert config.identity.certificate == Path("/etc/elf/agent.crt")
    (stream,) = config.streams
    assert stream.source.locations == ("/var/log/nginx/access.log*", f"{tmp_path}/logs/*.json")
    assert (stream.name, stream.format, stream.time_field, stream.read_from) == ("web", "auto", None, "end")


@pytest.mark.parametrize(("text", "size"), [("1 MiB", 1 << 20), ("2048KiB", 2 << 20), ("1.5 GiB", 3 << 29)])
def test_memory_is_said_in_binary_units(tmp_path: Path, text: str, size: int) -> None:
    assert loaded(tmp_path, f'job_memory = "{text}"\n{GOOD}').job_memory_bytes == size


@pytest.mark.parametrize(("text", "skew_ms"), [("0 s", 0), ("500 ms", 500), ("60s", 60_000)])
def test_the_skew_of_clocks_is_a_time(tmp_path: Path, text: str, skew_ms: int) -> None:
    assert loaded(tmp_path, GOOD).max_skew_ms == 2000
    assert loaded(tmp_path, f'max_skew = "{text}"\n{GOOD}').max_skew_ms == skew_ms


@pytest.mark.parametrize(("text", "heal_ms"), [("0 s", 0), ("60s", 60_000), ("3600 s", 3_600_000)])
def test_panes_are_kept_for_a_time(tmp_path: Path, text: str, heal_ms: int) -> None:
    assert loaded(tmp_path, GOOD).heal_ms == 300_000
    assert loaded(tmp_path, f'heal_retention = "{text}"\n{GOOD}').heal_ms == heal_ms


def test_copies_and_racks(tmp_path: Path) -> None:
    config = loaded(tmp_path, GOOD)
    assert (config.copies, config.rack) == (2, None)
    config = loaded(tmp_path, f'copies = 0\nrack = "b-7"\n{GOOD}')
    assert (config.copies, config.rack) == (0, "b-7")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    mark = "\ufeff"
    assert loaded(tmp_path, mark + GOOD).fleet == "shop"
    assert faults(tmp_path, mark + GOOD.replace("seeds", "seed")) == [":4: seed: unknown key (did you mean seeds?)"]
    assert faults(tmp_path, f'{mark}a = 1\nb = "'.encode() + b"\xff")[0].startswith(":2: is not UTF-8 text")


def test_addresses_are_spelled_one_way(tmp_path: Path) -> None:
    text = GOOD.replace(":7705", ":07705").replace('"[::1]:7702"', '"localhost:07701", "127.0.0.1:07701"', 1)
    config = loaded(tmp_path, text)
    assert (config.listen, config.seeds) == ("127.0.0.1:7705", ("127.0.0.1:7701", "localhost:7701"))


def test_the_folder_of_the_file_is_no_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "shop [a]*"
    folder.mkdir()
    (pattern,) = loaded(folder, GOOD.replace('"/var/log/nginx/access.log*", ', "")).streams[0].source.locations
    assert pattern == f"{tmp_path}/shop [[]a][*]/logs/*.json"


def test_the_example_is_a_good_file() -> None:
    config = load_config(Path(__file__).parents[2] / "deploy" / "agent.toml.example")
    assert len(config.streams) == 2


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", ":15: metrics: has one of listen"),
        ('listen = "127.0.0.1:9477"\nsocket = "m.sock"\n', ":15: metrics: has one of listen"),
        ('listen = "127.0.0.1:7705"\n', ":16: metrics.listen: 127.0.0.1:7705 is where other agents connect"),
        ('listen = "127.0.0.1:0"\n', ":16: metrics.listen: '127.0.0.1:0': a port is a number"),
        ('socket = "data/control.sock"\n', ":16: metrics.socket: "),
        (f'socket = "{"s" * 120}"\n', ":16: metrics.socket: "),
    ],
)
def test_metrics_have_one_place_of_their_own(tmp_path: Path, text: str, fault: str) -> None:
    (found,) = faults(tmp_path, f"{GOOD}[metrics]\n{text}")
    assert found.startswith(fault)


def test_metrics_are_served_at_an_address_or_a_socket(tmp_path: Path) -> None:
    assert loaded(tmp_path, GOOD).metrics is None
    listening = loaded(tmp_path, f'{GOOD}[metrics]\nlisten = "127.0.0.1:9477"\n').metrics
    assert listening == MetricsConfig("127.0.0.1:9477", None)
    assert loaded(tmp_path, f'{GOOD}[metrics]\nsocket = "m.sock"\n').metrics == MetricsConfig(None, tmp_path / "m.sock")


def test_tables_are_files_by_name(tmp_path: Path) -> None:
    table = '[tables.products]\nfile = "products.csv"\n'
    (found,) = loaded(tmp_path, GOOD + table).tables
    assert (found.name, found.path, found.format) == ("products", str(tmp_path / "products.csv"), "auto")
    assert faults(tmp_path, GOOD + table.replace("file", "fiel")) == [
        ":15: tables.products.file: is missing",
        ":16: tables.products.fiel: unknown key (did you mean file?)",
    ]
    assert faults(tmp_path, GOOD + table + 'format = "combined"\n') == [
        ":17: tables.products.format: 'combined' is none of auto, json, csv, tsv"
    ]


def test_rules_of_access_and_where_clients_ask(tmp_path: Path) -> None:
    assert (loaded(tmp_path, GOOD).access, loaded(tmp_path, GOOD).clients) == ((), None)
    rule = '[[access]]\nrole = "query"\ngroups = ["web-team"]\nusers = ["33"]\napps = []\n'
    clients = '[clients]\nlisten = "0.0.0.0:7801"\n'
    config = loaded(tmp_path, GOOD + rule + clients)
    assert config.access == (AccessRule(AccessRole.QUERY, users=("33",), groups=("web-team",), apps=()),)
    assert config.clients == ClientsConfig("0.0.0.0:7801", 64)
    assert faults(tmp_path, GOOD + rule.replace("query", "admin").replace("groups", "gruops") + clients) == [
        ":16: access[0].role: 'admin' is none of read, query, operate",
        ":17: access[0].gruops: unknown key (did you mean groups?)",
    ]
    assert faults(tmp_path, GOOD + '[[access]]\nrole = "read"\nusers = []\n') == [
        ":15: access[0]: names nobody: give it users, groups or creators"
    ]
    assert faults(tmp_path, GOOD + rule + clients.replace("0.0.0.0:7801", "127.0.0.1:7705")) == [
        ":21: clients.listen: is where other agents connect (listen): choose another port"
    ]
    assert faults(tmp_path, GOOD + clients.replace("7801", "0") + "connections = 0\n") == [
        ":16: clients.listen: '0.0.0.0:0': a port is a number from 1 to 65535",
        ":17: clients.connections: expected `int` >= 1",
    ]


def test_an_archive_is_there_if_its_section_is(tmp_path: Path) -> None:
    assert loaded(tmp_path, GOOD).archive is None
    assert loaded(tmp_path, GOOD + "[archive]\n").archive == ArchiveConfig(tmp_path / "archive", 30.0, 1 << 30, ("*",))
    keys = 'directory = "/srv/rows"\nkeep_days = 0.5\ndisk_free_min = "5 MiB"\nstreams = ["web", "api-*"]\n'
    found = loaded(tmp_path, f"{GOOD}[archive]\n{keys}").archive
    assert found == ArchiveConfig(Path("/srv/rows"), 0.5, 5 << 20, ("web", "api-*"))


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ('directory = ""', ":16: archive.directory: must not be empty"),
        ("keep_days = 0", ":16: archive.keep_days: 0 is no number of days from just above 0 to 36,500"),
        ("keep_days = nan", ":16: archive.keep_days: nan is no number of days from just above 0 to 36,500"),
        ('keep_days = "7"', ":16: archive.keep_days: must be a whole number or a number, not text in quotes"),
        ('disk_free_min = "1 GB"', ":16: archive.disk_free_min: '1 GB' is no amount of memory: write it like "
         "'256 MiB' or '1.5 GiB'"),
        ('streams = ["web", "wep"]', ":16: archive.streams[1]: there is no stream 'wep'"),
        ("streams = []", ":16: archive.streams: must not be empty"),
        ("keep = 7", ":16: archive.keep: unknown key (did you mean keep_days?)"),
    ],
)  # fmt: skip
def test_faults_of_an_archive(tmp_path: Path, key: str, fault: str) -> None:
    assert faults(tmp_path, f"{GOOD}[archive]\n{key}\n") == [fault]


def test_names_of_streams_are_no_patterns(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, GOOD.replace('"web"', '"web-*"'))
    assert fault == ":13: streams[0].name: 'web-*': *, ? and commas have a meaning in FROM, so no name has them"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('paths = ["/', 'pathz = ["/', ":14: streams[0].pathz: unknown key (did you mean paths?)"),
        ('paths = ["/', 'pathz = ["/', ":12: streams[0].paths: is missing"),
        ('fleet = "shop"\n', "", ": fleet: is missing"),
        ('key = "agent.key"\n', "", ":7: identity.key: is missing"),
        ('"shop"', "5", ":1: fleet: must be text in quotes, not a whole number"),
        ('"shop"', '"the shop"', ":1: fleet: 'the shop' must be letters, digits, '.', '_' and '-', "
         "beginning with a letter or digit"),
        ('"agent-5"', '""', ":2: name: must not be empty"),
        ('"agent-5"', f'"{"a" * 65}"', ":2: name: may have at most 64 characters"),
        ('"127.0.0.1:7705"', '"7705"', ":3: listen: '7705' is not host:port"),
        ('"127.0.0.1:7705"', '"::1:7705"', ":3: listen: '::1:7705': an IPv6 address stands in brackets, "
         "as in [::1]:7705"),
        (":7705", ":70000", ":3: listen: '127.0.0.1:70000': a port is 0 to 65535, not '70000'"),
        (":7705", ":0", ":3: listen: '127.0.0.1:0': a port is a number from 1 to 65535"),
        ("127.0.0.1:7705", "0.0.0.0:7705", ":3: listen: 0.0.0.0 stands for every interface: set advertise to an "
         "address others can reach"),
        (":7702", "", ":4: seeds[1]: '[::1]': an IPv6 address stands in brackets, as in [::1]:7705"),
        ('"data"', '["a"]', ":5: data_directory: must be text in quotes, not a list"),
        ("[identity]", 'log_level = "loud"\n', ":7: log_level: 'loud' is none of debug, info, warning, error"),
        ("[identity]", 'job_memory = "a lot"\n[identity]',
         ":7: job_memory: 'a lot' is no amount of memory: write it like '256 MiB' or '1.5 GiB'"),
        ("[identity]", 'job_memory = 256\n[identity]', ":7: job_memory: must be text in quotes, not a whole number"),
        ("[identity]", 'job_memory = "-1 GiB"\n[identity]', ":7: job_memory: '-1 GiB' is no amount of memory: write it "
         "like '256 MiB' or '1.5 GiB'"),
        ("[identity]", 'job_memory = "9 KiB"\n[identity]', ":7: job_memory: 9 KiB is too little: 1 MiB is the least"),
        ("[identity]", 'max_skew = "soon"\n[identity]',
         ":7: max_skew: 'soon' is no time: write it like '2 s' or '500 ms'"),
        ("[identity]", 'heal_retention = "5 min"\n[identity]',
         ":7: heal_retention: '5 min' is no time: write it like '300 s'"),
        ("[identity]", 'heal_retention = "3601 s"\n[identity]',
         ":7: heal_retention: 3601 s is too much: 3,600 s is the most"),
        ("[identity]", 'max_skew = "61 s"\n[identity]', ":7: max_skew: 61 s is too much: 60 s is the most"),
        ("[identity]", "[identities]", ":7: identities: unknown key (did you mean identity?)"),
        ("[identity]", "[[identity]]", ":7: identity: must be a table, not a list"),
        ("[[streams]]", "[streams]", ":12: streams: must be a list, not a table"),
        ('"web"', '"*"', ":13: streams[0].name: * stands for every stream: give this one a name of its own"),
        ('"web"', '"web"\nformat = "xml"', ":14: streams[0].format: 'xml' is none of auto, json, combined, csv, tsv"),
        ('"web"', '"web"\nread_from = "now"', ":14: streams[0].read_from: 'now' is none of end, beginning"),
        (
            '"web"',
            '"web"\nclock = "events"',
            ':14: streams[0].clock: events: a job that begins at the end has no such time: set read_from = "beginning"',
        ),
        ('"logs/*.json"', '\n  "", # none\n  7', ":15: streams[0].paths[1]: must not be empty"),
        ('"logs/*.json"', '\n  "", # none\n  7',
         ":16: streams[0].paths[2]: must be text in quotes, not a whole number"),
        ('"logs/*.json"', '"a\\u0000b"', ":14: streams[0].paths[1]: has a NUL character, which no path has"),
        ("[identity]", '[[streams]]\nname = "web"\npaths = ["a"]\n[identity]',
         ":16: streams[1].name: 'web' is the name of streams[0] already"),
    ],
)  # fmt: skip
def test_each_fault_names_line_key_and_reason(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in GOOD
    assert fault in faults(tmp_path, GOOD.replace(old, new, 1))


def test_every_fault_is_told_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = GOOD.replace('"shop"', "1").replace("seeds", "seed").replace('"ca.crt"', "true").replace('"web"', "[]")
    assert faults(tmp_path, text) == [
        ":1: fleet: must be text in quotes, not a whole number",
        ":4: seed: unknown key (did you mean seeds?)",
        ":8: identity.ca: must be text in quotes, not true or false",
        ":13: streams[0].name: must be text in quotes, not a list",
    ]


def test_an_overlong_socket_path_is_told_before_it_is_bound(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, GOOD.replace('"data"', f'"{"d" * 120}"'))
    assert fault.startswith(":5: data_directory: ")
    assert "a socket's path may have 107: set control_socket" in fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('a = 1\nb = "x', ":2: unterminated string, at the end of the file"),
        ("a = 1\n\nb =\n", ":3: invalid value, at column 4"),
        ("a = 1\na = 2\n", ":2: cannot overwrite a value"),
        (b'a = 1\nb = "\xff"\n', ":2: is not UTF-8 text"),
        (b"a" * (1 << 21), ": is larger than 1,048,576 bytes: that is no configuration"),
        ("a = " + "[" * 100_000, ": is nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_no_toml(tmp_path: Path, text: str | bytes, fault: str) -> None:
    (found,) = faults(tmp_path, text)
    assert found.startswith(fault)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml: no such file or directory"):
        load_config(tmp_path / "missing.toml")
    with pytest.raises(ConfigError, match=f"{tmp_path}: is a directory"):
        load_config(tmp_path)
    if os.getuid():
        (tmp_path / "agent.toml").touch(mode=0)
        with pytest.raises(ConfigError, match="permission denied"):
            load_config(tmp_path / "agent.toml")
