"""What standbys and hosts say to each other about commits, message by message."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import msgspec
import numpy as np
import polars as pl
import pytest
from fleet_of_elements import APP, Agent, Fleet, element, graph_of, type_
from seeds import seeds
from test_flow import begun, check, counting, rows_of

from agent.runtime.keyed.hosting.commits.commit_log import CommitLog
from agent.runtime.keyed.hosting.commits.record_pieces import Pieces
from agent.runtime.keyed.hosting.commits.records import StateRecord, Table, message_of, record_of
from agent.runtime.keyed.hosting.commits.standby import StandbyStore
from agent.runtime.keyed.hosting.placement.ballots_wire import ballots_of, messages_of
from agent.runtime.keyed.hosting.placement.configurations import Ballot, Configuration
from agent.runtime.keyed.logical_nodes import NODES, mask_of
from agent.runtime.messages.elements import CommitHeld, CommitRecord, ElementRows, MoveNodes, NodeBallots
from overlay import Peer

NODE = 5
HOST, OTHER = Peer(71, "10.7.0.1:1"), Peer(72, "10.7.0.2:1")
NO_NODES = np.zeros(0, np.int64)


class Standby:
    """One agent, and what it sends."""

    def __init__(self) -> None:
        self.fleet = Fleet(counting(guaranteed=True), 1)
        self.agent: Agent = next(iter(self.fleet.agents.values()))
        self.sent: list[object] = []
        self.agent.send = lambda _peer, message, now: self.sent.append(message)  # type: ignore # noqa: ARG005

    def learn(self, epoch: int, host: Peer) -> None:
        """Hears which configuration is in force."""
        value = Configuration(epoch, (host, self.agent.me), incarnations=(1, 1))
        (message,) = messages_of(APP, "chosen", [Ballot(NODE, epoch, 0, value)])
        self.take(message, host)

    def take(self, message, sender: Peer) -> list[object]:
        self.sent.clear()
        self.agent.job.handle(message, sender, self.fleet.now)
        return [one for one in self.sent if isinstance(one, CommitHeld | NodeBallots)]


def record(number: int, epoch: int = 1, *, is_whole: bool = True, rows: pl.DataFrame | None = None):
    nodes, tables = np.array([NODE]), [] if rows is None else [Table("state", 0, "counts", rows)]
    state = StateRecord(number + 1, nodes, np.array([epoch]), nodes if is_whole else NO_NODES, [0] * 4, tables)
    return message_of(APP, 1, number, state)


def test_a_record_of_an_unknown_epoch_is_asked_about_and_held_once_its_host_is_known() -> None:
    standby = Standby()
    (asked,) = standby.take(record(0), HOST)
    assert isinstance(asked, NodeBallots), "nothing is held"
    assert asked.phase == "chosen"
    standby.learn(1, HOST)
    assert [(one.upto, one.begin) for one in standby.sent if isinstance(one, CommitHeld)] == [(1, False)]


def test_a_host_of_before_hears_that_it_is_none_before_its_record_counts_as_held_each_time() -> None:
    standby = Standby()
    standby.learn(2, OTHER)
    for _ in range(2):  # the answers to the first one may be lost
        told, held = standby.take(record(0), HOST)
        assert isinstance(told, NodeBallots)
        assert isinstance(held, CommitHeld)
        (ballot,) = ballots_of(told)
        assert ballot.value is not None
        assert (ballot.value.epoch, ballot.value.host) == (2, OTHER)
    assert standby.agent.job._membership._store.version(NODE) == (0, 0)


def test_changes_of_a_node_that_a_standby_has_nothing_of_are_not_held() -> None:
    standby = Standby()
    standby.learn(1, HOST)
    (answer,) = standby.take(record(0, is_whole=False), HOST)
    assert isinstance(answer, CommitHeld)
    assert (answer.upto, answer.begin) == (0, True), "the host begins anew, with the whole state"


def test_agents_that_are_behind_are_told_which_configuration_is_in_force() -> None:
    standby = Standby()
    standby.learn(3, OTHER)
    old = Configuration(1, (HOST, standby.agent.me), incarnations=(1, 1))
    (message,) = messages_of(APP, "chosen", [Ballot(NODE, 1, 0, old)])
    (told,) = standby.take(message, HOST)
    assert isinstance(told, NodeBallots)
    assert [one.value.epoch for one in ballots_of(told) if one.value is not None] == [3]


def test_a_commit_waits_for_no_standby_that_was_added_for_other_nodes() -> None:
    """Nodes begin and move all the time: else no commit would ever be released."""
    released: list[int] = []
    log = CommitLog(APP, 1, lambda *_: None, lambda pending, _: released.append(pending.commit))
    here, added = np.zeros(NODES, bool), np.zeros(NODES, bool)
    here[NODE] = added[NODE + 1] = True
    log.add(
        StateRecord(1, np.array([NODE]), np.array([1]), NO_NODES, [0] * 4, [told()]), {HOST: here}, {}, [], [], {}, 1
    )
    log.owe(OTHER, added, 2)
    log.held(HOST, CommitHeld(APP, 1 << 24 | 1, 1), 1.0)
    log.settle({HOST: here, OTHER: added}, 1.0)
    assert released == [1]


def told() -> Table:
    """A change of the node."""
    return Table("state", 0, "counts", pl.DataFrame({"@node": pl.Series([NODE], dtype=pl.UInt16)}))


def changes(nodes: list[int]) -> Table:
    """A change of each node."""
    columns = [pl.Series("@node", nodes, pl.UInt16), pl.Series("n", nodes, pl.Int64)]
    return Table("state", 0, "counts", pl.DataFrame(columns))


@pytest.mark.parametrize(("rows", "are_shared"), [(1, True), (100_000, False)])
def test_small_records_are_the_same_bytes_for_all_standbys_who_hold_their_own_nodes(
    rows: int, are_shared: bool
) -> None:
    sent: dict[Peer, CommitRecord] = {}
    log = CommitLog(APP, 1, lambda peer, message, _: sent.update({peer: message}), lambda *_: None)
    nodes = {HOST: NODE, OTHER: NODE + 1}
    masks = {peer: mask_of(np.array([node])) for peer, node in nodes.items()}
    both = np.array([*nodes.values()])
    state = StateRecord(1, both, np.array([1, 1]), NO_NODES, [0] * 4, [changes([*nodes.values()] * rows)])
    log.add(state, masks, {}, [], [], {}, 1.0)
    assert (sent[HOST].parts == sent[OTHER].parts) == are_shared
    for peer, node in nodes.items():
        record, store = record_of(sent[peer], 4), StandbyStore(4, (), {})
        store.take(record, masks[peer])
        (held,) = store.copy(both).tables
        assert (record.nodes.tolist(), set(held.rows["n"])) == ([node], {node})


def usual(number: int, n: int):
    """A record that sets the value of the node, as it comes to a standby."""
    columns = [pl.Series("@node", [NODE], pl.UInt16), pl.Series("n", [n], pl.Int64)]
    return record(number, is_whole=number == 0, rows=pl.DataFrame(columns))


def test_what_a_standby_has_not_read_is_in_its_copy_in_order() -> None:
    lazy, eager = StandbyStore(4, (), {}), StandbyStore(4, (), {})
    for number in range(100):
        message = usual(number, number)
        lazy.take(Pieces().record(message, 4), mask_of(np.array([NODE])))
        eager.take(record_of(message, 4), mask_of(np.array([NODE])))
    values = [pl.concat(table.rows for table in one.copy(np.array([NODE])).tables)["n"] for one in (lazy, eager)]
    assert values[0].to_list() == values[1].to_list() == [*range(100)]
    assert lazy.version(NODE) == eager.version(NODE) == (1, 100)


def test_a_standby_that_cannot_read_a_record_has_no_copy() -> None:
    store, message = StandbyStore(4, (), {}), usual(1, 7)
    broken = msgspec.structs.replace(message, parts=[(*part[:-1], part[-1][:-1]) for part in message.parts])
    for one in (usual(0, 1), broken, usual(2, 8)):
        store.take(Pieces().record(one, 4), mask_of(np.array([NODE])))
    assert (store.version(NODE), store.refused) == ((1, 3), 0)
    assert not store.copy(np.array([NODE])).tables
    assert (store.version(NODE), store.refused) == ((0, 0), 1)


@pytest.mark.parametrize("seed", seeds(*range(4), slow=range(4, 200)))
def test_a_copy_has_the_events_that_are_not_safe_yet_and_those_that_are_held(seed: int) -> None:
    """They are left out in heaps, not with each record, of which each would copy all that is there."""
    pick = random.Random(seed)
    store, held, emitted = StandbyStore(2, (), {}), Counter(), Counter()
    nodes = [3, 4, 5]
    sure = 0
    for commit in range(1, 120):
        safe = sure if pick.random() < 0.3 else 0
        watermark = max(0, commit - 2) * 1000 if pick.random() < 0.3 else 0
        own = [node for node in nodes if pick.random() < 0.8] or nodes
        whole = [node for node in own if pick.random() < 0.02]
        rows = {kind: [(pick.choice(own), commit * 1000 + n) for n in range(pick.choice([0, 3, 300]))] for kind in "eh"}
        record = _passing(commit, own, whole, rows["e"], rows["h"])
        store.take(record._replace(safe_commit=safe, watermarks=[0, watermark]), mask_of(np.array(nodes)))
        for model, least in ((emitted, (safe + 1) * 1000), (held, watermark)):
            for node, at in list(model):
                if node in whole or (node in own and at < least):
                    del model[node, at]
        emitted.update(rows["e"])
        held.update(rows["h"])
        sure = max(sure, pick.randrange(commit))
        if pick.random() < 0.1:
            copy = store.copy(np.array(nodes))
            found = {kind: Counter(_events(copy.tables, kind)) for kind in ("emitted", "held")}
            assert found == {"emitted": Counter(dict.fromkeys(emitted, 1)), "held": held}, commit


def _passing(commit: int, own: list[int], whole: list[int], emitted: list, held: list) -> StateRecord:
    """A record with events (node, time), of which those that were emitted are numbered by it."""
    channels = {"@source": [node for node, _ in emitted], "@seq": [at for _, at in emitted]}
    columns = [pl.Series("@node", [node for node, _ in held], pl.UInt16), pl.Series("@time", [at for _, at in held])]
    tables = [Table("emitted", 0, "E", pl.DataFrame(channels)), Table("held", 1, "H", pl.DataFrame(columns))]
    epochs = np.ones(len(own), np.int64)
    filled = [table for table in tables if table.rows.height]
    return StateRecord(commit, np.array(own), epochs, np.array(whole, np.int64), [0, 0], filled)


def _events(tables: list[Table], kind: str) -> list[tuple[int, int]]:
    columns = ("@source", "@seq") if kind == "emitted" else ("@node", "@time")
    return [row for table in tables if table.kind == kind for row in table.rows.select(columns).iter_rows()]


def test_nobody_votes_with_a_copy_that_cannot_be_read() -> None:
    """The node would begin with nothing where another standby has its state."""
    standby, broken = Standby(), usual(1, 7)
    broken = msgspec.structs.replace(broken, parts=[(*part[:-1], part[-1][:-1]) for part in broken.parts])
    standby.learn(1, HOST)
    copies = []
    for message in (usual(0, 1), broken):
        standby.take(message, HOST)
        before = Configuration(1, (HOST, standby.agent.me), incarnations=(1, 1))
        (asked,) = messages_of(APP, "prepare", [Ballot(NODE, 2, 1 + len(copies), before)])
        (answer,) = [one for one in standby.take(asked, OTHER) if isinstance(one, NodeBallots)]
        assert answer.phase == "promise"
        copies += [ballot.copy for ballot in ballots_of(answer)]
    assert copies == [(1, 1), (0, 0)]


def test_a_standby_that_holds_a_commit_since_its_promise_votes_for_no_node_without_state() -> None:
    """Else events of a host that is slow to answer, which have been released, would be emitted once more."""
    standby = Standby()
    standby.learn(1, HOST)
    before = Configuration(1, (HOST, standby.agent.me), incarnations=(1, 1))
    (asked,) = messages_of(APP, "prepare", [Ballot(NODE, 2, 1, before)])
    (promise,) = ballots_of(standby.take(asked, OTHER)[0])
    assert promise.copy == (0, 0)
    (held,) = standby.take(usual(0, 1), HOST)
    assert held.upto == 1
    anew = Configuration(2, (OTHER, standby.agent.me), is_anew=True, incarnations=(1, 1))
    (vote,) = messages_of(APP, "accept", [Ballot(NODE, 2, 1, anew)])
    (answer,) = standby.take(vote, OTHER)
    assert answer.phase == "promise", "the root is to ask again, and hears of the copy"
    (again,) = messages_of(APP, "prepare", [Ballot(NODE, 2, 2, before)])
    (promise,) = ballots_of(standby.take(again, OTHER)[0])
    assert promise.copy == (1, 1)
    (vote,) = messages_of(APP, "accept", [Ballot(NODE, 2, 2, anew, accepted=1)])
    (answer,) = standby.take(vote, OTHER)
    assert answer.phase == "accepted", "a voter that holds nothing has accepted it, and it may be in force"


def test_a_standby_of_nodes_that_have_not_changed_is_told_of_a_commit_once() -> None:
    sent: list[Peer] = []
    log = CommitLog(APP, 1, lambda peer, *_: sent.append(peer), lambda *_: None)
    masks = {HOST: mask_of(np.array([NODE])), OTHER: mask_of(np.array([NODE + 1]))}
    for number in range(3):
        both = np.array([NODE, NODE + 1])
        state = StateRecord(1 + number, both, np.array([1, 1]), NO_NODES, [0] * 4, [changes([NODE])])
        log.add(state, masks, {}, [], [], {}, 1.0)
    assert (sent.count(HOST), sent.count(OTHER)) == (3, 1)


def test_a_commit_is_released_once_a_standby_that_was_added_meanwhile_has_everything() -> None:
    released: list[int] = []
    sent: list[Peer] = []
    log = CommitLog(APP, 1, lambda peer, *_: sent.append(peer), lambda pending, _: released.append(pending.commit))
    here = np.zeros(NODES, bool)
    here[NODE] = True

    def commit(number: int, whole: dict[Peer, np.ndarray]) -> None:
        state = StateRecord(number, np.array([NODE]), np.array([1]), NO_NODES, [0] * 4, [told()])
        log.add(state, {HOST: here, **({OTHER: here} if whole else {})}, whole, [], [], {}, 1.0)

    commit(1, {})
    log.owe(OTHER, here, 2)  # it stands by from now on, and gets all with the next commit
    standbys = {HOST: here, OTHER: here}
    log.held(HOST, CommitHeld(APP, 1 << 24 | 1, 1), 1.0)
    log.settle(standbys, 1.0)
    assert released == []
    commit(2, {OTHER: np.array([NODE])})
    log.held(HOST, CommitHeld(APP, 1 << 24 | 1, 2), 1.0)
    log.settle(standbys, 1.0)
    assert released == []
    log.held(OTHER, CommitHeld(APP, 1 << 24 | 2, 1), 1.0)
    log.settle(standbys, 1.0)
    assert released == [1, 2]


def test_a_host_that_commits_as_it_loses_both_standbys_gives_nothing_that_they_do_not_hold() -> None:
    fleet, inserted = begun(guaranteed=True)
    host = max(fleet.agents.values(), key=lambda agent: agent.job._host.owned.sum())

    def more() -> None:
        rows = rows_of(fleet, 50)
        fleet.insert(host, "Text", rows)
        inserted.extend(rows)

    more()
    while not host.job._membership._cutter.pledges.is_waiting:
        fleet.run(0.01, 0.01)
    fleet.cut([host], detected_s=1.0)
    fleet.run(0.5)
    assert host.job.pledged, "what its standbys do not hear of"
    more()
    for runtime in host.runtimes.values():
        runtime.is_slow = runtime.stopped = True
    fleet.run(0.7)  # the others are missed in the middle of a commit
    for runtime in host.runtimes.values():
        runtime.stopped = False
    fleet.run(3)  # they go on without it
    fleet.heal()
    fleet.settle()
    check(fleet, {"Text": inserted})


@pytest.mark.parametrize("seed", seeds(0, slow=[1, 3, 4]))
def test_a_host_that_loses_nodes_in_the_middle_of_a_commit_emits_nothing_of_them_any_more(seed: int) -> None:
    """Their next host emits it, in its order: what overtakes that hides events, or is there twice."""
    fleet, inserted = begun(guaranteed=True, seed=seed)
    host = next(agent for agent in fleet.agents.values() if agent.runtimes["All"].elements)
    cutter = host.job._membership._cutter
    others = [agent for agent in fleet.agents.values() if agent is not host]

    def more(rows: list[tuple[str, str, int]]) -> None:
        fleet.insert(others[0], "Text", rows)
        inserted.extend(rows)

    host.runtimes["All"].is_slow = host.runtimes["All"].stopped = True
    more(rows_of(fleet, 50))
    for _ in range(100):
        if cutter._cut is not None and cutter._cut.emitted:
            break
        fleet.run(0.01, 0.005)
    assert cutter._cut is not None
    assert cutter._cut.emitted, "what it has emitted is neither held nor forgotten"
    fleet.silence(host, 4.0)
    fleet.run(5)
    assert cutter._cut is not None
    host.runtimes["All"].stopped = False
    more(rows_of(fleet, 50))
    fleet.settle()
    check(fleet, {"Text": inserted})


def test_answers_of_before_a_node_went_and_came_back_count_for_nothing() -> None:
    """The hosts between have done it again: its numbers now are those of other events."""
    fleet, inserted = begun(guaranteed=True)
    host = max(fleet.agents.values(), key=lambda agent: agent.job._host.owned.sum())
    others = [agent for agent in fleet.agents.values() if agent is not host]

    def more() -> None:
        rows = rows_of(fleet, 50)
        fleet.insert(others[0], "Text", rows)
        inserted.extend(rows)

    def counting_here() -> set[int]:
        """The nodes here of words."""
        states = [state for agent in fleet.agents.values() for state in agent.runtimes["Count"].state.values()]
        return {node for node, *_ in states if host.job._host.owned[node]}

    host.runtimes["Count"].is_slow = host.runtimes["Count"].stopped = True
    more()
    fleet.run(0.3)
    before = counting_here()
    assert host.runtimes["Count"].waiting, "it is to answer of rows of nodes that it will have lost"
    fleet.silence(host, 4.0)
    lost: set[int] = set()
    for _ in range(60):
        fleet.run(1)
        lost |= before - counting_here()
        if lost & counting_here():
            break
        for other in others if lost else []:
            fleet.lend(other)
    assert lost & counting_here(), "some nodes went, and are back"
    more()
    host.runtimes["Count"].stopped = False
    fleet.settle()
    check(fleet, {"Text": inserted})


@pytest.mark.slow
def test_a_standby_that_begins_anew_as_a_node_moves_counts_once_it_has_the_state_of_that_one_too() -> None:
    """Records of other nodes come meanwhile, which are not that state."""
    fleet, inserted = begun(guaranteed=True)
    host = max(fleet.agents.values(), key=lambda agent: agent.job._host.owned.sum())
    cutter, known = host.job._membership._cutter, host.job._membership._known
    node = int(np.flatnonzero(host.job._host.owned)[0])
    members = [agent for agent in fleet.agents.values() if agent.me in known[node].members]
    (to,) = (agent for agent in fleet.agents.values() if agent not in members)
    standby = next(agent for agent in members if agent is not host)

    def more() -> None:
        rows = rows_of(fleet, 20)
        fleet.insert(host, "Text", rows)
        inserted.extend(rows)

    to.silent = True  # the move comes to nothing
    host.job.handle(MoveNodes(APP, [node], [known.epoch(node)], to.me), standby.me, fleet.now)
    while not cutter._sealed[node]:
        fleet.run(0.01, 0.01)
    standby.job._membership._store.drop(np.array([node]))
    cutter.again(standby.me)
    for _ in range(20):
        more()
        fleet.run(0.05)
        has_state = standby.job._membership._store.version(node)[0] > 0
        assert has_state or not cutter.held_by(standby.me)[node]
    to.silent = False
    fleet.settle()
    check(fleet, {"Text": inserted})


@pytest.mark.parametrize("seed", seeds(slow=range(6)))
def test_what_waits_for_a_commit_as_the_last_standby_goes_is_emitted_before_what_comes_later(seed: int) -> None:
    fleet = Fleet(counting(guaranteed=True), 2, seed)
    host, other = fleet.agents.values()
    inserted: list[tuple[str, str, int]] = []

    def more(times: int) -> None:
        for _ in range(times):
            rows = rows_of(fleet, 5)
            fleet.insert(host, "Text", rows)
            inserted.extend(rows)
            fleet.run(0.02, 0.01)

    more(100)
    fleet.settle()
    more(20)
    fleet.crash(other)
    more(360)  # until it is given up
    assert not host.job._host.collects, "nothing is to be committed"
    fleet.settle()
    check(fleet, {"Text": inserted})


@pytest.mark.slow
def test_commits_are_held_soon_though_nodes_begin_and_move_over_slow_links() -> None:
    """At the start of a job nodes get standbys all the time; after a kill, those that are left get them anew."""
    fleet = Fleet(counting(guaranteed=True), 5, seed=1)
    fleet.delay_s = 0.5
    agents = list(fleet.agents.values())
    assert 0 < _longest_wait(fleet, 6.0) < 2.0
    fleet.crash(agents[4], 1.0)
    assert _longest_wait(fleet, 8.0) < 6.0
    fleet.settle()
    check(fleet, {"Text": fleet.inserted[agents[0].me, "Text"]})


def _longest_wait(fleet: Fleet, seconds: float) -> float:
    """The longest time for which a commit waits for its standbys, while events come."""
    begun: dict[tuple[Peer, int], float] = {}
    longest, end = 0.0, fleet.now + seconds
    while fleet.now < end:
        fleet.insert(next(iter(fleet.agents.values())), "Text", rows_of(fleet, 8))
        fleet.run(0.2, 0.05)
        for agent in fleet.agents.values():
            for pending in agent.job._membership._log._pending:
                longest = max(longest, fleet.now - begun.setdefault((agent.me, pending.commit), fleet.now))
    return longest


@pytest.mark.slow
def test_of_two_standbys_that_are_replaced_one_has_the_state_until_the_others_do() -> None:
    fleet = Fleet(counting(guaranteed=True), 3)
    source = next(iter(fleet.agents.values()))
    inserted = rows_of(fleet, 100)
    fleet.insert(source, "Text", inserted)
    fleet.settle()
    node = next(node for node in range(NODES) if source.job._emitter.host(node) is not None)
    key = source.job._membership._places.key(node)
    seen: dict[int, Configuration] = {}
    for offset in (1, 2):  # both are nearer than all others
        fleet._begin(Agent(fleet, Peer((key + offset) % 2**128, f"10.0.1.{offset}:1"), **fleet.options))
    for _ in range(300):
        fleet.run(0.02)
        for agent in fleet.agents.values():
            if (known := agent.job._membership._known[node]) is not None:
                seen.setdefault(known.epoch, known)
    epochs = sorted(seen)
    assert epochs[0] < epochs[-1], "standbys have been replaced"
    for before, after in pairwise(epochs):
        assert set(seen[before].members) & set(seen[after].standbys), (seen[before], seen[after])
    fleet.settle()
    check(fleet, {"Text": inserted})


def test_an_agent_that_leaves_stays_until_its_elements_without_keys_are_done() -> None:
    fleet = Fleet(counting(guaranteed=True), 4)
    agents = list(fleet.agents.values())
    agents[1].runtimes["Split"].is_slow = agents[1].runtimes["Split"].stopped = True
    inserted = rows_of(fleet, 50)
    fleet.insert(agents[1], "Text", inserted)
    fleet.leave(agents[1])
    fleet.run(10)
    assert not agents[1].job.has_left
    agents[1].runtimes["Split"].stopped = False
    fleet.run(10)
    assert agents[1].job.has_left
    fleet.remove_left()
    fleet.settle()
    check(fleet, {"Text": inserted})


def _beside():
    """Counts, of whose events an element without a key makes others, which are counted, too."""
    return graph_of(
        [type_(name) for name in ("Text", "Counted", "Word")],
        [
            element("Count", ("Text", ["a"]), emits=["Counted"]),
            element("Split", ("Counted", None), emits=["Word"]),
            element("Again", ("Word", ["a"])),
        ],
        ["Text"],
    )


@pytest.mark.slow
def test_events_that_elements_without_keys_made_are_made_again_by_the_next_host() -> None:
    """A host dies as what was made of its events is under way, and is lost."""
    crashed = 0
    for number in range(1, 8, 2):
        fleet = Fleet(_beside(), 5, seed=number)
        source = next(iter(fleet.agents.values()))
        inserted = rows_of(fleet, 60)
        fleet.insert(source, "Text", inserted)
        fleet.run(0.15)

        def act(sender: Agent, _to: Peer, fleet: Fleet = fleet, source: Agent = source) -> None:
            if sender is not source and not fleet.gone:
                fleet.at(0.0, lambda: None if fleet.gone else fleet.crash(sender, 0.3))

        for place in range(number, number + 8):
            fleet.on_message(ElementRows, place, act, arrived=False)
        fleet.run(8)
        fleet.settle()
        check(fleet, {"Text": inserted})
        crashed += len(fleet.gone)
    assert crashed
