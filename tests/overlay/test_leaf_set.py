import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay import ID_SPACE, Peer, closest
from overlay.pastry.tables.leaf_set import LeafSet
from overlay.wire.ids import clockwise

# Few distinct ids near both ends of the space, so that wrapping round and ties are common.
ids = st.one_of(
    st.integers(0, 60), st.integers(ID_SPACE - 60, ID_SPACE - 1), st.integers(0, ID_SPACE - 1)
)  # fmt: skip


def leaf_set(owner: int, members: list[int], size: int) -> LeafSet:
    leaves = LeafSet(Peer(owner, "owner"), size)
    for member in members:
        leaves.offer(Peer(member, "member"))
        leaves.check()
    return leaves


def nearest(owner: int, known: set[int], size: int) -> tuple[list[int], list[int]]:
    """The naive model: sort everyone by distance in each direction."""
    others = known - {owner}
    above = sorted(others, key=lambda node: clockwise(owner, node))
    below = sorted(others, key=lambda node: clockwise(node, owner))
    return above[: size // 2], below[: size // 2]


@given(ids, st.lists(ids, max_size=30), st.sampled_from([2, 4, 16]))
def test_it_holds_the_nearest_on_each_side(owner: int, offered: list[int], size: int) -> None:
    leaves = leaf_set(owner, offered, size)
    above, below = nearest(owner, set(offered), size)
    assert [peer.node_id for peer in leaves.successors] == above
    assert [peer.node_id for peer in leaves.predecessors] == below
    assert {peer.node_id for peer in leaves} == {*above, *below}
    assert len(leaves) == len({*above, *below})


@given(ids, st.lists(ids, max_size=30), ids, st.sampled_from([2, 4, 16]))
def test_admits_foretells_offer(owner: int, offered: list[int], newcomer: int, size: int) -> None:
    leaves = leaf_set(owner, offered, size)
    admitted = leaves.admits(newcomer)
    assert leaves.offer(Peer(newcomer, "newcomer")) == admitted


@given(ids, st.lists(ids, max_size=30), ids, st.sampled_from([2, 4, 16]))
def test_closest_is_the_closest_of_members_and_owner(owner: int, offered: list[int], key: int, size: int) -> None:
    leaves = leaf_set(owner, offered, size)
    everyone = {owner, *(peer.node_id for peer in leaves)}
    first = leaves.closest(key)
    assert first.node_id == closest(key, everyone)
    assert leaves.closest(key, {first.node_id}).node_id == closest(key, (everyone - {first.node_id}) | {owner})


@given(ids, st.lists(ids, max_size=30), ids, st.sampled_from([2, 4, 16]))
def test_a_covered_key_is_closest_to_whom_it_is_closest_among_all(
    owner: int, offered: list[int], key: int, size: int
) -> None:
    leaves = leaf_set(owner, offered, size)
    if leaves.covers(key):
        assert leaves.closest(key).node_id == closest(key, {owner, *offered})
    else:
        assert len(set(offered) - {owner}) > size // 2


@given(ids, st.lists(ids, min_size=1, max_size=30), st.data())
def test_remove_forgets_one(owner: int, offered: list[int], data: st.DataObject) -> None:
    leaves = leaf_set(owner, offered, 16)
    gone = data.draw(st.sampled_from(offered))
    was_member = gone in leaves
    assert leaves.remove(gone) == was_member
    leaves.check()
    assert gone not in leaves
    assert not leaves.remove(gone)


def test_a_known_peer_gets_its_new_address() -> None:
    leaves = leaf_set(100, [90, 110], 2)
    assert not leaves.offer(Peer(90, "moved"))
    assert leaves.closest(90).address == "moved"
    assert [peer.address for peer in leaves.predecessors] == ["moved"]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_the_size_is_even_and_not_zero(size: int) -> None:
    with pytest.raises(AssertionError):
        LeafSet(Peer(1, "me"), size)
