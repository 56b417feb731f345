"""What was sent up and is not committed: sent again, slower and slower, until the parent has it."""

from __future__ import annotations

from agent.runtime.messages.jobs import Snapshot
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.reduce.retransmit import ACK_TIMEOUT_MAX_S, ACK_TIMEOUT_S, AckLatency, RetransmitBuffer
from overlay import Id

EPOCH = JobEpoch(1, 1, Id(1))


def snapshot(upto: int, contributors: bytes = b"\x01", *, detached: bool = False) -> Snapshot:
    return Snapshot(Id(7), EPOCH, 1, 0, upto, contributors, b"state", [], detached=detached)


def sent_within(uplink: RetransmitBuffer, seconds: float) -> list[Snapshot]:
    """Ask ten times a second what is to be sent."""
    return [one for tenth in range(round(seconds * 10)) for one in uplink.due(tenth / 10)]


def test_what_nobody_confirms_is_sent_again_slower_and_slower() -> None:
    uplink = RetransmitBuffer(AckLatency())
    uplink.add(snapshot(10))
    sent = sent_within(uplink, 60.0)
    assert [one.detached for one in sent] == 6 * [False], "the parent knows what it has had of its child"
    assert sent_within(RetransmitBuffer(AckLatency()), 60.0) == []


def test_one_confirmation_is_for_one_snapshot() -> None:
    """Two children's runs of the same panes are two snapshots: that one has come says nothing about the other."""
    uplink = RetransmitBuffer(AckLatency())
    uplink.add(snapshot(10, b"\x01", detached=True))
    uplink.add(snapshot(10, b"\x02", detached=True))
    assert len(uplink.due(0.0)) == 2
    uplink.acknowledged(0, 10, b"\x01", 0.0)
    assert [one.contributors for one in uplink.due(2 * ACK_TIMEOUT_S)] == [b"\x02"]
    assert not uplink.is_acknowledged


def test_repeats_do_not_multiply_from_level_to_level() -> None:
    """Each of four levels repeats what the one above never confirms: no more than if there were one level."""
    levels = [RetransmitBuffer(AckLatency()) for _ in range(4)]
    levels[0].add(snapshot(10))
    at_the_top = 0
    for tenth in range(600):
        for below, above in zip(levels, [*levels[1:], None], strict=True):
            for one in below.due(tenth / 10):
                if above is None:
                    at_the_top += 1
                else:
                    above.add(one)
    assert at_the_top == 6
    assert [len(level) for level in levels] == [1, 1, 1, 1]


def test_what_is_committed_is_free_and_a_new_parent_gets_the_rest() -> None:
    uplink = RetransmitBuffer(AckLatency())
    for upto in (10, 20):
        uplink.add(snapshot(upto))
    uplink.due(0.0)
    uplink.acknowledged(0, 10, b"\x01", 0.0)
    uplink.acknowledged(0, 20, b"\x01", 0.0)
    assert uplink.is_acknowledged
    uplink.commit(10)
    uplink.parent_changed()
    assert [(one.upto, one.detached) for one in uplink.due(0.1)] == [(20, True)]


def test_where_parents_are_slow_to_confirm_nothing_is_sent_again_too_soon() -> None:
    """With many jobs whose panes end together all snapshots wait their turn there."""
    pace = AckLatency()
    uplinks = [RetransmitBuffer(pace) for _ in range(100)]
    for uplink in uplinks:
        uplink.add(snapshot(10))
    sent = 0
    for tenth in range(100):
        sent += sum(len(uplink.due(tenth / 10)) for uplink in uplinks)
        uplinks[tenth].acknowledged(0, 10, b"\x01", tenth / 10)
    assert sent == 100
    uplinks[0].add(snapshot(20))
    repeats = sent_within(uplinks[0], ACK_TIMEOUT_MAX_S + 1)
    assert len(repeats) == 2, "but what is lost is not lost for long"
