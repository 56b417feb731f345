"""Indirect pings through helpers, for links that are broken while both ends are well (SWIM).

Theory. A peer that does not answer a ping is pinged through up to HELPERS other nodes. A helper reports either that the
peer has answered or, after NACK_S, that it has not. A negative report still speaks for the prober: its own link works.
If no helper reports anything, that speaks against the prober.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from overlay.core.outbox import Outbox
from overlay.core.random_source import RandomSource
from overlay.pastry.detection.heartbeat import Heartbeat
from overlay.wire.ids import Id
from overlay.wire.messages import PingReport, PingRequest, RelayedPing
from overlay.wire.peer import Peer

HELPERS = 3
NACK_S = 0.4
RELAYED_MAX = 256


@dataclass(slots=True)
class _Asked:
    token: int
    at: float
    count: int
    silent: set[int]
    """Helpers that have not reported yet."""


class Helpers:
    """The helpers asked by this node: one request per silent watched peer, so there are few."""

    def __init__(self, heartbeat: Heartbeat, outbox: Outbox, random: RandomSource) -> None:
        self._heartbeat = heartbeat
        self._outbox = outbox
        self._random = random
        self._asked: dict[int, _Asked] = {}

    def ask(self, target: Peer, candidates: Sequence[Peer], now: float) -> None:
        """Ask some of the candidates to ping the target."""
        helpers = sorted(candidates, key=lambda _peer: self._random.random())[:HELPERS]
        if not helpers:
            self.end(target.node_id)
            return
        token = self._heartbeat.new_token()
        self._asked[target.node_id] = _Asked(token, now, len(helpers), {helper.node_id for helper in helpers})
        self._outbox.send_all(helpers, PingRequest(target=target, token=token))

    def reported(self, sender: Peer, report: PingReport) -> float | None:
        """Handle a helper's report; return when the helper was asked, if it has reached the target."""
        asked = self._asked.get(report.target)
        if asked is None or asked.token != report.token or sender.node_id not in asked.silent:
            return None
        if not report.reached:
            asked.silent.discard(sender.node_id)
            return None
        del self._asked[report.target]
        return asked.at

    def are_silent(self, target_id: int) -> bool:
        """Say whether no helper has reported anything, because there were none or because none reach this node."""
        asked = self._asked.get(target_id)
        return asked is None or len(asked.silent) == asked.count

    def end(self, target_id: int) -> None:
        """Forget the request about a target."""
        self._asked.pop(target_id, None)

    def clear(self) -> None:
        """Forget all requests."""
        self._asked.clear()

    def __len__(self) -> int:
        return len(self._asked)


@dataclass(slots=True)
class _Relayed:
    asker: Peer
    target: Peer
    token: int
    nack_at: float


class Relay:
    """The pings this node has sent for others, RELAYED_MAX at most: more are refused."""

    def __init__(self, heartbeat: Heartbeat, outbox: Outbox) -> None:
        self._heartbeat = heartbeat
        self._outbox = outbox
        # In order of time, by this node's own token.
        self._relayed: dict[int, _Relayed] = {}

    def handle_request(self, sender: Peer, message: PingRequest, now: float) -> None:
        """Ping a peer on behalf of another node."""
        if len(self._relayed) >= RELAYED_MAX:
            self._outbox.counters.refused += 1
            return
        token = self._heartbeat.new_token()
        self._relayed[token] = _Relayed(sender, message.target, message.token, now + NACK_S)
        self._outbox.send(message.target, RelayedPing(token=token, origin=sender))

    def answered(self, sender: Peer, token: int) -> bool:
        """Report an answer to the prober; return whether the ping was sent on behalf of another node."""
        relayed = self._relayed.get(token)
        if relayed is None or relayed.target.node_id != sender.node_id:
            return False
        del self._relayed[token]
        self._report(relayed, reached=True)
        return True

    def next_timer(self) -> float | None:
        """Return when `tick` is due."""
        return next(iter(self._relayed.values())).nack_at if self._relayed else None

    def tick(self, now: float) -> None:
        """Report every target that has not answered in time."""
        while self._relayed:
            token, relayed = next(iter(self._relayed.items()))
            if now < relayed.nack_at:
                return
            del self._relayed[token]
            self._report(relayed, reached=False)

    def _report(self, relayed: _Relayed, *, reached: bool) -> None:
        report = PingReport(target=Id(relayed.target.node_id), token=relayed.token, reached=reached)
        self._outbox.send(relayed.asker, report)

    def clear(self) -> None:
        """Forget all pings sent for others."""
        self._relayed.clear()

    def check(self) -> None:
        """Assert every invariant."""
        assert len(self._relayed) <= RELAYED_MAX
        times = [relayed.nack_at for relayed in self._relayed.values()]
        assert times == sorted(times)
