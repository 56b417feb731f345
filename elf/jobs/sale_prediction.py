"""Sale prediction (paper §1, Figure 1): will a product sell? A job that asks two others, at run time, by their names.

On its timer the master routes the product's name to product-bundling, whose master answers with the products that go
with it, and asks micro-promotion for its last batch. If most of the bundle are among the most clicked, it will sell.
Meanwhile the job's own query counts the product's clicks, likes and sales. Other jobs may ask for the last prediction
by `Predict`.

Where one of the others does not run or does not answer, there is no prediction, and the next one is made 5 seconds
later: the master keeps no state that its successor would miss.
"""

from dataclasses import asdict, dataclass

import elf

PRODUCT = "Angry Birds Season"
POPULAR = 10
"""Number of most clicked products that count as popular."""


@elf.message
@dataclass(frozen=True)
class Alike:
    """Request to product-bundling: the messages of two jobs match by their names and fields."""

    product: str


@elf.message
@dataclass(frozen=True)
class Bundle:
    products: list[str]
    until_ms: int


@elf.message
@dataclass(frozen=True)
class Bundles:
    """Answer of product-bundling."""

    bundles: list[Bundle]
    as_of: str


@elf.message
@dataclass(frozen=True)
class Predict:
    """Asks this job for its last prediction."""


@elf.message
@dataclass(frozen=True)
class Prediction:
    """The products that go together, the popular ones among them, and the times of both (RFC 3339)."""

    product: str
    together: list[str]
    together_as_of: str
    popular: list[str]
    popular_as_of: str
    sells: bool


class SalePrediction(elf.Job):
    """Whether `PRODUCT` will sell."""

    query = f"""
        SELECT SUM(clicks_count) AS clicks, SUM(likes_count) AS likes, SUM(buys_count) AS bought FROM events
        WHERE product == '{PRODUCT}' WINDOWING 5 SECONDS
    """
    timer_s = 5.0

    def __init__(self) -> None:
        self.prediction: Prediction | None = None

    def on_timer(self) -> None:
        if not self.is_root:
            return
        try:
            answer = self.route("product-bundling", Alike(PRODUCT))
            batches = self.ask("micro-promotion")
        except elf.NoAnswerError as error:
            self.log(f"no prediction: {error}")
            return
        if not batches or not answer.as_of:
            self.log("no prediction: the others have no results yet")
            return
        self.predict(answer, batches[-1])

    def predict(self, answer: Bundles, batch: elf.Window) -> None:
        together = answer.bundles[0].products if answer.bundles else [PRODUCT]
        most_clicked = [row["product"] for row in batch.rows[:POPULAR]]
        popular = [product for product in most_clicked if product in together]
        sells = 2 * len(popular) > len(together)
        self.prediction = Prediction(PRODUCT, together, answer.as_of, popular, batch.window_end or "", sells)
        self.show(asdict(self.prediction))
        will = "will sell" if sells else "will not sell"
        self.log(f"{PRODUCT} {will}: popular are {len(popular)} of {len(together)}, itself and what goes with it")

    def deliver(self, app: str, message: Predict) -> Prediction:
        if self.prediction is None:
            raise elf.JobError("has made no prediction yet")
        return self.prediction
