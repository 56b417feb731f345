"""The jobs that `elf demo JOB` shows, with a short description of each."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Role:
    """A shipped job: `name` is its file's, `asks` are the apps that it asks."""

    name: str
    works: str
    asks: tuple[str, ...] = ()
    seconds_min: float = 15.0
    """Least duration of the visits after which the job has found something."""

    @property
    def app(self) -> str:
        return self.name.replace("_", "-")


FIGURE_1 = "figure1"
ROLES: Mapping[str, Role] = {
    role.name: role
    for role in (
        Role("micro_promotion", "clicks in batches (flush, send up, empty); the leaders get discounts"),
        Role("product_bundling", "likes and buys in a window that slides; bundles of products are fed back"),
        Role(
            "sale_prediction",
            "one product, its bundle, and how popular they are: it asks the other two",
            ("product-bundling", "micro-promotion"),
        ),
        Role("spam_campaign", "changes its filter in flight: who, where, how few followers", seconds_min=30.0),
        Role("kmeans", "iterates: centroids down, sums up, until nothing moves"),
    )
}
PLAYS: Mapping[str, tuple[Role, ...]] = {name: (ROLES[name],) for name in sorted(ROLES)} | dict.fromkeys(
    ("sale_prediction", FIGURE_1), (ROLES["micro_promotion"], ROLES["product_bundling"], ROLES["sale_prediction"])
)


def play(name: str) -> tuple[Role, ...] | None:
    """The jobs of a demo by its name; None if there is no such demo."""
    return PLAYS.get(name.replace("-", "_"))
