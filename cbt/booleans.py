"""BOOL_AND and BOOL_OR: whether all, or any, of the values that are not NULL are true; NULL if there are none."""

from cbt.extremes import Extreme


class BoolAnd(Extreme):
    """BOOL_AND: the least of the values, as false < true. State `b` Boolean; lowers to it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "boolean", greatest=False)


class BoolOr(Extreme):
    """BOOL_OR: the greatest of the values, as false < true. State `b` Boolean; lowers to it."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "boolean", greatest=True)
