"""Owners of jobs as texts that travel through the fleet: `alice@web-1`, a user of an agent's machine, or
`maria/39b6c1de0a7f4c5d8e9fa0b1c2d3e4f5`, a creator and the id of their key.

A job of which no owner is known has the owner "".
"""

from __future__ import annotations

import re

_KEY_ID = re.compile(r"[0-9a-f]{32}")
_CREATOR = re.compile(rf"(.*)/({_KEY_ID.pattern})", re.DOTALL)


def owner_of_user(user: str, agent: str) -> str:
    return f"{user}@{agent}"


def owner_of_creator(name: str, key_id: str) -> str:
    return f"{name}/{key_id}"


def is_key_id(name: str) -> bool:
    """Whether a creator's name looks like the id of a key, and would stand for somebody else."""
    return _KEY_ID.fullmatch(name) is not None


def is_same_owner(one: str, other: str) -> bool:
    """Whether two texts name one owner: the same user of the same agent, or the same key under any name.

    >>> key = "0" * 32
    >>> is_same_owner("alice@web-1", "alice@web-1"), is_same_owner("alice@web-1", "alice@web-2")
    (True, False)
    >>> is_same_owner(f"maria/{key}", f"mary/{key}"), is_same_owner("", "")
    (True, False)
    """
    if not one or not other:
        return False
    keys = [match[2] for match in (_CREATOR.fullmatch(one), _CREATOR.fullmatch(other)) if match]
    return keys[0] == keys[1] if len(keys) == 2 else one == other


def creator_of(owner: str) -> tuple[str, str] | None:
    """The name of a creator and the id of their key; None for a user of an agent's machine.

    >>> creator_of("maria/" + "0" * 32), creator_of("alice@web-1")
    (('maria', '00000000000000000000000000000000'), None)
    """
    match = _CREATOR.fullmatch(owner)
    return (match[1], match[2]) if match else None


def shown_owner(owner: str) -> str:
    """An owner as people read it.

    >>> shown_owner("alice@web-1"), shown_owner("maria/" + "0" * 32), shown_owner("")
    ('alice@web-1', 'maria', 'nobody')
    """
    creator = creator_of(owner)
    return creator[0] if creator else owner or "nobody"
