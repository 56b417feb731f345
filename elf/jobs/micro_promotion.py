"""Micro-promotion (paper §1, Figure 7): the most clicked products get a discount, wherever they are being clicked.

Batches are synchronous: the master multicasts that a new one begins, and every agent sends its counts up the tree and
empties its own. When a batch is published, its leading products are multicast; each agent shows its web server those
that were clicked there, in `shown/micro-promotion.json`. `elf ask micro-promotion` gives the last batch.

The master keeps no state that its successor would miss: every agent knows `pane` from the last multicast.
"""

from dataclasses import dataclass

import elf

LEADERS = 10
"""Number of products that get a discount."""


@elf.message
@dataclass(frozen=True)
class TopK:
    """The products that led in the last batch."""

    products: list[str]


@elf.message
@dataclass(frozen=True)
class Update:
    """A new batch begins; the ending one is named by this instant (epoch ms)."""

    pane: int


class MicroPromotion(elf.Job):
    """The most clicked video games of each batch."""

    query = """
        SELECT product, SUM(clicks_count) AS clicks FROM events
        WHERE store == `video_games` AND clicks_count > 0
        GROUP BY product ORDER BY clicks DESC LIMIT 50
    """
    drives = True
    timer_s = 5.0

    def __init__(self) -> None:
        self.products: set[str] = set()
        self.pane = 0

    def on_timer(self) -> None:
        if self.is_root:
            self.multicast(Update(max(self.now_ms, self.pane + 1)))

    def on_multicast(self, app: str, message: TopK | Update) -> None:
        if isinstance(message, TopK):
            self.show({"discounts": [product for product in message.products if product in self.products]})
        else:
            self.pane = message.pane
            paos = self.cbt.flush()
            self.products = {row["product"] for row in paos.rows()}
            self.send_to(self.parent, paos, message.pane)
            self.cbt.empty()

    def on_result(self, window: elf.Window) -> None:
        topk = [row["product"] for row in window.rows[:LEADERS]]
        self.multicast(TopK(topk))
        if topk:
            self.log(f"{window.events} events up to {window.window_end}, {topk[0]} leads")
