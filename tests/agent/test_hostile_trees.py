"""Whatever is said in one of a job's trees, or by who claims to be its root: the result tells who is in it, wholly."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_hostile_snapshots import APP, CHILD, ENDS, EPOCH, ROOT, SQL, Root, a_frame, any_counted, counted

import cbt
from agent import Agent, StreamOptions
from agent.runtime.messages.jobs import CODEC, Announce, Snapshot
from agent.runtime.model.panes import END, FIRST_PANE
from cbt.algebra.partitions import partition_of
from cbt.layout.group_limit import GroupLimit
from overlay import Id, MessageReceived, Node, Peer, WireError, distance, tree_id

TREES = 3
COUNTED = "SELECT product, COUNT(*) AS n FROM web GROUP BY product"
LAYOUT = cbt.Layout([cbt.Key("k0", "any")], [cbt.Aggregate("a0", "count", None, "any")])


class Master(Root):
    """A job's master, whose agent works as well; in every tree it has one child, which is on the roster."""

    def __init__(self, sql: str = COUNTED, **options: Any) -> None:
        super().__init__(f"{sql} TREES {TREES}", **options)
        for tree in range(1, TREES):
            self.part.nodes.add_child(CHILD, tree)

    def hears(self, tree: int, **fields: Any) -> int:
        """The root of a tree sends a run, of nothing but what is given; how many were refused."""
        empty = {"state": pl.DataFrame(schema=self.schema), "counted": []}
        filled = {"after": FIRST_PANE, "upto": END, "contributors": b"\3", "of_root": True} | empty | fields
        frames = {name: cbt.encode_frame(v) for name, v in filled.items() if isinstance(v, pl.DataFrame)}
        before = self.part.refused
        message = Snapshot(APP, filled.pop("epoch", EPOCH), 1, tree=tree, **(filled | frames))
        self.part.take_snapshot(CHILD, message)
        return self.part.refused - before

    def told(self) -> list[tuple[Any, ...]]:
        """What comes of it when all agents have come to their end."""
        return [(one.contributors, one.missing, one.partial, one.events, len(one.rows)) for one in self.finish()]


@cache
def groups(*trees: int) -> pl.DataFrame:
    """A group in each of these ranges."""
    names = [f'"{number}"' for number in range(50)]
    found = LAYOUT.lift(pl.DataFrame({"pane": [0] * len(names), "k0": names}))
    by_tree = {partition_of(row["hash"], TREES): json.loads(row["k0"]) for row in found.iter_rows(named=True)}
    return LAYOUT.lift(pl.DataFrame({"pane": [0] * len(trees), "k0": [by_tree[tree] for tree in trees]}))


def test_a_result_has_the_groups_of_every_tree() -> None:
    root = Master()
    assert root.says(state=groups(0), counted=counted(0, events=4)) == 0
    assert [root.hears(tree, state=groups(tree)) for tree in (1, 2)] == [0, 0]
    assert root.told() == [(2, [], [], 7, 3)]


def test_who_is_in_some_trees_only_is_partial() -> None:
    root = Master()
    root.says(counted=counted(0, events=4))
    root.hears(1)
    root.hears(2, contributors=b"\1")
    (result,) = root.finish()
    assert (result.contributors, result.missing, result.partial) == (2, [], ["child"])


UNSOUND: dict[str, dict[str, Any]] = {
    "a group of another range": {"state": groups(2)},
    "groups of two ranges": {"state": groups(1, 2)},
    "counts": {"counted": counted(0, events=5)},
    "a frame that is none": {"state": b"not a frame"},
    "contributors that nobody knows": {"contributors": b"\6"},
}


@pytest.mark.parametrize("fields", UNSOUND.values(), ids=UNSOUND)
def test_an_unsound_run_of_a_root_makes_all_partial_and_nobody_waits_for_it(fields: dict[str, Any]) -> None:
    root = Master()
    root.says(counted=counted(0, events=4))
    assert root.hears(1, **fields) == 1
    assert root.hears(2) == 0
    (result,) = root.finish()
    assert (result.contributors, result.partial, result.events) == (2, ["root", "child"], 7)


@pytest.mark.parametrize("tree", range(TREES))
def test_a_child_says_in_each_tree_what_is_of_that_tree(tree: int) -> None:
    root = Master()
    other = (tree + 1) % TREES
    assert root.says(tree=tree, state=groups(other)) == 1
    assert root.says(tree=tree, upto=END, state=groups(tree)) == 1, "its agents are missing already"


