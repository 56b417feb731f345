"""What a result says of the groups beyond its job's limit. Clients read it too: nothing heavy is imported here."""

from __future__ import annotations

from typing import Any

import msgspec


class OtherGroups(msgspec.Struct, frozen=True):
    """All groups of a window beyond the `kept` ones, together: they are about `groups`, and `values` are the result's
    columns that are made of aggregates, over all of them.

    kept + groups is within `relative_error` of the truth at 99 %; where that is None, there are `groups` at least.
    """

    kept: int
    groups: int
    relative_error: float | None
    values: dict[str, Any]

    @property
    def about(self) -> str | None:
        """How many there are, to two digits, as estimates are told; None where nobody can tell.

        >>> OtherGroups(1_000_000, 34_217, 0.003, {}).about
        '34,000'
        """
        return None if self.relative_error is None else f"{int(float(f'{self.groups:.2g}')):,}"
