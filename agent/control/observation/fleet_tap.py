"""Taps a stream on all agents for a client, and on this one for the clients of others.

The asked agent asks all, itself among them, again and again (`StreamDiscovery`). Each answers with lines that have come
since the last question, at most so many as the client wants, and counts the others. A tap that is not asked again ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import msgspec
import trio

import query as ql
from agent.access.decision import Access, Need
from agent.access.owners import creator_of
from agent.access.rules import AccessRole, Principal
from agent.configuration.config import StreamConfig
from agent.control import messages as control
from agent.control.observation.stream_tap import WAITING_BYTES_MAX, NoLineError, StreamTap
from agent.control.pending_replies import NO_ANSWER, NOT_JOINED, PendingReply
from agent.control.question_queue import QuestionQueue
from agent.control.server import Connection
from agent.driver import CoreDriver
from agent.runtime.agent import Agent
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.messages.views.descriptions import SAMPLE_BYTES_MAX, SAMPLE_LINES_MAX, SampleStream, StreamSample
from agent.runtime.requests.events import StreamSampled
from overlay import Peer

LOOK_S = 0.5
IDLE_S = 15.0
"""Time after which a tap ends for which its agent has not asked again."""
TAPS_MAX = 8
"""Upper bound on the taps of other agents' clients; further ones are refused."""
WAITING_MAX = 16
"""Upper bound on questions that wait; further ones get no answer."""
SHOWN_MAX = 500
"""Upper bound on the lines of all agents that a client gets of a look, the same number of each; others are counted."""
NAMED_MAX = 20
"""Upper bound on the agents that are named with the lines that they have not shown, or with their refusal."""
_LINE: msgspec.json.Decoder[control.TappedLine] = msgspec.json.Decoder(control.TappedLine)


@dataclass(slots=True)
class _RemoteTap:
    tap: StreamTap
    asked_at: float


class RemoteTaps:
    """The taps of other agents' clients on this agent's streams."""

    def __init__(
        self,
        driver: CoreDriver,
        agent: Agent,
        access: Access,
        streams: Callable[[], Iterable[StreamConfig]],
        wall_ms: Callable[[], int],
    ) -> None:
        self._driver = driver
        self._agent = agent
        self._access = access
        self._streams = streams
        self._wall_ms = wall_ms
        self._taps: dict[tuple[int, int], _RemoteTap] = {}
        self._questions: QuestionQueue[SampleStream] = QuestionQueue(WAITING_MAX)
        self.ask = self._questions.ask

    async def run(self) -> None:
        """Answers one question after the other until it is cancelled."""
        try:
            while True:
                asked = None
                with trio.move_on_after(IDLE_S if self._taps else float("inf")):
                    asked = await self._questions.next()
                if asked is not None:
                    sample = await self._sample(asked)
                    self._driver.do(partial(self._agent.discovery.give_sample, asked, sample))
                self._end_idle()
        finally:
            self._end_idle(everything=True)

    def _end_idle(self, *, everything: bool = False) -> None:
        now = trio.current_time()
        for key in [key for key, one in self._taps.items() if everything or now - one.asked_at > IDLE_S]:
            self._taps.pop(key).tap.close()

    async def _sample(self, asked: SampleStream) -> StreamSample:
        """The answer to a question."""
        answer = partial(StreamSample, FLEET_GROUP, asked.question, self._agent.name)
        stream = next((one for one in self._streams() if one.name == asked.stream), None)
        if stream is None:
            return answer(has_stream=False)
        if (refusal := refusal_of(self._access, asked.owner, asked.stream)) is not None:
            return answer(has_stream=True, refusal=refusal[:2000])
        key, now = (asked.asker.node_id, asked.tap), trio.current_time()
        if key not in self._taps and len(self._taps) >= TAPS_MAX:
            return answer(has_stream=True, refusal=f"{TAPS_MAX} taps of other agents' clients are open already")
        try:
            if key not in self._taps:
                request = control.TapRequest(asked.stream, asked.malformed, asked.where)
                self._taps[key] = _RemoteTap(await trio.to_thread.run_sync(StreamTap, stream, request), now)
        except (ql.QueryError, NoLineError) as error:
            return answer(has_stream=True, refusal=str(error)[:2000])
        one = self._taps[key]
        one.asked_at = now
        tapped = await trio.to_thread.run_sync(one.tap.look, now, self._wall_ms(), asked.most)
        lines = _within(SAMPLE_BYTES_MAX, map(msgspec.json.encode, tapped.lines))
        skipped = tapped.skipped + len(tapped.lines) - len(lines)
        return answer(has_stream=True, lines=lines, skipped=skipped, read=tapped.read)


