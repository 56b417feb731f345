"""Who asks the shop for what: a seeded stream of requests, without sockets or clocks."""

import random
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate

from .catalogue import (
    FLASH_PRODUCT,
    MISSING_PATHS,
    PRODUCTS,
    REFERENCES,
    STORES,
    USER_AGENTS,
    USERS,
    Product,
    User,
)

FLASH_BEGIN, FLASH_END = 0.4, 0.6
"""The part of the load's time in which the flash crowd is there."""

_FLASH_SHARE = 0.4
_ZIPF_EXPONENT = 1.0


class Kind(Enum):
    """What a request does to the counters of the shop."""

    VIEW = "view"
    BUY = "buy"
    OTHER = "other"


_KIND_WEIGHTS = {Kind.VIEW: 0.75, Kind.BUY: 0.07, Kind.OTHER: 0.18}


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, ready to send.

    `count` is the clicks of a view or the quantity of a purchase; `flash` marks views of the crowd's product.
    """

    data: bytes
    kind: Kind
    count: int = 0
    flash: bool = False


def _cumulated(weights: Sequence[float]) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in accumulate(weights)]


class Shopper:
    """Draws requests: Zipf-distributed products, all users alike, now and then a page that is not there.

    The same seed and the same fractions give the same requests.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        ranked = [product for product in PRODUCTS if product.name != FLASH_PRODUCT]
        self._random.shuffle(ranked)
        self._flash = next(product for product in PRODUCTS if product.name == FLASH_PRODUCT)
        self._ranked = [*ranked, self._flash]
        self._popularity = _cumulated([rank**-_ZIPF_EXPONENT for rank in range(1, len(self._ranked) + 1)])
        self._heads = [_headers(user, agent) for user in USERS for agent in [self._random.choice(USER_AGENTS)]]

    def request(self, fraction: float) -> Request:
        """The next request; `fraction` is how much of the load's time is over, 0 to 1. O(log products)."""
        kind = self._random.choices(list(_KIND_WEIGHTS), list(_KIND_WEIGHTS.values()))[0]
        head = self._random.choice(self._heads)
        if kind is Kind.OTHER:
            return Request(f"GET {self._other_path()} HTTP/1.1\r\n{head}\r\n".encode(), kind)
        product = self._product(fraction)
        if kind is Kind.BUY:
            return self._purchase(product, head)
        clicks = 1 if self._random.random() < 0.6 else self._random.randint(2, 5)
        path = f"/product/{product.slug}?ref={self._random.choice(REFERENCES)}&clicks={clicks}"
        return Request(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode(), kind, clicks, product is self._flash)

    def _purchase(self, product: Product, head: str) -> Request:
        quantity = self._random.choice((1, 1, 1, 2, 3))
        form = f"product={product.slug}&quantity={quantity}"
        head += f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n"
        return Request(f"POST /cart HTTP/1.1\r\n{head}\r\n{form}".encode(), Kind.BUY, quantity)

    def _product(self, fraction: float) -> Product:
        if FLASH_BEGIN <= fraction < FLASH_END and self._random.random() < _FLASH_SHARE:
            return self._flash
        return self._ranked[min(bisect(self._popularity, self._random.random()), len(self._ranked) - 1)]

    def _other_path(self) -> str:
        draw = self._random.random()
        if draw < 0.35:
            return "/"
        if draw < 0.75:
            return f"/store/{self._random.choice(STORES)}"
        return "/cart" if draw < 0.88 else self._random.choice(MISSING_PATHS)


def _headers(user: User, agent: str) -> str:
    referer = f"Referer: https://shop.example/store/{STORES[user.id % len(STORES)]}\r\n" if user.id % 3 else ""
    return (
        f"Host: shop.example\r\nUser-Agent: {agent}\r\n{referer}"
        f"Cookie: user={user.id}\r\nX-Forwarded-For: {user.address}\r\n"
    )
