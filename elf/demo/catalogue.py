"""The demo shop's products and visitors: constants that the servers and the load share."""

import re
from dataclasses import dataclass
from itertools import product as pairs

FLASH_PRODUCT = "Star Courier Arena"
"""The product the flash crowd runs to; quite unpopular until then."""

_TITLES = {
    "video_games": (
        "Angry Birds,Castle Quest,Star Courier,Harbour Tycoon,Moss Golem,Turbo Kart,Night Signal,Pixel Farm",
        "Season,Deluxe,Arena,Classic,Reloaded,Gold",
    ),
    "music": (
        "Blue Kites,The Low Tides,Paper Radio,Anna Holm,Concrete Garden,Tin Orchestra,Velvet Yard,Nine Moons",
        "Live,Unplugged,Singles,Remixed,First Takes,Collected",
    ),
    "books": (
        "The Cartographer,Salt and Iron,A Winter Ledger,Quiet Engines,Borrowed Maps,Small Rivers,Glass,Tides",
        "Paperback,Hardcover,Audiobook,Illustrated,Large Print,Annotated",
    ),
    "toys": (
        "Brick City,Wooden Train,Marble Tower,Puzzle Atlas,Kite Workshop,Robot Friends,Paint Box,Memory Zoo",
        "Starter Set,Family Pack,Pocket Edition,Anniversary Box,Refill,Gift Card",
    ),
    "kitchen": (
        "Copper Pan,Pasta Machine,Tea Pot,Bread Stone,Spice Rack,Coffee Mill,Salad Bowl,Knife Block",
        "Small,Medium,Large,Black,White,Steel",
    ),
    "garden": (
        "Tulip Bulbs,Rain Barrel,Herb Spiral,Pruning Shears,Bird House,Rose Arch,Compost Bin,Lantern Path",
        "Spring,Summer,Autumn,Winter,Balcony,Meadow",
    ),
}
"""Titles and editions by store. Every pair of them is a product."""

_NAMES = (
    "Curry,Ada,Linus,Grace,Ken,Barbara,Edsger,Radia,Alan,Margaret,Donald,Frances,Niklaus,Jean,Tim,Hedy,"
    "Claude,Katherine,Vint,Annie,Dennis,Sophie,Bjarne,Karen,Zoë"
)
LOCATIONS = {
    "Ohio": (-83, 40), "Georgia": (-84, 34), "Oregon": (-123, 44), "Texas": (-97, 31), "New York": (-74, 41),
    "California": (-119, 36), "Ontario": (-79, 44), "São Paulo": (-47, -24), "Zürich": (9, 47), "Oslo": (11, 60),
    "Lagos": (3, 7), "Nairobi": (37, -1), "Mumbai": (73, 19), "Osaka": (135, 35), "Seoul": (127, 38),
    "Sydney": (151, -34), "Kraków": (20, 50), "Porto": (-9, 41), "Lyon": (5, 46), "Reykjavík": (-22, 64),
}  # fmt: skip
"""Longitude and latitude of visitors' locations."""
_USERS = 500
CAMPAIGN = "Erewhon"
"""Location of the accounts that publish only sales."""
_SPAMMERS = 6
_SPAM_POSITION = (-140, -45)

USER_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Safari/605.1.15",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148",
    "curl/8.8.0",
    'PriceWatch/2.1 ("compare everything"; +https://pricewatch.example/bot)',
)
REFERENCES = ("home", "store", "search", "mail", "friend")
"""Values of `ref` in a product page's URL: how the visitor came there."""

MISSING_PATHS = ("/missing", "/favicon.ico", "/wp-login.php", "/product/sold-out")


@dataclass(frozen=True, slots=True)
class Product:
    """One thing to buy; `slug` is its name in a URL."""

    name: str
    store: str
    slug: str


@dataclass(frozen=True, slots=True)
class User:
    """One visitor; `address` is the IP address the load balancer forwards for them."""

    id: int
    name: str
    location: str
    address: str
    followers: int = 0
    longitude: float = 0.0
    latitude: float = 0.0


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _user(number: int) -> User:
    names, locations = _NAMES.split(","), list(LOCATIONS)
    again, position = divmod(number, len(names))
    location = locations[number * 7 % len(locations)]
    longitude, latitude = LOCATIONS[location]
    return User(
        id=343_284_040 + 7_919 * number,
        name=f"@{names[position]}{again or ''}",
        location=location,
        address=_address(number),
        followers=20 + number * 379 % 3_000,
        longitude=round(longitude + number * 37 % 300 / 100 - 1.5, 2),
        latitude=round(latitude + number * 61 % 300 / 100 - 1.5, 2),
    )


def _spammer(number: int) -> User:
    longitude, latitude = _SPAM_POSITION
    return User(
        id=700_000_000 + number,
        name=f"@deals{number}",
        location=CAMPAIGN,
        address=_address(_USERS + number),
        followers=number,
        longitude=longitude,
        latitude=latitude,
    )


def _address(number: int) -> str:
    network = ("192.0.2", "198.51.100", "203.0.113")[number % 3]  # the networks reserved for documentation
    return f"{network}.{1 + number // 3 % 254}"


STORES = tuple(_TITLES)
PRODUCTS = tuple(
    Product(name, store, _slug(name))
    for store, (titles, editions) in _TITLES.items()
    for name in map(" ".join, pairs(titles.split(","), editions.split(",")))
)
USERS = tuple(_user(number) for number in range(_USERS))
SPAMMERS = tuple(_spammer(number) for number in range(1, 1 + _SPAMMERS))
VISITORS = (*USERS, *SPAMMERS)