def refusal_of(access: Access, owner: str, stream: str) -> str | None:
    """The reason to refuse a stream to a creator, who is the same everywhere; for others their own agent vouches."""
    if (creator := creator_of(owner)) is None:
        return None
    who = Principal(creator[0], owner, creators=frozenset(creator))
    return access.refusal(who, [Need(AccessRole.QUERY, f"tap {stream}", streams=(stream,))])


def _within(bytes_max: int, lines: Iterable[bytes]) -> list[bytes]:
    """The first lines that take no more than so many bytes."""
    kept = list(lines)
    return [line for line, size in zip(kept, itertools.accumulate(map(len, kept)), strict=True) if size <= bytes_max]


class FleetTap:
    """One client's tap of a stream on all agents."""

    _numbers = itertools.count(1)

    def __init__(self, driver: CoreDriver, agent: Agent, request: control.TapRequest) -> None:
        self._driver = driver
        self._agent = agent
        self._request = request
        self._number = next(self._numbers)

    async def run(self, connection: Connection) -> control.Refused:
        """Sends the client new lines until it has gone; returns the refusal where there is nothing to send."""
        owner, absent, is_first = connection.principal.owner, None, True
        while True:
            if not self._driver.node.is_active:
                return control.Refused("unavailable", NOT_JOINED)
            pending: PendingReply[StreamSampled] = PendingReply()
            ask = partial(self._agent.discovery.ask_samples, partial(self._question, owner), pending.resolve)
            self._driver.do(ask)
            pause_until = trio.current_time() + LOOK_S
            if (found := await pending.wait()) is None:
                return control.Refused("unavailable", NO_ANSWER)
            having = [one for one in found.answers.values() if one.has_stream]
            if is_first and not found.answers:
                return control.Refused("unavailable", NO_ANSWER)
            if is_first and not having:
                return control.Refused("usage", self._nowhere(found))
            tapped = merged(self._request.stream, having, found.silent)
            is_news = bool(tapped.read) or (tapped.refused, tapped.silent) != absent
            if is_news and connection.waiting_bytes < WAITING_BYTES_MAX:
                connection.send(tapped)
                absent = (tapped.refused, tapped.silent)
            is_first = False
            await trio.sleep_until(pause_until)

    def _question(self, owner: str, own: Peer, number: int) -> SampleStream:
        one = self._request
        most = min(SAMPLE_LINES_MAX, max(1, round(one.per_s * LOOK_S)))
        return SampleStream(FLEET_GROUP, own, number, self._number, one.stream, one.malformed, one.where, most, owner)

    def _nowhere(self, found: StreamSampled) -> str:
        silent = f"; {found.silent} have not" if found.silent else ""
        answered = f"none of the {len(found.answers)} agents that have answered has it"
        return f"there is no stream {self._request.stream}: {answered}{silent}"


def merged(stream: str, samples: Iterable[StreamSample], silent: int) -> control.Tapped:
    """The samples of all agents for a client, bounded; what an agent has sent that is no line is counted as skipped."""
    samples = sorted(samples, key=lambda one: one.agent)
    share = max(1, SHOWN_MAX // max(1, len(samples)))
    lines: list[control.TappedLine] = []
    skipped: dict[str, int] = {}
    for sample in samples:
        shown = [] if len(lines) >= SHOWN_MAX else [one for data in sample.lines[:share] if (one := _line(data))]
        lines += (msgspec.structs.replace(one, agent=sample.agent) for one in shown)
        if left_out := sample.skipped + len(sample.lines) - len(shown):
            skipped[sample.agent] = skipped.get(sample.agent, 0) + left_out
    most = dict(sorted(skipped.items(), key=lambda one: (-one[1], one[0]))[:NAMED_MAX])
    refused = {sample.agent: sample.refusal for sample in samples if sample.refusal}
    return control.Tapped(
        stream,
        lines,
        sum(skipped.values()),
        sum(sample.read for sample in samples),
        most,
        dict(itertools.islice(refused.items(), NAMED_MAX)),
        silent,
    )


def _line(data: bytes) -> control.TappedLine | None:
    try:
        return _LINE.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
