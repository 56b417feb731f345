"""Selections of streams: one stream by its name, or several by patterns.

The names in FROM become one text, which plans and jobs carry: names and patterns one after the other, with ", " between
them. In a pattern `*` stands for any characters and `?` for one. Names of streams have none of these and no comma
(`agent.toml` refuses them), so that the text means one thing only.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SPECIAL = frozenset("*?,")
"""Characters that the name of a stream cannot have."""
_BETWEEN = ", "


def selection(names: Iterable[str]) -> str:
    """The text for these names and patterns, each once."""
    return _BETWEEN.join(dict.fromkeys(names))


def patterns(text: str) -> tuple[str, ...]:
    """The names and patterns of a selection.

    >>> patterns("web, api-*")
    ('web', 'api-*')
    """
    return tuple(text.split(_BETWEEN))


@lru_cache(maxsize=1_024)
def selects(text: str, name: str) -> bool:
    """Whether a selection includes the stream of this name. O(length of text · length of name).

    >>> selects("web, api-*", "api-eu"), selects("web", "web-2"), selects("*", "web")
    (True, False, True)
    """
    return any(_matches(pattern, name) for pattern in patterns(text))


def is_pattern(text: str) -> bool:
    """Whether a selection may include several streams."""
    return not SPECIAL.isdisjoint(text)


def covers(pattern: str, selected: str) -> bool:
    """Whether a pattern matches everything that a name, or another pattern, can match.

    >>> covers("api-*", "api-eu"), covers("api-*", "api-eu-*"), covers("api-?", "api-*"), covers("*", "web")
    (True, True, False, True)
    """
    return _matches(pattern, selected, takes_star=False)


def _matches(pattern: str, name: str, *, takes_star: bool = True) -> bool:
    """Whether a name matches a pattern. Each star takes as little as possible; only the last one is ever extended.

    `takes_star`: a question mark stands for a star too, which is a character like others in a name.
    """
    place = at = 0
    star, taken = -1, 0
    while at < len(name):
        if place < len(pattern) and pattern[place] == "*":
            star, taken = place, at
            place += 1
        elif place < len(pattern) and (
            pattern[place] == name[at] or (pattern[place] == "?" and (takes_star or name[at] != "*"))
        ):
            place, at = place + 1, at + 1
        elif star >= 0:
            taken += 1
            place, at = star + 1, taken
        else:
            return False
    return set(pattern[place:]) <= {"*"}
