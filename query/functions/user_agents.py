"""Classes of user agents, by a small table of words: the first row with a word that is in the text decides."""

from __future__ import annotations

import polars as pl

from query.functions.function import Arguments, ScalarFunction
from query.physical.values import Value

CLASSES = (
    ("bot", ("bot", "crawl", "spider", "slurp", "facebookexternalhit", "mediapartners", "bingpreview", "archiver",
             "pingdom", "uptime", "monitor", "headless", "lighthouse", "feedfetcher", "preview")),
    ("tool", ("curl/", "wget", "python-", "python/", "aiohttp", "httpx", "go-http-client", "java/", "okhttp",
              "apache-httpclient", "libwww", "perl", "ruby", "php/", "guzzle", "axios", "node-fetch", "postman",
              "insomnia", "httpie", "powershell", "scrapy", "nmap", "nikto", "sqlmap", "zgrab", "masscan")),
    ("tablet", ("ipad", "tablet", "kindle", "silk/", "playbook")),
    ("mobile", ("iphone", "ipod", "android", "mobile", "windows phone", "blackberry", "opera mini", "symbian")),
    ("browser", ("mozilla/", "opera/", "lynx/", "links ", "w3m/")),
)  # fmt: skip
"""(class, words in lower case), in the order they are tried; a text without any of them is `other`."""


def _class(arguments: Arguments) -> Value:
    text = arguments.expression(0)
    return arguments.result(text.map_batches(_classes, return_dtype=pl.String, is_elementwise=True), "string")


def _classes(texts: pl.Series) -> pl.Series:
    """The class of each text; each distinct one is looked at once."""
    distinct = texts.unique().drop_nulls()
    text = pl.col(texts.name)
    result = pl.lit("other")
    for name, words in reversed(CLASSES):
        found = text.str.contains_any(list(words), ascii_case_insensitive=True)
        result = pl.when(found).then(pl.lit(name)).otherwise(result)
    said = pl.when(text.str.strip_chars().is_in(["", "-"])).then(pl.lit("none")).otherwise(result)
    classes = distinct.to_frame().select(said.alias("class"))["class"]
    return texts.replace_strict(distinct, classes, default=None, return_dtype=pl.String)


FUNCTIONS = (
    ScalarFunction(
        "UA_CLASS", "user_agent: string", "string", _class,
        "bot, tool, tablet, mobile, browser, other, or none if it is empty or -",
        "UA_CLASS('Mozilla/5.0 (compatible; Googlebot/2.1)')", '"bot"',
    ),
)  # fmt: skip
