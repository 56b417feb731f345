"""Product bundling (paper §1): finds products that go together, since the same visitors like or buy them.

Agents turn events into *edges*: two products that one visitor wanted within 30 seconds, on one web server. Edges are
counted over the fleet every 5 seconds, and the master adds up the last six windows: a window of 30 seconds that slides
by 5. A frequent edge in it is strong. Products connected by strong edges are a *bundle*, which ends when no visitor has
wanted two of its products for 30 seconds.

Feedback: bundles are multicast. From then on agents count an edge inside a bundle as one of its first product with
itself: one group for the whole bundle, which shows that it is alive. Each bundle carries the time until which it lasts
in any case, and edges of later events are counted in full again, so bundles do not depend on when an agent learns of
them.

A new master has the bundles, like every agent; edges that were not strong yet it counts from its own start on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import elf

SLIDING_MS = 30_000
STRONG = 3
PRODUCTS_MAX, NAME_CHARACTERS_MAX = 500, 80
"""Upper bounds on products in all bundles together and on their names, since a message has a limit."""
VISITORS_MAX = 20_000
"""Upper bound on visitors that an agent remembers; beyond it, the visitor seen longest ago is forgotten."""


@elf.message
@dataclass(frozen=True)
class Bundle:
    """Products that go together; the bundle lasts at least for events before `until_ms` (epoch ms)."""

    products: list[str]
    until_ms: int


@elf.message
@dataclass(frozen=True)
class Bundles:
    """Bundles as of the end of a window (RFC 3339)."""

    bundles: list[Bundle]
    as_of: str


@elf.message
@dataclass(frozen=True)
class Alike:
    """Asks for the products that go with a product; the answer is `Bundles`, with one bundle or none."""

    product: str


class ProductBundling(elf.Job):
    """Counts edges between video games, and keeps the connected components."""

    reads = {"store": "string", "product": "string", "user.id": "any", "likes_count": "number", "buys_count": "number"}
    query = """
        SELECT a, b, COUNT(*) AS together FROM events
        GROUP BY a, b ORDER BY together DESC LIMIT 5000 WINDOWING 5 SECONDS
    """

    def __init__(self) -> None:
        self.wanted: dict[Any, dict[str, int]] = {}  # by visitor: products, and when they were wanted last
        self.known = Bundles([], "")
        self.bundle_of: dict[str, Bundle] = {}
        self.windows: dict[int, dict[tuple[str, str], int]] = {}  # by their start: edges between bundles, and how often

    def map(self, event: dict[str, Any]) -> Iterator[dict[str, Any]]:
        product, visitor, now_ms = event["product"], event["user.id"], event["@time"]
        if event["store"] != "video_games" or not (event["likes_count"] or event["buys_count"]):
            return
        if visitor is None or not product or len(product) > NAME_CHARACTERS_MAX:
            return
        before = self.wanted.pop(visitor, {})
        recent = {other: at_ms for other, at_ms in before.items() if now_ms - at_ms < SLIDING_MS}
        self.wanted[visitor] = recent | {product: now_ms}
        if len(self.wanted) > VISITORS_MAX:
            del self.wanted[next(iter(self.wanted))]
        for other in recent.keys() - {product}:
            a, b = sorted((product, other))
            bundle = self.bundle_of.get(a)
            if bundle is not None and bundle is self.bundle_of.get(b) and now_ms < bundle.until_ms:
                a = b = bundle.products[0]
            yield {"a": a, "b": b}

    def on_multicast(self, app: str, message: Bundles) -> None:
        self.learn(message)
        self.show({"bundles": [bundle.products for bundle in message.bundles], "as_of": message.as_of})

    def learn(self, bundles: Bundles) -> None:
        if bundles.as_of < self.known.as_of:
            return  # the master knows more already
        self.known = bundles
        self.bundle_of = {product: bundle for bundle in bundles.bundles for product in bundle.products}

    def on_result(self, window: elf.Window) -> None:
        start_ms = window.start_ms
        alive: dict[str, tuple[set[str], int]] = {}  # by product: all products of its bundle, and until when
        for bundle in self.known.bundles:
            if bundle.until_ms > start_ms:
                alive |= dict.fromkeys(bundle.products, (set(bundle.products), bundle.until_ms))
        edges = {(row["a"], row["b"]): row["together"] for row in window.rows}
        inside = {(a, b): n for (a, b), n in edges.items() if a in alive and alive[a] is alive.get(b)}
        between = {(a, b): n for (a, b), n in edges.items() if a != b and (a, b) not in inside}
        self.windows = {at_ms: one for at_ms, one in self.windows.items() if at_ms > start_ms - SLIDING_MS}
        self.windows[start_ms] = between
        strong = [edge for edge in between if sum(one.get(edge, 0) for one in self.windows.values()) >= STRONG]
        for a, b in [*inside, *strong]:
            products = {a, b}.union(*(alive[one][0] for one in (a, b) if one in alive))
            if len(alive.keys() | products) <= PRODUCTS_MAX:
                alive |= dict.fromkeys(products, (products, start_ms + SLIDING_MS))
        found = sorted({(tuple(sorted(products)), until_ms) for products, until_ms in alive.values()})
        bundles = [Bundle(list(products), until_ms) for products, until_ms in found]
        self.learn(Bundles(bundles, window.window_end or ""))
        self.log(f"{len(bundles)} bundles of {len(alive)} products; {len(edges)} kinds of edges were counted")
        self.multicast(self.known)

    def deliver(self, app: str, message: Alike) -> Bundles:
        bundle = self.bundle_of.get(message.product)
        return Bundles([bundle] if bundle else [], self.known.as_of)
