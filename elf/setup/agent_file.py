"""Writes the text of an `agent.toml` for the logs that were found, and queries to try on them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap

from elf.setup.discovery import FoundLog

PATHS_MAX = 1024
GROUPS = ("status", "method", "host", "level", "type", "path")
"""Columns by which a first query groups, the first that is there."""
HEADING = """\
# The configuration of an agent, written by `elf init`. `elf config check FILE` names its faults;
# every key is explained in docs/running-agents.md.
"""
COMMENT_COLUMN = 44
WINDOW = "WINDOWING 10 SECONDS"


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """The keys of an agent that no log tells; paths are absolute."""

    name: str
    fleet: str
    listen: str
    seeds: Sequence[str]
    identity: str
    data_directory: str = "/var/lib/elf"
    control_socket: str = "/run/elf/control.sock"


def streams_of(logs: Iterable[FoundLog]) -> dict[str, list[FoundLog]]:
    """The logs by the names of their streams, which hold one format of one server, so that a request is in each once.

    The first stream is `web`, which the agents of a fleet then have in common.
    """
    groups: dict[tuple[str, str], list[FoundLog]] = defaultdict(list)
    for log in logs:
        if log.kind is not None:
            groups[log.server, log.kind].append(log)
    named: dict[str, list[FoundLog]] = {}
    for (server, kind), found in groups.items():
        first = next(iter(groups))[0]
        name = "web" if server == first else server
        named[name if name not in named else f"{name}_{kind}"] = found
    return named


def agent_file(options: AgentOptions, streams: Mapping[str, Sequence[FoundLog]]) -> str:
    """The text of a configuration, commented for whoever reads it next."""
    keys = (
        ("fleet", options.fleet, ""),
        ("name", options.name, "results name agents that are missing"),
        ("listen", options.listen, "other agents connect here, over TLS"),
        ("seeds", options.seeds, "two or three agents that are usually there; none: the first of its fleet"),
        ("data_directory", options.data_directory, ""),
        ("control_socket", options.control_socket, "`elf query` and its siblings ask here"),
    )
    identity = (
        ("ca", f"{options.identity}/ca.pem", "the authority's certificate"),
        ("certificate", f"{options.identity}/agent.pem", "this agent's certificate"),
        ("key", f"{options.identity}/agent.key", "its key"),
    )
    parts = [f"{HEADING}\n" + "".join(starmap(_line, keys)), "[identity]\n" + "".join(starmap(_line, identity))]
    parts += [_stream(name, logs) for name, logs in streams.items()]
    if not streams:
        parts.append('# [[streams]]\n# name = "web"\n# paths = ["/var/log/nginx/access.log"]\n')
    parts.append(
        "# [archive]                                   # keeps every line, for Spark: elf batch\n# keep_days = 30\n"
    )
    return "\n".join(parts)


def quoted(text: str) -> str:
    r"""The text as a string of TOML.

    >>> print(quoted('a"b'))
    "a\"b"
    """
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def local_query(log: FoundLog) -> str:
    """A query for `elf local`, of what is in the log now."""
    return _counts("logs", log.columns)


def fleet_query(stream: str, logs: Sequence[FoundLog]) -> str:
    """A query for `elf query`, of what is written from now on."""
    return f"{_counts(stream, logs[0].columns)} {WINDOW}"


def _counts(stream: str, columns: Sequence[str]) -> str:
    group = next((name for name in GROUPS if name in columns), None)
    if group is None:
        return f"SELECT COUNT(*) AS events FROM {stream}"
    return f"SELECT {group}, COUNT(*) AS hits FROM {stream} GROUP BY {group}"


def _stream(name: str, logs: Sequence[FoundLog]) -> str:
    heading = _commented("[[streams]]", f"SELECT ... FROM {name}")
    paths = [log.path for log in logs[:PATHS_MAX]]
    return heading + _line("name", name) + _line("paths", paths) + _line("format", logs[0].kind or "auto")


def _line(key: str, value: str | Sequence[str], comment: str = "") -> str:
    text = quoted(value) if isinstance(value, str) else f"[{', '.join(map(quoted, value))}]"
    return _commented(f"{key} = {text}", comment)


def _commented(text: str, comment: str) -> str:
    return f"{text:<{COMMENT_COLUMN}}  # {comment}\n" if comment else f"{text}\n"
