"""The least that an `agent.toml` has, to which a test adds what it is about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence


def agent_toml(
    name: str = "web-5",
    *,
    fleet: str = "shop",
    listen: str = "127.0.0.1:7705",
    seeds: Sequence[str] = (),
    identity: str = "",
    streams: Mapping[str, str] | None = None,
) -> str:
    """An agent's configuration. `identity`: the folder of its certificates, if it is another one, with a slash;
    `streams`: their paths, by name. A key appended belongs to the last table."""
    tables = "".join(f"[[streams]]\nname = {json.dumps(name)}\npaths = [{json.dumps(path)}]\n"
                     for name, path in (streams or {}).items())  # fmt: skip
    return f"""\
fleet = "{fleet}"
name = "{name}"
listen = "{listen}"
seeds = {json.dumps(seeds)}
data_directory = "data"
[identity]
ca = "{identity}ca.pem"
certificate = "{identity}agent.pem"
key = "{identity}agent.key"
{tables}"""
