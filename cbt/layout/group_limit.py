"""The limit of groups: bounds a job's groups when its events have more keys than it may keep.

Under the policy `other`, the groups with the lowest ranks are kept and all others are combined into one, OTHER. The
rank is a hash of the key's hash, so it is independent of the key's meaning, yet equal on all agents: a group that one
agent adds to OTHER is added to OTHER by every agent and every merge. A key among the lowest `n` of all is among the
lowest `n` wherever it occurs, so no part of a kept group is ever added to OTHER. Limiting before and after any merge
gives what limiting everything at once gives: kept groups are exact, and OTHER is exactly the rest. (Ranks differ from
hashes so that the kept groups are spread evenly over hash ranges.)

The row of OTHER has NULL for every key and the greatest hash, which the group of NULLs does not have. So it goes
through trees, frames and merges as any row does, and is never taken for another. With aggregates that are sets or
sketches, groups have rows of items as well: these go where their group goes, and those of OTHER are merged.

The lowest ranks also tell how many groups there are: were there D, evenly spread over [0, 1), the n-th lowest would
be near n/D (Bar-Yossef et al., 2002; the estimator and its error are Beyer et al.'s, 2007).
"""

from dataclasses import dataclass
from math import sqrt

import polars as pl

from cbt.aggregates.item_rows import PART, UPPER_HALF
from cbt.algebra.hashing import key_hash, splitmix64
from cbt.layout.layout import Layout

_HASHES = 2**64
_LOWER_HALF = _HASHES - 1 - UPPER_HALF
_ESTIMATE_GROUPS_MIN = 50


class GroupLimitError(ValueError):
    """A job has more groups than it may keep."""


@dataclass(frozen=True, slots=True)
class FoldedGroups:
    """The estimated number of groups in OTHER. The number of all groups, kept or not, is within the relative `error` of
    the truth at 99 %; None where too few are kept for an estimate.
    """

    groups: int
    error: float | None


class GroupLimit:
    """Keeps at most `max_groups` groups in each pane or window; the policy decides whether more are an `error` or an
    `other` group.

    Raises ValueError for a limit below 1 or another policy.

    >>> from cbt import Aggregate, Key
    >>> layout = Layout([Key("path", "string")], [Aggregate("hits", "count", None, "any")])
    >>> events = pl.DataFrame({"pane": [0] * 5, "path": ["/a", "/a", "/b", "/c", None]})
    >>> limited = GroupLimit(2, "other").apply(layout, layout.lift(events))
    >>> layout.lower(limited).with_columns(limited.select(other=is_other(layout))["other"]).rows()
    [(0, '/a', 2, False), (0, None, 1, False), (0, None, 2, True)]
    """

    def __init__(self, max_groups: int, policy: str = "error") -> None:
        if max_groups < 1 or policy not in ("error", "other"):
            raise ValueError(
                f"groups are limited to 1 or more by 'error' or 'other', not to {max_groups} by {policy!r}"
            )
        self.max_groups, self.policy = max_groups, policy

    def apply(self, layout: Layout, frame: pl.DataFrame) -> pl.DataFrame:
        """The PAO frame within the limit, which counts for each pane and does not count OTHER itself.

        The frame is ordered and has one row a (pane, key), as `Layout.combine` leaves it; so is the result. O(1) for
        a frame of few rows, O(n) within the limit, O(n log n) beyond it. Raises GroupLimitError under the policy
        `error`.
        """
        if frame.height <= self.max_groups or not layout.keys:
            return frame
        groups = layout.main_rows(frame)
        other = groups.select(is_other(layout)).to_series()
        crowded = groups["pane"].filter(~other).value_counts(name="groups").filter(pl.col("groups") > self.max_groups)
        if crowded.is_empty():
            return frame
        if self.policy == "error":
            pane, groups = min(crowded.rows())
            raise GroupLimitError(
                f"{groups} groups in the pane or window at {pane}, and the job may have {self.max_groups}: raise its "
                "limit of groups, group by fewer or coarser columns, or let the rest be one group with the policy OTHER"
            )
        kept = layout.rows_of_groups(frame, self._lowest(groups, other))
        return layout.combine([frame.filter(kept), _as_other(layout, frame.filter(~kept))])

    def _lowest(self, frame: pl.DataFrame, other: pl.Series) -> pl.Series:
        """Which groups are among the lowest of their pane; of equal ranks, which equal hashes have, the first are."""
        ranks = splitmix64(frame["hash"]).set(other, None)
        position = pl.col("rank").rank("ordinal").over("pane")
        ranked = pl.DataFrame({"pane": frame["pane"], "rank": ranks})
        return ranked.select((position <= self.max_groups).fill_null(False)).to_series()

    def folded(self, layout: Layout, frame: pl.DataFrame) -> FoldedGroups:
        """An estimate of the groups in OTHER, from all rows of the limited frame of one pane or window. O(n)."""
        groups = layout.main_rows(frame)
        other = groups.select(is_other(layout)).to_series()
        if not other.any():
            return FoldedGroups(0, 0.0)
        ranks = splitmix64(groups["hash"].filter(~other))
        kept, greatest = len(ranks), ranks.max()
        if kept < _ESTIMATE_GROUPS_MIN or not isinstance(greatest, int):
            return FoldedGroups(1, None)
        count = round((kept - 1) * _HASHES / (greatest + 1))
        return FoldedGroups(max(1, count - kept), 3 / sqrt(kept - 2))


def is_other(layout: Layout) -> pl.Expr:
    """Whether a row of a PAO frame is of OTHER. Boolean, never NULL."""
    if not layout.keys:
        return pl.lit(False)
    nulls = [pl.col(key.name).is_null() for key in layout.keys]
    other = _u64(_other_hash(layout))
    if layout.has_items:
        return pl.all_horizontal((pl.col("hash") | _u64(_LOWER_HALF)) == (other | _u64(_LOWER_HALF)), *nulls)
    return pl.all_horizontal(pl.col("hash") == other, *nulls)


def _as_other(layout: Layout, frame: pl.DataFrame) -> pl.DataFrame:
    keys = [pl.lit(None, dtype=key.stored_type).alias(key.name) for key in layout.keys]
    other = _u64(_other_hash(layout))
    if layout.has_items:
        item = (other & _u64(UPPER_HALF)) | (pl.col("hash") & _u64(_LOWER_HALF))
        other = pl.when(pl.col(PART).is_null()).then(other).otherwise(item)
    return frame.with_columns(other.alias("hash"), *keys)


def _other_hash(layout: Layout) -> int:
    """The greatest hash, or the one before it should a key of NULLs have that. Where groups have rows of items, whose
    hashes share the upper half with their group's, the halves have to differ as well.
    """
    columns = [pl.Series(key.name, [None], dtype=key.stored_type) for key in layout.keys]
    nulls, greatest = int(key_hash(columns, layout.seed).item()), _HASHES - 1
    if layout.has_items:
        return greatest - (_LOWER_HALF + 1) * int(nulls & UPPER_HALF == UPPER_HALF)
    return greatest - int(nulls == greatest)


def _u64(value: int) -> pl.Expr:
    return pl.lit(value, dtype=pl.UInt64)
