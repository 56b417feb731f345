"""The shop's pages: turns a path or a form into an answer, without sockets or logs."""

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import parse_qsl

from elf.demo.catalogue import PRODUCTS, STORES, Product

_FIELDS_MAX = 20
_COUNT_MAX = 99
_TEXT_CHARACTERS_MAX = 280
DISCOUNT = 10
"""Discount in per cent, for products that have one."""


@dataclass(frozen=True, slots=True)
class PageResponse:
    """The answer to a request; `product` is set when it is an event to log."""

    status: int
    body: bytes
    location: str | None = None
    product: Product | None = None
    clicks: int = 0
    buys: int = 0
    likes: int = 0
    text: str | None = None
    discount: int = 0


def _page(title: str, content: str) -> bytes:
    return (
        f"<!doctype html>\n<html lang=en>\n<head><meta charset=utf-8><title>{title}</title></head>\n"
        f"<body>\n<h1>{title}</h1>\n{content}\n"
        f"<p><a href=/>Home</a> <a href=/cart>Cart</a></p>\n</body>\n</html>\n"
    ).encode()


def _product_page(product: Product, discount: int = 0) -> bytes:
    blurb = " ".join([f"{product.name} is what everybody talks about."] * (1 + len(product.slug) % 7))
    form = f'<form method=post action=/cart><input type=hidden name=product value="{product.slug}">'
    offer = f"<p><strong>{discount} % off, today only</strong></p>\n" if discount else ""
    return _page(product.name, f"{offer}<p>{blurb}</p>\n{form}<button name=quantity value=1>Buy</button></form>")


def _store_page(store: str) -> bytes:
    links = (
        f'<li><a href="/product/{product.slug}?ref=store">{product.name}</a>'
        for product in PRODUCTS
        if product.store == store
    )
    return _page(store.replace("_", " ").title(), "<ul>\n{}\n</ul>".format("\n".join(links)))


def _count(fields: dict[str, str], name: str) -> int:
    """A small number from a query string or form, 1 if it is missing; raises ValueError for anything else."""
    text = fields.get(name, "1")
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= _COUNT_MAX):
        raise ValueError(f"{name} is not a number between 1 and {_COUNT_MAX}")
    return int(text[:4])


def _fields(text: str) -> dict[str, str]:
    return dict(parse_qsl(text, max_num_fields=_FIELDS_MAX))


class Site:
    """All pages, made once, so that answering is a dictionary look-up."""

    failure = PageResponse(500, _page("Something went wrong", "<p>Please try again.</p>"))
    _missing = PageResponse(404, _page("Not found", "<p>There is no such page.</p>"))
    _bad = PageResponse(400, _page("Bad request", "<p>The request makes no sense.</p>"))

    def __init__(self) -> None:
        stores = "\n".join(f'<li><a href="/store/{store}">{store}</a>' for store in STORES)
        self._pages = {"/": _page("The ELF shop", f"<ul>\n{stores}\n</ul>")}
        self._pages["/cart"] = _page("Your cart", "<p>Thank you for your order.</p>")
        self._pages |= {f"/store/{store}": _store_page(store) for store in STORES}
        self._products = {product.slug: (product, _product_page(product)) for product in PRODUCTS}
        self._discounted = {product.name: _product_page(product, DISCOUNT) for product in PRODUCTS}

    def get(self, target: str, discounts: Collection[str] = ()) -> PageResponse:
        """The answer to GET of a request target, path and query string. `discounts` names the discounted products."""
        path, _, query = target.partition("?")
        if path.startswith("/product/"):
            return self._view(path.removeprefix("/product/"), query, discounts)
        body = self._pages.get(path)
        return self._missing if body is None else PageResponse(200, body)

    def post(self, target: str, form: bytes) -> PageResponse:
        """The answer to POST: /cart, /like and /comment take a `product` (slug), and a `quantity` or a `text`."""
        path = target.partition("?")[0]
        if path not in ("/cart", "/like", "/comment"):
            return self._missing
        try:
            fields = _fields(form.decode())
            quantity = _count(fields, "quantity")
        except ValueError:
            return self._bad
        product, _ = self._products.get(fields.get("product", ""), (None, b""))
        if product is None:
            return self._missing
        if path == "/cart":
            return PageResponse(303, b"", location="/cart", product=product, buys=quantity)
        if path == "/like":
            return PageResponse(303, b"", location=f"/product/{product.slug}", product=product, likes=1)
        text = fields.get("text", "")
        if not 0 < len(text) <= _TEXT_CHARACTERS_MAX:
            return self._bad
        return PageResponse(303, b"", location=f"/product/{product.slug}", product=product, text=text)

    def _view(self, slug: str, query: str, discounts: Collection[str]) -> PageResponse:
        product, body = self._products.get(slug, (None, b""))
        if product is None:
            return self._missing
        try:
            clicks = _count(_fields(query), "clicks")
        except ValueError:
            return self._bad
        if product.name in discounts:
            return PageResponse(200, self._discounted[product.name], product=product, clicks=clicks, discount=DISCOUNT)
        return PageResponse(200, body, product=product, clicks=clicks)
