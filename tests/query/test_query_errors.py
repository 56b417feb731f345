"""Typical mistakes and exactly what a person is told about them."""

from __future__ import annotations

import pytest

from query import QueryError, Schema, analyze, parse

CATALOG = {
    "web": Schema({"status": "integer", "path": "string", "time": "timestamp", "size": "integer"}, open=False),
    "shop": Schema({"product": "any"}, open=True),
    "orders": Schema({"Quantity": "text", "Country": "text"}, open=False),
}

MISTAKES = {
    "SELCT path FROM web": """
line 1, column 1: SELCT cannot stand here
  SELCT path FROM web
  ^^^^^
a query begins with SELECT""",
    "SELECT FROM web": """
line 1, column 8: FROM is a keyword and cannot stand here
  SELECT FROM web
         ^^^^
expected an expression or *; a column of this name is written "FROM\"""",
    "SELECT path FORM web": """
line 1, column 18: web cannot stand here
  SELECT path FORM web
                   ^^^
did you mean FROM instead of FORM?""",
    "SELECT path FROM web WHERE": """
line 1, column 27: the query ends too early
  SELECT path FROM web WHERE
                            ^
expected an expression""",
    "SELECT path FROM web WHERE path = '/a": """
line 1, column 35: this string is never closed
  SELECT path FROM web WHERE path = '/a
                                    ^
close it with '""",
    "SELECT path FROM web GROUP path": """
line 1, column 28: path cannot stand here
  SELECT path FROM web GROUP path
                             ^^^^
did you mean GROUP BY instead of GROUP?""",
    "SELECT path FROM web LIMIT -1": """
line 1, column 28: LIMIT needs a whole number of rows, 0 or more
  SELECT path FROM web LIMIT -1
                             ^""",
    "SELECT path FROM web WINDOWING 30 SECS": """
line 1, column 35: a length of time needs a unit, not SECS
  SELECT path FROM web WINDOWING 30 SECS
                                    ^^^^
did you mean SECONDS?""",
    "SELECT path FROM web WINDOWING 0 SECONDS": """
line 1, column 22: a window of zero length holds nothing
  SELECT path FROM web WINDOWING 0 SECONDS
                       ^^^^^^^^^^^^^^^^^^^
as in WINDOWING 30 SECONDS""",
    "SELECT path FROM web ORDER BY path WHERE status = 1": """
line 1, column 36: WHERE cannot stand here
  SELECT path FROM web ORDER BY path WHERE status = 1
                                     ^^^^^
the order of clauses is SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, WINDOWING, WITHIN and TREES""",
    "SELECT path FROM web WHERE 1 < size < 5": """
line 1, column 37: comparisons cannot be chained
  SELECT path FROM web WHERE 1 < size < 5
                                      ^
join two comparisons with AND""",
    "SELECT 1abc FROM web": """
line 1, column 8: 1abc is not a number
  SELECT 1abc FROM web
         ^^^^""",
    "SELECT SUM(size FROM web": """
line 1, column 17: FROM cannot stand here
  SELECT SUM(size FROM web
                  ^^^^
expected a comma or )""",
    "SELECT path FROM web; SELECT 1": """
line 1, column 23: something follows the end of the query
  SELECT path FROM web; SELECT 1
                        ^^^^^^
give one query at a time""",
    "SELECT 99999999999999999999 FROM web": """
line 1, column 8: this integer does not fit 64 bits
  SELECT 99999999999999999999 FROM web
         ^^^^^^^^^^^^^^^^^^^^
write it with a decimal point to use an approximate number""",
    "SELECT path\x1b[31m FROM web": """
line 1, column 12: a query cannot hold the control character U+001B
  SELECT path\N{REPLACEMENT CHARACTER}[31m FROM web
             ^""",
    "SELECT\n  path,\n  sttus\nFROM web": """
line 3, column 3: there is no column sttus in web
    sttus
    ^^^^^
did you mean status?""",
    "SELECT path FROM wbe": """
line 1, column 18: there is no stream wbe
  SELECT path FROM wbe
                   ^^^
did you mean web?""",
    "SELECT path FROM clicks": """
line 1, column 18: there is no stream clicks
  SELECT path FROM clicks
                   ^^^^^^
the streams are orders, shop and web""",
    "SELECT COUNT(*)": """
line 1, column 8: the query does not say what it reads
  SELECT COUNT(*)
         ^^^^^^^^
add FROM *, FROM orders, FROM shop or FROM web""",
    "SELECT SUN(size) FROM web": """
line 1, column 8: there is no function SUN
  SELECT SUN(size) FROM web
         ^^^^^^^^^
did you mean SUM?""",
    "SELECT SUM(MAX(size)) FROM web": """
line 1, column 12: MAX cannot be used inside SUM: aggregates do not nest
  SELECT SUM(MAX(size)) FROM web
             ^^^^^^^^^""",
    "SELECT path FROM web WHERE COUNT(*) > 1": """
line 1, column 28: COUNT cannot be used in WHERE
  SELECT path FROM web WHERE COUNT(*) > 1
                             ^^^^^^^^
WHERE sees single events, before they are grouped""",
    "SELECT path, COUNT(*) FROM web GROUP BY status": """
line 1, column 8: path is neither grouped nor aggregated
  SELECT path, COUNT(*) FROM web GROUP BY status
         ^^^^
add GROUP BY path, or use an aggregate such as MAX(path)""",
    "SELECT size, size FROM web": """
line 1, column 14: two columns of the result are named size
  SELECT size, size FROM web
               ^^^^
give one another name with AS, as in size AS other""",
    "SELECT COUNT(*) FROM web WHERE status = '404'": """
line 1, column 32: status is a number and '404' is a string: they cannot be compared
  SELECT COUNT(*) FROM web WHERE status = '404'
                                 ^^^^^^^^^^^^^^""",
    "SELECT price + 1 FROM shop\nWHERE price = 'cheap'": """
line 2, column 7: price is a number (at line 1, column 8) and 'cheap' is a string: they cannot be compared
  WHERE price = 'cheap'
        ^^^^^^^^^^^^^^^""",
    "SELECT price FROM shop WHERE price LIKE 'a%' AND price > 5": """
line 1, column 50: price is a string (at line 1, column 30) and 5 is a number: they cannot be compared
  SELECT price FROM shop WHERE price LIKE 'a%' AND price > 5
                                                   ^^^^^^^^^""",
    "SELECT path FROM web WHERE time > 'noon'": """
line 1, column 35: 'noon' is not a time
  SELECT path FROM web WHERE time > 'noon'
                                    ^^^^^^
write a time as '2024-05-01', '2024-05-01 12:00:00' or '2024-05-01T12:00:00Z'""",
    "SELECT Country FROM orders WHERE Country": """
line 1, column 34: Country is text, not true or false
  SELECT Country FROM orders WHERE Country
                                   ^^^^^^^
compare it with a string, as in Country = 'true'""",
    "SELECT MEDIAN(size) FROM web": """
line 1, column 8: there is no function MEDIAN
  SELECT MEDIAN(size) FROM web
         ^^^^^^^^^^^^
did you mean APPROX_MEDIAN?""",
    "SELECT APPROX_QUANTILE(size, 95) FROM web": """
line 1, column 30: q is a number from 0 to 1
  SELECT APPROX_QUANTILE(size, 95) FROM web
                               ^^
as in APPROX_QUANTILE(ms, 0.95)""",
    "SELECT APPROX_TOP_K(path, status) FROM web": """
line 1, column 27: all but the first argument of APPROX_TOP_K are numbers as such
  SELECT APPROX_TOP_K(path, status) FROM web
                            ^^^^^^
as in APPROX_TOP_K(path, 2)""",
    "SELECT HISTOGRAM(size) FROM web": """
line 1, column 8: HISTOGRAM is written HISTOGRAM(x, width, ...)
  SELECT HISTOGRAM(size) FROM web
         ^^^^^^^^^^^^^^^
as in HISTOGRAM(ms, 100)""",
    "SELECT HISTOGRAM(size, 1, 10, 5) FROM web": """
line 1, column 31: the bounds of buckets ascend
  SELECT HISTOGRAM(size, 1, 10, 5) FROM web
                                ^
as in HISTOGRAM(ms, 100)""",
    "SELECT MIN(DISTINCT size) FROM web": """
line 1, column 8: MIN takes no DISTINCT
  SELECT MIN(DISTINCT size) FROM web
         ^^^^^^^^^^^^^^^^^^
leave it out: MIN is the same without""",
    "SELECT COLLECT(time) FROM web": """
line 1, column 16: time is a time, which COLLECT does not take
  SELECT COLLECT(time) FROM web
                 ^^^^""",
    "SELECT BOOL_AND(size) FROM web": """
line 1, column 17: size is a number, not true or false
  SELECT BOOL_AND(size) FROM web
                  ^^^^""",
    "SELECT SUM(size) FILTER (WHERE size) FROM web": """
line 1, column 32: size is a number, not true or false
  SELECT SUM(size) FILTER (WHERE size) FROM web
                                 ^^^^""",
    "SELECT SUM(size) FILTER (WHERE MAX(size) > 1) FROM web": """
line 1, column 32: MAX cannot be used inside SUM: aggregates do not nest
  SELECT SUM(size) FILTER (WHERE MAX(size) > 1) FROM web
                                 ^^^^^^^^^""",
    "SELECT path FROM web GROUP BY path HAVING status > 1": """
line 1, column 43: status is neither grouped nor aggregated
  SELECT path FROM web GROUP BY path HAVING status > 1
                                            ^^^^^^
add GROUP BY status, or use an aggregate such as MAX(status)""",
    "SELECT path FROM web GROUP BY path HAVING COUNT(*)": """
line 1, column 43: COUNT(*) is a number, not true or false
  SELECT path FROM web GROUP BY path HAVING COUNT(*)
                                            ^^^^^^^^""",
    "SELECT path FROM web ORDER BY path HAVING COUNT(*) > 1": """
line 1, column 36: HAVING cannot stand here
  SELECT path FROM web ORDER BY path HAVING COUNT(*) > 1
                                     ^^^^^^
the order of clauses is SELECT, FROM, JOIN, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, WINDOWING, WITHIN and TREES""",
    "SELECT path FROM web ORDER BY path NULLS": """
line 1, column 36: NULLS cannot stand here
  SELECT path FROM web ORDER BY path NULLS
                                     ^^^^^
did you mean NULLS LAST?""",
    "SELECT DISTINCT path FROM web ORDER BY size": """
line 1, column 40: size is neither grouped nor aggregated
  SELECT DISTINCT path FROM web ORDER BY size
                                         ^^^^
of SELECT DISTINCT, only what is selected is left: add size to it""",
    "SELECT DISTINCT path, COUNT(*) FROM web": """
line 1, column 17: SELECT DISTINCT has neither GROUP BY nor HAVING nor aggregates
  SELECT DISTINCT path, COUNT(*) FROM web
                  ^^^^
leave DISTINCT out: GROUP BY gives each combination of its keys once""",
    "SELECT window_start FROM shop": """
line 1, column 8: window_start needs WINDOWING
  SELECT window_start FROM shop
         ^^^^^^^^^^^^
add it, as in WINDOWING 1 MINUTE""",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_explained(text):
    with pytest.raises(QueryError) as caught:
        analyze(parse(text), CATALOG)
    assert str(caught.value) == MISTAKES[text].removeprefix("\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the query is empty"),
        ("-- nothing but a comment", "the query ends too early"),
        ("SELECT 'a' FROM web WHERE path = “x”", "this is a typographic quotation mark"),
        ('SELECT "path FROM web', "this quoted name is never closed"),
        ("SELECT 1e999 FROM web", "this number is too large"),
        ("SELECT path FROM web WHERE status = 1 && size = 1", "& means nothing here"),
        ("SELECT \ud800 FROM web", "this is not valid Unicode text"),
        ("SELECT path FROM web LIMIT 1.5", "LIMIT needs a whole number of rows, 0 or more"),
        (
            "SELECT path FROM web LIMIT 1000001",
            "the LIMIT of a query without aggregates may be at most 1,000,000",
        ),
        ("SELECT path FROM web WINDOWING 99999999 DAYS", "a window may be at most 36,500 days long"),
        ("SELECT path FROM web WINDOWING 30", "the query ends too early"),
        ("SELECT COUNT(*) FROM web GROUP BY 2", "GROUP BY 2 is no position in SELECT, which has 1"),
        ("SELECT COUNT(*) FROM web GROUP BY 1", "COUNT cannot be used in GROUP BY"),
        ("SELECT path FROM web ORDER BY 0", "ORDER BY 0 is no position in SELECT, which has 1"),
        ("SELECT * FROM web GROUP BY path", "SELECT * cannot be used with GROUP BY"),
        ("SELECT *, COUNT(*) FROM web", "status is neither grouped nor aggregated"),
        ("SELECT SUM(*) FROM web", "SUM takes one argument: SUM(column)"),
        ("SELECT COUNT(path, size) FROM web", "COUNT takes one argument: COUNT(column) or COUNT(*)"),
        ("SELECT COUNT(DISTINCT *) FROM web", "COUNT takes one argument: COUNT(DISTINCT column)"),
        ("SELECT FIRST(*) FROM web", "FIRST takes one argument: FIRST(column)"),
        ("SELECT APPROX_COUNT_DISTINCT(path, 3) FROM web", "lg_k is a whole number from 4 to 21"),
        ("SELECT COLLECT(path, 10001) FROM web", "n is a whole number from 1 to 10,000"),
        ("SELECT COLLECT(path, 2.5) FROM web", "n is a whole number from 1 to 10,000"),
        ("SELECT HISTOGRAM(size, -1) FROM web", "the width of a bucket is above 0"),
        (
            "SELECT APPROX_TOP_K(path, 10, 5) FROM web",
            "the 10 most frequent values are found among 10 tracked ones at least",
        ),
        ("SELECT path.name FROM web", "path has no fields: there is no path.name"),
        ("SELECT path FROM web WHERE path LIKE path", "LIKE needs a pattern in quotes"),
        ("SELECT path FROM web WHERE path LIKE 'a\\'", "a LIKE pattern cannot end with a single \\"),
        ("SELECT path FROM web WHERE 'x'", "'x' is a string, not true or false"),
        ("SELECT time + 1 FROM web", "time is a time, not a number"),
        ("SELECT path FROM web WHERE time = 5", "time is a time and 5 is not"),
        (
            "SELECT a FROM shop WHERE a AND a > 5",
            "a is used as true or false here, but as a number at line 1, column 36",
        ),
        (
            "SELECT path FROM web WHERE window_start > '2024' WINDOWING 1 DAY",
            "window_start cannot be used in WHERE",
        ),
    ],
)
def test_messages(text, message):
    with pytest.raises(QueryError) as caught:
        analyze(parse(text), CATALOG)
    assert caught.value.message == message