def test_any_tree_may_have_groups_beyond_its_limit() -> None:
    root = Master(max_groups=2)
    limited = GroupLimit(1, "other").apply(LAYOUT, LAYOUT.combine([groups(1), groups(0), groups(2)]))
    _, other = limited.iter_slices(1)
    root.says(counted=counted(0, events=4))
    assert [root.hears(1, state=other), root.hears(2, state=other)] == [0, 0]
    (result,) = root.finish()
    assert result.other is not None
    assert result.other.values["n"] == 4
    assert not result.partial


@pytest.mark.parametrize("tree", [TREES, 63])
def test_a_tree_that_the_job_does_not_have_is_refused(tree: int) -> None:
    root = Master()
    assert root.hears(tree) == 1
    assert root.says(tree=tree) == 1
    assert not root.part.take_detached(Snapshot(APP, EPOCH, 1, 0, 1, b"\2", b"", b"", detached=True, tree=tree))


def test_tree_0_has_no_root_but_the_master() -> None:
    assert Master().hears(0) == 1


@pytest.mark.parametrize("tree", [-1, 64])
def test_a_tree_beyond_all_limits_is_no_message(tree: int) -> None:
    message = Snapshot(APP, EPOCH, 1, 0, 1, b"", b"", b"", tree=tree)
    with pytest.raises(WireError):
        CODEC.decode(CODEC.encode(message))


def test_two_who_claim_to_be_the_root_count_nobody_twice() -> None:
    root = Master()
    root.says(counted=counted(0, events=4))
    assert root.hears(1, upto=0, contributors=b"\2", state=groups(1)) == 0
    assert root.hears(1, upto=0, contributors=b"\2", state=groups(1)) == 0
    assert root.hears(1, contributors=b"\1", state=groups(1)) == 0
    assert root.hears(1, after=FIRST_PANE, contributors=b"\2", state=groups(1)) == 0
    root.hears(2)
    (result,) = root.finish()
    assert (result.contributors, result.missing) == (2, [])
    assert [row["n"] for row in result.rows if row["product"] not in ("a", "b")] == [2], "each of them once"


@pytest.mark.fuzz
@given(st.data())
def test_no_run_harms_a_master(data: st.DataObject) -> None:
    """Any span, any contributors, any values in the right columns, in any tree, from anyone."""
    root = Master(data.draw(st.sampled_from((COUNTED, SQL[0]))))
    for _ in range(data.draw(st.integers(1, 4))):
        tree, says = data.draw(st.integers(0, TREES)), data.draw(st.sampled_from((root.says, root.hears)))
        fields: dict[str, Any] = {
            "after": data.draw(st.sampled_from(ENDS)),
            "upto": data.draw(st.sampled_from(ENDS)),
            "contributors": data.draw(st.sampled_from((b"", b"\2", b"\1", b"\3", b"\xff" * 8))),
            "state": data.draw(
                st.sampled_from((groups(0), groups(1), groups(0, 2), a_frame(data.draw, root.schema, ("pane", "hash"))))
            ),
            "counted": any_counted(data.draw),
            "detached": data.draw(st.booleans()),
        }
        root.hears(tree, **fields) if says == root.hears else root.says(tree=tree, **fields)
    root.hears(1)
    root.hears(2)
    results = root.finish()
    for result in results:
        assert result.to_json()
        assert result.contributors + len(result.missing) == result.expected == 2


def test_who_is_farther_from_a_trees_key_than_the_master_is_not_its_root() -> None:
    key = tree_id(APP, 1)
    node = Node(Peer(Id(key ^ 4), "master"), random=random.Random(1))
    agent = Agent("master", node, {"web": StreamOptions()})
    near, far = Id(key ^ 1), Id(key ^ (1 << 127))
    assert distance(key, near) < 4 < distance(key, far)
    announce = Announce(APP, EPOCH, Peer(ROOT, "x"), "x", "shop", "web", "", True, 1, FIRST_PANE, 0, 0, trees=2)
    assert agent.directory.believe(announce, 0.0)
    part = agent.jobs.get(APP)
    assert part is not None
    assert len(part.nodes) == 2
    for who, taken in ((far, False), (near, True)):
        assert agent.jobs._trees.may_be_root(APP, 1, Peer(who, "who")) is taken
    refused = agent.refused
    claim = CODEC.encode(Snapshot(APP, EPOCH, 1, 0, 1, b"\1", b"", b"", tree=1, of_root=True))
    agent.process(MessageReceived(Peer(near, "near"), claim), 0.0, 0)
    assert agent.refused > refused, "this agent is not the master"
