"""Finds the access logs of nginx in its configuration: `access_log`, `log_format` and the files it includes."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from elf.setup.server_logs import FILES_MAX, ServerLog, ServerLogs, below, matching, read_text, unique

SERVER = "nginx"
CONFIGURATION = "/etc/nginx/nginx.conf"
DEFAULT_FORMAT = "combined"
_TOKEN = re.compile(
    r"""\s+ | \#[^\n]* | (?P<end>[;{}]) | "(?P<double>(?:[^"\\]|\\.)*)(?:"|\\?\Z)
      | '(?P<single>(?:[^'\\]|\\.)*)(?:'|\\?\Z)
      | (?P<bare>(?:\$\{\w*\}|\\.|[^\s;{}\\])+) | .""",
    re.VERBOSE | re.DOTALL,
)
_COMBINED = '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent'
_VARIABLE = re.compile(r"\$(?:\{\w+\}|\w+)")
_NO_FILE = ("off", "syslog:", "memory:", "|")

Directive = list[str]
"""Its name, then its arguments."""


def nginx_logs(root: Path = Path("/"), configuration: str = CONFIGURATION) -> ServerLogs:
    """The access logs that nginx writes, in the order of its configuration; none where it is not installed.

    `combined` is the format of a log that names none; others are known by the text of their `log_format`.
    """
    found: list[tuple[str, str]] = []
    kinds: dict[str, str | None] = {DEFAULT_FORMAT: "combined"}
    notes = []
    for directive in _all_directives(root, configuration):
        match directive:
            case ["log_format", name, *rest]:
                kinds[name] = _kind(rest)
            case ["access_log", target, *_] if target.startswith(_NO_FILE):
                if target != "off":
                    notes.append(f"nginx logs to {target}: an agent reads files (deploy/rsyslog makes one of it)")
            case ["access_log", target, *rest] if not target.startswith("/"):
                notes.append(
                    f"nginx logs to {target}, which depends on how nginx was built: add its full path yourself"
                )
            case ["access_log", target, *rest]:
                named = rest[0] if rest and "=" not in rest[0] else DEFAULT_FORMAT
                found.append((_VARIABLE.sub("*", target), named))
    logs = (ServerLog(SERVER, path, kinds.get(name)) for path, name in found)
    return ServerLogs(tuple(unique(logs)), tuple(dict.fromkeys(notes)))


def _kind(arguments: Directive) -> str | None:
    """The format that lines of a `log_format` have, if its text tells."""
    form = "".join(part for part in arguments if not part.startswith("escape="))
    if form.lstrip().startswith("{") and "escape=json" in arguments:
        return "json"
    return "combined" if form.startswith(_COMBINED) else None


def _all_directives(root: Path, configuration: str) -> Iterator[Directive]:
    """The directives of a file and of all that it includes, each file once."""
    folder = Path(configuration).parent
    waiting = deque([below(root, configuration)])
    seen: set[Path] = set()
    while waiting and len(seen) < FILES_MAX:
        path = waiting.popleft()
        if path in seen:
            continue
        seen.add(path)
        for directive in directives(read_text(path)):
            if directive[0] == "include" and len(directive) == 2:
                waiting += matching(root, str(folder / directive[1]))
            else:
                yield directive


def directives(text: str) -> Iterator[Directive]:
    r"""The directives of a configuration, whatever block they are in.

    >>> list(directives('http { access_log "/a b.log" main; # no\n server {} }'))
    [['http'], ['access_log', '/a b.log', 'main'], ['server']]
    """
    words: list[str] = []
    for token in _TOKEN.finditer(text):
        if token["end"] is not None:
            if words:
                yield words
            words = []
            continue
        for kind in ("double", "single", "bare"):
            if (word := token[kind]) is not None:
                words.append(re.sub(r"\\(.)", r"\1", word))
