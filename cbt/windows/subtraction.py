"""`PAO₁₅ ⊖ PAO₅` (paper, section 2.2) over whole frames: subtracts a part from an aggregate."""

from collections.abc import Sequence

import polars as pl

from cbt.aggregates.user_defined import attempt
from cbt.algebra.pao import LESS, StateAlgebra
from cbt.layout.layout import Layout


def invertible(layout: Layout) -> bool:
    """Whether every aggregate of the layout is invertible."""
    return all(pao.subtract() is not None for pao in layout.paos)


def subtracts_exactly(layout: Layout, frame: pl.DataFrame) -> bool:
    """Whether subtracting this frame gives the aggregate as it would be without the frame, to the last bit. O(n).

    The exceptions are states of doubles, which user-defined aggregates may have: doubles are rounded as they are added,
    and an infinity never leaves a sum. In these columns only zeros are subtracted exactly.
    """
    doubles = [name for pao in layout.paos for name, dtype in pao.state.items() if dtype == pl.Float64]
    return not doubles or bool(frame.select(pl.all_horizontal((pl.col(doubles) == 0).all())).item())


def subtract_frames(layout: Layout, minuend: pl.DataFrame, subtrahend: pl.DataFrame) -> pl.DataFrame:
    """The minuend without the subtrahend, in the minuend's order. O(n) for n rows in both.

    Both are PAO frames as `Layout.combine` leaves them. Keys and items of which nothing is left stay, with neutral
    states: these do not tell whether a key is gone. Raises ValueError if an aggregate is not invertible or the
    subtrahend has a key or an item that the minuend lacks.

    >>> from cbt import Aggregate, Key
    >>> layout = Layout([Key("path", "string")], [Aggregate("hits", "count", None, "any")])
    >>> fifteen = layout.lift(pl.DataFrame({"pane": [0, 0, 0], "path": ["/a", "/a", "/b"]}))
    >>> five = layout.lift(pl.DataFrame({"pane": [0], "path": ["/a"]}))
    >>> layout.lower(subtract_frames(layout, fifteen, five)).sort("path").rows()
    [(0, '/a', 1), (0, '/b', 1)]
    """
    names = [name for pao in layout.paos for name in pao.state]
    differences = dict(zip(names, [part for pao in layout.paos for part in _difference(pao)], strict=True))
    if subtrahend.is_empty():
        return minuend
    identity = ["pane", "hash", *layout.key_names]
    less = subtrahend.with_columns(pl.lit(True).alias(LESS))
    both = minuend.join(less, on=identity, how="left", nulls_equal=True, suffix=LESS, maintain_order="left")
    matched = pl.col(LESS).is_not_null()
    if both.select(matched.sum()).item() != subtrahend.height:
        raise ValueError("what is subtracted was never added: the subtrahend has a row that the minuend lacks")

    def left(paos: Sequence[StateAlgebra]) -> pl.DataFrame:
        states = [
            pl.when(matched).then(differences[name]).otherwise(pl.col(name)).alias(name)
            for pao in paos
            for name in pao.state
        ]
        return both.select(*identity, *states)

    return attempt(layout.paos, "subtract", left)


def _difference(pao: StateAlgebra) -> list[pl.Expr]:
    difference = pao.subtract()
    if difference is None:
        raise ValueError(f"{type(pao).__name__} cannot be subtracted")
    return difference
