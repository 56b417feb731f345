"""Parts of URLs, whole (`https://host/path?query#fragment`) or as logs have them (`/path?query`)."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote, unquote_plus

import polars as pl

from query.functions.function import Arguments, ConstantError, Scalar, ScalarFunction, of_text
from query.physical.values import Value

NAME_CHARACTERS_MAX = 200
_BEFORE_HOST = r"^(?:[A-Za-z][A-Za-z0-9+.\-]*:)?//"
_HOST = _BEFORE_HOST + r"(?:[^/?#@]*@)?(\[[^\]/?#]*\]|[^:/?#]*)"
_PATH = rf"(?:{_BEFORE_HOST}[^/?#]*|^)([^?#]*)"
_QUERY = r"^[^?#]*\?([^#]*)"


def _path(url: pl.Expr) -> pl.Expr:
    return url.map_batches(_paths, return_dtype=pl.String, is_elementwise=True)


def _paths(urls: pl.Series) -> pl.Series:
    """The path of a URL. Logs mostly have paths already, so the host is looked for only in other texts."""
    paths = urls.str.extract("^[^?#]*", 0)
    others = paths.str.contains("//", literal=True).fill_null(False).arg_true()
    return paths if others.is_empty() else paths.scatter(others, urls[others].str.extract(_PATH))


def _decoded(texts: pl.Series) -> pl.Series:
    return pl.Series(texts.name, [None if text is None else unquote(text) for text in texts], dtype=pl.String)


def _form_decoded(texts: pl.Series) -> pl.Series:
    return pl.Series(texts.name, [None if text is None else unquote_plus(text) for text in texts], dtype=pl.String)


def _parameter(arguments: Arguments) -> Value:
    name = pl.escape_regex(arguments.text(1))
    # The first parameter of the name, even if it has no value.
    pairs = arguments.expression(0).str.extract(_QUERY).str.extract(rf"(?:^|&){name}(=[^&]*|&|$)")
    bound = arguments.bind(arguments.result(pairs, "string"))
    found = bound.expression
    value = pl.when(found.str.starts_with("=")).then(found.str.slice(1)).otherwise(pl.lit(""))
    known = pl.when(found.is_not_null()).then(value)
    return Value(on_distinct(known, known.str.contains("[%+]"), _form_decoded), "string", level=bound.level)


def on_distinct(text: pl.Expr, needed: pl.Expr, convert: object) -> pl.Expr:
    """The texts, with those that need it converted in Python, each distinct one once."""

    def converted(columns: Sequence[pl.Series]) -> pl.Series:
        texts, which = columns
        chosen = texts.filter(which).unique()
        if chosen.is_empty():
            return texts
        return texts.replace(chosen, convert(chosen))  # type: ignore[operator]

    return pl.map_batches([text, needed.fill_null(False)], converted, return_dtype=pl.String, is_elementwise=True)


def _url_decode(arguments: Arguments) -> Value:
    text = arguments.bound(0).expression
    return arguments.result(on_distinct(text, text.str.contains("%", literal=True), _decoded), "string")


def _check_name(constants: Sequence[Scalar]) -> None:
    name = constants[1]
    if isinstance(name, str) and not 1 <= len(name) <= NAME_CHARACTERS_MAX:
        raise ConstantError(f"the name of a parameter has 1 to {NAME_CHARACTERS_MAX} characters")


FUNCTIONS = (
    ScalarFunction(
        "URL_HOST", "url: string", "string", of_text(lambda url: url.str.extract(_HOST).str.to_lowercase()),
        "the host, in lower case; NULL if there is none", "URL_HOST('https://me@Shop.example:8443/a?b=1')",
        '"shop.example"',
    ),
    ScalarFunction(
        "URL_PATH", "url: string", "string", of_text(_path),
        "the path, without what follows ? or #", "URL_PATH('/shop/1?page=2')", '"/shop/1"',
    ),
    ScalarFunction(
        "URL_QUERY", "url: string", "string", of_text(lambda url: url.str.extract(_QUERY)),
        "what is between ? and #, NULL if there is no ?", "URL_QUERY('/shop?a=1&b=2#top')", '"a=1&b=2"',
    ),
    ScalarFunction(
        "URL_PARAM", "url: string, name!: string", "string", _parameter,
        "the first parameter of this name, decoded; NULL if there is none",
        "URL_PARAM('/find?q=red+shoes%21&page=2', 'q')", '"red shoes!"', check=_check_name,
    ),
    ScalarFunction(
        "URL_DECODE", "text: string", "string", _url_decode,
        "with what is written as %41 decoded; + stays", "URL_DECODE('caf%C3%A9')", '"café"',
    ),
)  # fmt: skip
