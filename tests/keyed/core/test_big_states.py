"""States of any size move and are copied: records go in messages that links take, a few at a time."""

from __future__ import annotations

import random
from base64 import b64encode
from collections import defaultdict

import pytest
from fleet_of_elements import Fleet, element, graph_of, type_
from seeds import seeds
from test_flow import check

from agent.runtime.keyed.hosting.commits import commit_log, record_pieces
from agent.runtime.keyed.hosting.commits.commit_log import WINDOW_BYTES
from agent.runtime.keyed.hosting.commits.record_pieces import PIECE_BYTES, bytes_of
from agent.runtime.messages.elements import CommitHeld, CommitRecord
from agent.runtime.messages.jobs import CODEC
from overlay import Peer

MIB = 1 << 20


class Counted(Fleet):
    """Notes how many bytes of records are under way to one standby at once, and the largest message."""

    def __init__(self, *about, **options) -> None:
        self.moved = self.most = self.largest = 0
        self._under_way: dict[tuple[Peer, int], dict[int, int]] = defaultdict(dict)
        super().__init__(*about, **options)

    def carry(self, sender, peer, data: bytes, *about, **how) -> None:
        match message := CODEC.decode(data):
            case CommitRecord():
                self.largest, self.moved = max(self.largest, len(data)), self.moved + bytes_of(message)
                self._under_way[sender.me, message.session][message.number] = bytes_of(message)
                self.most = max(self.most, *(sum(sizes.values()) for sizes in self._under_way.values()))
            case CommitHeld(session=session, upto=upto):
                known = self._under_way[peer, session]
                self._under_way[peer, session] = {number: size for number, size in known.items() if number >= upto}
        super().carry(sender, peer, data, *about, **how)


def hand_over(fleet: Fleet, size: int, count: int) -> None:
    """Gives words of so many bytes to the first agent, lets another one come and the first one go: all are counted."""
    first = next(iter(fleet.agents.values()))
    texts = [b64encode(fleet.random.randbytes(size)).decode() for _ in range(count)]
    inserted = [(text, "g", number) for number, text in enumerate(texts)]
    for start in range(0, count, 8):
        fleet.insert(first, "Text", inserted[start : start + 8])
        fleet.run(0.3)
    fleet.join()
    fleet.run(fleet.random.uniform(0.0, 2.0))
    fleet.leave(first)
    for _ in range(1_000):
        fleet.run(0.1)
        if fleet.remove_left():
            break
    assert first.crashed, (fleet.seed, "it has not left")
    fleet.settle()
    check(fleet, {"Text": inserted})


def counting_texts(*, guaranteed: bool):
    types = [type_(name, guaranteed=guaranteed) for name in ("Text", "Done")]
    return graph_of(types, [element("Count", ("Text", ["a"]))], ["Text"])


@pytest.mark.slow
@pytest.mark.parametrize("guaranteed", [True, False])
def test_more_than_a_link_takes_at_once_is_handed_over(*, guaranteed: bool) -> None:
    fleet = Counted(counting_texts(guaranteed=guaranteed), 1)
    hand_over(fleet, MIB, 72)
    assert fleet.moved > 64 * MIB
    assert fleet.largest < 2 * PIECE_BYTES
    assert fleet.most <= WINDOW_BYTES + PIECE_BYTES


@pytest.mark.parametrize("seed", seeds(1, slow=range(2, 100)))
@pytest.mark.parametrize("guaranteed", [True, False])
def test_states_that_go_slowly_are_handed_over_once(
    seed: int, monkeypatch: pytest.MonkeyPatch, *, guaranteed: bool
) -> None:
    """What is under way longer than a move may stand still is not begun again and again, and agents that come and go
    meanwhile find those that stay."""
    pick = random.Random(seed)
    size = pick.choice((500, 2_000, 4_000))
    piece = pick.choice((size // 2, size * 3, size * 10, size * 40))
    monkeypatch.setattr(record_pieces, "PIECE_BYTES", piece)
    monkeypatch.setattr(commit_log, "WINDOW_BYTES", piece * pick.choice((4, 16)))
    monkeypatch.setattr(commit_log, "SHARED_BYTES", 0)
    fleet = Fleet(counting_texts(guaranteed=guaranteed), pick.choice((1, 1, 2, 3)), seed, slow=pick.random() < 0.3)
    fleet.delay_s = pick.choice((0.005, 0.01, 0.05, 0.15))
    hand_over(fleet, size, pick.choice((20, 72)))
