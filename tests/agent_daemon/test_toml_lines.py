"""Lines of keys: never a wrong one, whatever the text looks like."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from agent.configuration.toml_lines import KeyPath, key_lines

TRICKY = """\
# a = 1
"quoted key" = "a # b"  # c = 2
'lit.eral' = '''
[not.a.table]
x = 1
'''
a.b.c = \"\"\"
  one \\
  two = 3 \\\"\"\"
[[x]]
\"\"\"\"\"
when = 1979-05-27 07:32:00Z
nested = [ # first
  [1, 2], # second
  { k = "]", l = [ "," ] },
]

[fruit.skin] # ] [
colour = "red"
[fruit]
name = "apple"
[[fruit.kinds]]
name = "x"
[fruit.kinds.more]
deep = true
[[fruit.kinds]]
name = "y"
"""


def test_tricky_texts() -> None:
    lines = key_lines(TRICKY, tomllib.loads(TRICKY))
    assert lines == {
        ("quoted key",): 2,
        ("lit.eral",): 3,
        ("a",): 7, ("a", "b"): 7, ("a", "b", "c"): 7,
        ("when",): 12,
        ("nested",): 13,
        ("nested", 0): 14, ("nested", 0, 0): 14, ("nested", 0, 1): 14,
        ("nested", 1): 15, ("nested", 1, "k"): 15, ("nested", 1, "l"): 15, ("nested", 1, "l", 0): 15,
        ("fruit",): 20,
        ("fruit", "skin"): 18, ("fruit", "skin", "colour"): 19,
        ("fruit", "name"): 21,
        ("fruit", "kinds"): 22,
        ("fruit", "kinds", 0): 22, ("fruit", "kinds", 0, "name"): 23,
        ("fruit", "kinds", 0, "more"): 24, ("fruit", "kinds", 0, "more", "deep"): 25,
        ("fruit", "kinds", 1): 26, ("fruit", "kinds", 1, "name"): 27,
    }  # fmt: skip


def test_lines_end_as_they_do_on_windows() -> None:
    text = TRICKY.replace("\n", "\r\n")
    assert key_lines(text, tomllib.loads(text)) == key_lines(TRICKY, tomllib.loads(TRICKY))


def test_a_scan_that_differs_tells_nothing() -> None:
    assert key_lines("a = 1", {"b": 1}) == {}
    assert key_lines("a = ", {"a": 1}) == {}


values = st.sampled_from(
    ["1", "-3.5e2", "true", "1979-05-27", "1979-05-27 07:32:00", '"a=b"', "'[x]'", '"\\"#"', '""', '"""\n[a]\n"b""""',
     "'''\nx = 1\n\n'''", "[]", "[\n1, # one\n 2,\n]", "[[1], [\n'a']]", '{a = 1, "b" = [2]}', "{}"]
)  # fmt: skip
names = st.sampled_from(["a", "b-1", '"c d"', "'e.f'", '"\\u0067"'])
gaps = st.lists(st.sampled_from(["", "  # x = 1", "# [t]", "\t"]), max_size=2)


@given(st.lists(st.tuples(names, values, gaps), max_size=6), st.lists(st.lists(st.tuples(names, values)), max_size=4))
def test_any_text_of_pairs_and_tables(pairs: list[tuple[str, str, list[str]]], tables: list) -> None:  # type: ignore[type-arg]
    text, line = "", 1
    expected: dict[KeyPath, int] = {}

    def write(piece: str) -> None:
        nonlocal text, line
        text += piece
        line += piece.count("\n")

    def pair(table: KeyPath, name: str, value: str) -> None:
        key = (*table, next(iter(tomllib.loads(f"{name} = 1"))))
        if key not in expected:
            expected[key] = line
            write(f"{name}  = {value}  # v = 2\n")

    for name, value, gap in pairs:
        write("".join(f"{blank}\n" for blank in gap))
        pair((), name, value)
    for number, content in enumerate(tables):
        expected[("tables", number)] = line
        write("[[ tables ]]\n")
        for name, value in content:
            pair(("tables", number), name, value)
    lines = key_lines(text, tomllib.loads(text))
    assert {key: lines[key] for key in expected} == expected