def test_a_catalog_without_streams():
    for text in ("SELECT 1", "SELECT 1 FROM web", "SELECT 1 FROM *"):
        with pytest.raises(QueryError, match="there is no stream to read"):
            analyze(parse(text), {})


def test_place_and_length_are_told():
    with pytest.raises(QueryError) as caught:
        analyze(parse("SELECT size\nFROM web\nWHERE sttus = 200"), CATALOG)
    assert (caught.value.line, caught.value.column, caught.value.length) == (3, 7, 5)


def test_long_lines_are_cut_around_the_place():
    with pytest.raises(QueryError) as caught:
        analyze(parse("SELECT " + "path = '" + "x" * 500 + "', sttus FROM web"), CATALOG)
    _, excerpt, carets, hint = str(caught.value).split("\n")
    assert excerpt[carets.index("^") : carets.rindex("^") + 1] == "sttus"
    assert len(excerpt) < 110
    assert hint == "did you mean status?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT '" + "x" * 65_536 + "'", "the query is 65,545 bytes long; at most 65,536 are allowed"),
        (
            "SELECT " + "NOT " * 10_000 + "a",
            "this is nested too deeply: more than 100 operations inside each other",
        ),
        (
            "SELECT " + "-(" * 10_000 + "a" + ")" * 10_000,
            "this is nested too deeply: more than 100 operations",
        ),
        (
            "SELECT " + "(" * 10_000 + "a" + ")" * 10_000,
            "this is nested too deeply: more than 100 parentheses inside each other",
        ),
        (
            "SELECT " + "+".join("a" * 10_000),
            "this is nested too deeply: more than 100 operations inside each other",
        ),
        (
            "SELECT " + "SUM(" * 10_000 + "a" + ")" * 10_000,
            "this is nested too deeply: more than 100 operations",
        ),
        (
            "SELECT " + ", ".join(f"COUNT(DISTINCT a + {n})" for n in range(101)),
            "COUNT is one too many",
        ),
        ("SELECT DISTINCT " + ", ".join(f"a{n}" for n in range(65)), "SELECT DISTINCT may give at most 64 columns"),
        ("SELECT HISTOGRAM(a, " + ", ".join(map(str, range(1_001))) + ")", "HISTOGRAM is written HISTOGRAM(x, width"),
        ("SELECT " + "9" * 60_000, "this integer does not fit 64 bits"),
        ("SELECT " + ",".join(f"a{n}" for n in range(1_001)), "SELECT may give at most 1,000 columns"),
        ("SELECT a ORDER BY " + ",".join("a" * 65), "ORDER BY may have at most 64 keys"),
        (
            "SELECT a IN (" + ", ".join(map(str, range(4_001))) + ")",
            "this is too long: a list, or a chain of AND or OR, has at most 4,000 members",
        ),
        ("SELECT a LIKE '" + "_" * 1_001 + "'", "a LIKE pattern may have at most 1,000 characters"),
        (
            "SELECT " + " OR ".join(["a"] * 3_900) + " AS b ORDER BY b, b, b, b",
            "the query is too large: more than 12,000 names, values and operators",
        ),
        (
            "SELECT a WHERE " + " AND ".join(f"b{n}" for n in range(2_000)),
            "the query uses more than 1,000 columns",
        ),
    ],
)
def test_bombs_are_refused(text, message):
    with pytest.raises(QueryError) as caught:
        analyze(parse(text), {"web": Schema({}, open=True)})
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 100 + "a" + ")" * 100 + " FROM web",
        "SELECT a FROM web WHERE " + " OR ".join(f"a = {n}" for n in range(3_900)),
        "SELECT a FROM web WHERE a IN (" + ", ".join(map(str, range(3_900))) + ")",
        "SELECT " + "+".join(["a"] * 99) + " FROM web",
    ],
)
def test_large_queries_that_are_allowed(text):
    analyze(parse(text), {"web": Schema({}, open=True)})
