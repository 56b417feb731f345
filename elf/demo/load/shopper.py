"""Draws the visitors' requests: a seeded stream, without sockets or clocks.

Most visitors look at popular products. They like and buy editions of their favourite title. A few publish comments,
some about sales; a campaign of six accounts publishes only sales.
"""

import random
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from urllib.parse import quote_plus

from elf.demo.catalogue import (
    FLASH_PRODUCT,
    MISSING_PATHS,
    PRODUCTS,
    REFERENCES,
    SPAMMERS,
    STORES,
    USER_AGENTS,
    USERS,
    Product,
    User,
)

FLASH_BEGIN, FLASH_END = 0.4, 0.6
"""Begin and end of the flash crowd, as parts of the load's duration."""

_FLASH_SHARE = 0.4
_ZIPF_EXPONENT = 1.0
_FAVOURITE_SHARE = 0.95
_EDITIONS = 6
"""Number of editions of each title, in the catalogue's order."""
_SPAM_SHARE = 0.6
_SALES = ("SALE! 90 % off, only here: http://deals.example/{}", "Biggest sale ever: http://deals.example/{}")
_COMMENTS = ("I like it", "Not what I thought", "Is this still on sale?", "Again, please", "My whole family loves it")


class RequestKind(Enum):
    """Effect of a request on the shop's counters."""

    VIEW = "view"
    LIKE = "like"
    BUY = "buy"
    COMMENT = "comment"
    OTHER = "other"


_KIND_WEIGHTS = {
    RequestKind.VIEW: 0.68,
    RequestKind.LIKE: 0.07,
    RequestKind.BUY: 0.07,
    RequestKind.COMMENT: 0.03,
    RequestKind.OTHER: 0.15,
}


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, ready to send.

    `count` is the clicks of a view, the quantity of a purchase, 1 of a like or comment; `flash` marks views of the
    crowd's product.
    """

    data: bytes
    kind: RequestKind
    count: int = 0
    flash: bool = False


def _cumulated(weights: Sequence[float]) -> list[float]:
    total = sum(weights)
    return [weight / total for weight in accumulate(weights)]


@dataclass(frozen=True, slots=True)
class _Visitor:
    head: str
    favourites: Sequence[Product]


class Shopper:
    """Draws requests: Zipf-distributed products, all users alike, now and then a missing page.

    A visitor stays with one of the `servers`, as behind a load balancer with sticky sessions. The same seed, fractions
    and servers give the same requests.
    """

    def __init__(self, seed: int, servers: int = 1) -> None:
        self._random = random.Random(seed)
        ranked = [product for product in PRODUCTS if product.name != FLASH_PRODUCT]
        self._random.shuffle(ranked)
        self._flash = next(product for product in PRODUCTS if product.name == FLASH_PRODUCT)
        self._ranked = [*ranked, self._flash]
        self._popularity = _cumulated([rank**-_ZIPF_EXPONENT for rank in range(1, len(self._ranked) + 1)])
        visitors = [self._visitor(number, user) for number, user in enumerate(USERS)]
        self._visitors = [visitors[server::servers] for server in range(servers)]
        spammers = [self._visitor(number, user) for number, user in enumerate(SPAMMERS)]
        self._spammers = [spammers[server::servers] for server in range(servers)]

    def _visitor(self, number: int, user: User) -> _Visitor:
        first = number * _EDITIONS % len(PRODUCTS)
        return _Visitor(_headers(user, self._random.choice(USER_AGENTS)), PRODUCTS[first : first + _EDITIONS])

    def request(self, fraction: float, server: int = 0) -> Request:
        """The next request to a server; `fraction` is the elapsed part of the load's duration, 0 to 1. O(log
        products).
        """
        kind = self._random.choices(list(_KIND_WEIGHTS), list(_KIND_WEIGHTS.values()))[0]
        visitor = self._random.choice(self._visitors[server])
        head = visitor.head
        if kind is RequestKind.OTHER:
            return Request(f"GET {self._other_path()} HTTP/1.1\r\n{head}\r\n".encode(), kind)
        if kind is RequestKind.COMMENT:
            return self._comment(visitor, server)
        if kind in (RequestKind.LIKE, RequestKind.BUY):
            return self._want(kind, visitor)
        product = self._product(fraction)
        clicks = 1 if self._random.random() < 0.6 else self._random.randint(2, 5)
        path = f"/product/{product.slug}?ref={self._random.choice(REFERENCES)}&clicks={clicks}"
        return Request(f"GET {path} HTTP/1.1\r\n{head}\r\n".encode(), kind, clicks, product is self._flash)

    def _want(self, kind: RequestKind, visitor: _Visitor) -> Request:
        """A like or a purchase. The flash crowd makes none."""
        is_favourite = self._random.random() < _FAVOURITE_SHARE
        product = self._random.choice(visitor.favourites) if is_favourite else self._popular()
        if kind is RequestKind.LIKE:
            return _post("/like", f"product={product.slug}", visitor.head, kind, 1)
        quantity = self._random.choice((1, 1, 1, 2, 3))
        return _post("/cart", f"product={product.slug}&quantity={quantity}", visitor.head, kind, quantity)

    def _comment(self, visitor: _Visitor, server: int) -> Request:
        text = self._random.choice(_COMMENTS)
        if self._spammers[server] and self._random.random() < _SPAM_SHARE:
            visitor = self._random.choice(self._spammers[server])
            text = self._random.choice(_SALES).format(self._random.randrange(100))
        form = f"product={self._popular().slug}&text={quote_plus(text)}"
        return _post("/comment", form, visitor.head, RequestKind.COMMENT, 1)

    def _product(self, fraction: float) -> Product:
        if FLASH_BEGIN <= fraction < FLASH_END and self._random.random() < _FLASH_SHARE:
            return self._flash
        return self._popular()

    def _popular(self) -> Product:
        return self._ranked[min(bisect(self._popularity, self._random.random()), len(self._ranked) - 1)]

    def _other_path(self) -> str:
        draw = self._random.random()
        if draw < 0.35:
            return "/"
        if draw < 0.75:
            return f"/store/{self._random.choice(STORES)}"
        return "/cart" if draw < 0.88 else self._random.choice(MISSING_PATHS)


def _post(path: str, form: str, head: str, kind: RequestKind, count: int) -> Request:
    head += f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n"
    return Request(f"POST {path} HTTP/1.1\r\n{head}\r\n{form}".encode(), kind, count)


def _headers(user: User, agent: str) -> str:
    referer = f"Referer: https://shop.example/store/{STORES[user.id % len(STORES)]}\r\n" if user.id % 3 else ""
    return (
        f"Host: shop.example\r\nUser-Agent: {agent}\r\n{referer}"
        f"Cookie: user={user.id}\r\nX-Forwarded-For: {user.address}\r\n"
    )
