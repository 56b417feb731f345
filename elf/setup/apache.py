"""Finds the access logs of Apache in its configuration: `CustomLog`, `TransferLog` and `LogFormat`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from elf.setup.server_logs import ServerLog, ServerLogs, below, matching, read_text, unique

SERVER = "apache"
LAYOUTS = (
    ("/etc/apache2", ("apache2.conf", "conf-enabled/*.conf", "mods-enabled/*.conf", "sites-enabled/*")),
    ("/etc/httpd", ("conf/httpd.conf", "conf.d/*.conf", "conf.modules.d/*.conf")),
)
"""Folders of Debian and its kin, and of Red Hat's, with the files that are in force."""
OF_VIRTUAL_HOSTS = (
    "apache: lines that begin with their virtual host (vhost_combined) are left out: deploy/apache/elf.conf "
    "(/usr/share/doc/elf-agent/examples/apache) adds a combined log for the hosts that have none of their own"
)
_EXPORT = re.compile(r"^\s*export\s+(\w+)=(\S*)", re.MULTILINE)
_DEFINE = re.compile(r"\$\{(\w+)\}")
_UNKNOWN = re.compile(r"\$\{?\w+\}?")
_OF_VIRTUAL_HOSTS = re.compile(r"%[vV](:%p)? %h ")
_COMBINED = re.compile(r"%h %l %u %t \"?%r\"? %>?s %[bBO]")


def apache_logs(root: Path = Path("/")) -> ServerLogs:
    """The access logs that Apache writes, in the order of its files; none where it is not installed."""
    logs: list[ServerLog] = []
    notes: list[str] = []
    for folder, patterns in LAYOUTS:
        paths = [path for pattern in patterns for path in matching(root, f"{folder}/{pattern}")]
        defined = _exported(read_text(below(root, f"{folder}/envvars")))
        forms: dict[str, str] = {}
        for words in (words for path in paths for words in directives(read_text(path), defined)):
            match words:
                case ["logformat", form, nickname]:
                    forms[nickname] = form
                case ["serverroot", place]:
                    folder = place
                case ["customlog" | "transferlog", target, *_] if target.startswith(("|", "syslog:")):
                    notes.append(f"apache logs to {target[:200]}: an agent reads files, add their paths yourself")
                case ["customlog" | "transferlog", target, *rest]:
                    named = rest[0] if rest else ""
                    form = forms.get(named, named)
                    logs.append(ServerLog(SERVER, str(Path(folder) / target), _kind(form)))
                    if _OF_VIRTUAL_HOSTS.match(form):
                        notes.append(OF_VIRTUAL_HOSTS)
    return ServerLogs(tuple(unique(logs)), tuple(dict.fromkeys(notes)))


def directives(text: str, defined: Mapping[str, str]) -> Iterator[list[str]]:
    r"""The directives of a file, their names in lower case, with variables put in.

    >>> list(directives('CustomLog ${LOGS}/a.log "%h \\"%r\\"" # no', {"LOGS": "/var/log"}))
    [['customlog', '/var/log/a.log', '%h "%r"']]
    """
    for line in text.replace("\\\n", " ").splitlines():
        if line.lstrip().startswith(("#", "<")) or not line.strip():
            continue
        replaced = _DEFINE.sub(lambda name: defined.get(name[1], name[0]), line)
        try:
            name, *words = shlex.split(replaced, comments=True)
        except ValueError:  # quotes without an end, or nothing at all
            continue
        yield [name.lower(), *words]


def _exported(envvars: str) -> dict[str, str]:
    """Variables of `envvars`, without what the instance's name would add to them."""
    return {name: _UNKNOWN.sub("", value.strip("\"'")) for name, value in _EXPORT.findall(envvars)}


def _kind(form: str) -> str | None:
    return "combined" if _COMBINED.match(form) else None
