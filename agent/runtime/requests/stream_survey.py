"""Asks all agents of the fleet: for the columns of a stream, for which each looks into its files, for what they do, for
new lines of a stream, and for the processing elements of keyed jobs. Asks some of them for a dry run of a query.

A question to all is an acknowledged multicast, so the asker knows how many agents there are and which have not
answered. It waits until all have, at most DEADLINE_S, and replies with the answers that have arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.sender import FLEET_GROUP, MessageSender
from agent.runtime.messages.views.descriptions import (
    AgentDescription,
    DescribeAgent,
    DescribeStream,
    SampleStream,
    StreamDescription,
    StreamSample,
)
from agent.runtime.messages.views.dry_runs import DryRun, DryRunView
from agent.runtime.messages.views.element_views import DescribeElements, ElementsDescription
from agent.runtime.requests.events import (
    AgentAsked,
    AgentObserver,
    AgentsDescribed,
    DryRunAsked,
    DryRunsDone,
    ElementsDescribed,
    StreamAsked,
    StreamSampled,
    StreamSurveyed,
)
from overlay import Id, MulticastAcknowledged, Peer

DEADLINE_S = 3.0
OPEN_MAX = 16
ANSWERS_MAX = 20_000
Question = DescribeStream | DescribeAgent | SampleStream | DescribeElements
Answer = StreamDescription | AgentDescription | StreamSample | ElementsDescription | DryRunView
Answers = Mapping[Peer, Answer]
_ANSWERS = (StreamDescription, AgentDescription, StreamSample, ElementsDescription, DryRunView)


@dataclass(slots=True)
class _Question:
    """`received`: the agents that have the question; None: unknown. `missing`: the agents that may not have it.
    `message_id`: None where they were asked one by one."""

    reply: Callable[[Answers, int], None]
    deadline: float
    message_id: int | None
    kind: type[Answer]
    answers: dict[Id, tuple[Peer, Answer]] = field(default_factory=dict)
    received: frozenset[Id] | None = None
    missing: frozenset[Id] = frozenset()


class StreamDiscovery:
    """Asks the fleet on behalf of this agent's clients, and reports other agents' questions to the `observer`."""

    name = "discovery"

    def __init__(
        self,
        own: Peer,
        sender: MessageSender,
        observer: AgentObserver,
    ) -> None:
        self._own = own
        self._sender = sender
        self._observer = observer
        self._open: dict[int, _Question] = {}
        self._numbers = 0

    def handlers(self) -> Handlers:
        return {
            DescribeStream: Handler(Via.FLEET, self._asked),
            DescribeAgent: Handler(Via.FLEET, self._agent_asked),
            SampleStream: Handler(Via.FLEET, self._sample_asked),
            DryRun: Handler(Via.DIRECT, self._dry_run_asked),
            **dict.fromkeys(_ANSWERS, Handler(Via.DIRECT, self._described)),
        }

    @property
    def is_empty(self) -> bool:
        return not self._open

    def ask(self, stream: str, reply: Callable[[StreamSurveyed], None], now: float) -> None:
        """Asks all agents for their descriptions of a stream."""

        def surveyed(answers: Answers, silent: int) -> None:
            found = {peer: one for peer, one in answers.items() if isinstance(one, StreamDescription)}
            reply(StreamSurveyed(found, silent))

        self._ask(
            lambda number: DescribeStream(FLEET_GROUP, self._own, number, stream), StreamDescription, surveyed, now
        )

    def ask_agents(self, job: Id | None, reply: Callable[[AgentsDescribed], None], now: float) -> None:
        """Asks all agents for their descriptions, with their places in the trees of a job if one is named."""

        def described(answers: Answers, silent: int) -> None:
            found = {peer.node_id: one for peer, one in answers.items() if isinstance(one, AgentDescription)}
            reply(AgentsDescribed(found, silent))

        self._ask(lambda number: DescribeAgent(FLEET_GROUP, self._own, number, job), AgentDescription, described, now)

    def ask_samples(
        self, question: Callable[[Peer, int], SampleStream], reply: Callable[[StreamSampled], None], now: float
    ) -> None:
        """Asks all agents for new lines of a stream; `question` is made from this agent and the question's number."""

        def sampled(answers: Answers, silent: int) -> None:
            found = {peer.node_id: one for peer, one in answers.items() if isinstance(one, StreamSample)}
            reply(StreamSampled(found, silent))

        self._ask(lambda number: question(self._own, number), StreamSample, sampled, now)

    def ask_elements(
        self, question: Callable[[Peer, int], DescribeElements], reply: Callable[[ElementsDescribed], None], now: float
    ) -> None:
        """Asks all agents for their processing elements; `question` is made from this agent and its number."""

        def described(answers: Answers, silent: int) -> None:
            found = {peer.node_id: one for peer, one in answers.items() if isinstance(one, ElementsDescription)}
            reply(ElementsDescribed(found, silent))

        self._ask(lambda number: question(self._own, number), ElementsDescription, described, now)

    def ask_dry_runs(
        self,
        agents: Iterable[Peer],
        question: Callable[[int], DryRun],
        reply: Callable[[DryRunsDone], None],
        now: float,
    ) -> None:
        """Asks some agents for a dry run; `question` is made from its number."""

        def done(answers: Answers, silent: int) -> None:
            found = {peer.node_id: one for peer, one in answers.items() if isinstance(one, DryRunView)}
            reply(DryRunsDone(found, silent))

        asked = tuple(agents)
        if len(self._open) >= OPEN_MAX:
            done({}, len(asked))
            return
        self._numbers += 1
        received = frozenset(peer.node_id for peer in asked)
        self._open[self._numbers] = _Question(done, now + DEADLINE_S, None, DryRunView, received=received)
        self._sender.send_all(asked, question(self._numbers), now)

    def _ask(
        self,
        question: Callable[[int], Question],
        kind: type[Answer],
        reply: Callable[[Answers, int], None],
        now: float,
    ) -> None:
        if len(self._open) >= OPEN_MAX:
            reply({}, 1)  # nobody is asked, this agent neither
            return
        self._numbers += 1
        message = question(self._numbers)
        message_id = self._sender.multicast_acknowledged(FLEET_GROUP, message, 0.8 * DEADLINE_S, now)
        self._open[self._numbers] = _Question(reply, now + DEADLINE_S, message_id, kind)

    def answer(self, asked: StreamAsked, seen: StreamDescription, now: float) -> None:
        """Answers a question of another agent, or of this one."""
        self._sender.send(asked.asker, seen, now)

    def _asked(self, message: DescribeStream, _now: float) -> None:
        self._observer.stream_asked(StreamAsked(message.asker, message.question, message.stream))

    def describe(self, asked: AgentAsked, description: AgentDescription, now: float) -> None:
        """Describes this agent to one that has asked."""
        self._sender.send(asked.asker, description, now)

    def _agent_asked(self, message: DescribeAgent, _now: float) -> None:
        self._observer.agent_asked(AgentAsked(message.asker, message.question, message.job))

    def give_sample(self, asked: SampleStream, sample: StreamSample, now: float) -> None:
        """Sends an agent the lines that it has asked for."""
        self._sender.send(asked.asker, sample, now)

    def _sample_asked(self, message: SampleStream, _now: float) -> None:
        self._observer.sample_asked(message)

    def give_dry_run(self, asked: DryRunAsked, done: DryRunView, now: float) -> None:
        """Sends an agent the result of the dry run that it has asked for."""
        self._sender.send(asked.asker, done, now)

    def _dry_run_asked(self, message: DryRun, sender: Peer, _now: float) -> None:
        self._observer.dry_run_asked(DryRunAsked(sender, message))

    def _described(self, message: Answer, sender: Peer, _now: float) -> bool:
        """Takes an answer; False if its question is not open, or another one."""
        question = self._open.get(message.question)
        if question is None or not isinstance(message, question.kind) or len(question.answers) >= ANSWERS_MAX:
            return False
        question.answers[sender.node_id] = sender, message
        self._end_if_complete(message.question, question)
        return True

    def acknowledged(self, event: MulticastAcknowledged) -> None:
        """Takes the overlay's report of the agents that have a question."""
        for number, question in list(self._open.items()):
            if question.message_id == event.message_id:
                question.received, question.missing = event.received, event.missing
                self._end_if_complete(number, question)

    def tick(self, now: float) -> None:
        """Ends questions whose deadline has passed."""
        for number, question in list(self._open.items()):
            if now >= question.deadline:
                self._end(number, question)

    def _end_if_complete(self, number: int, question: _Question) -> None:
        received = question.received
        if received is not None and not question.missing and received <= question.answers.keys():
            self._end(number, question)

    def _end(self, number: int, question: _Question) -> None:
        """Gives the answers. Where it is not known yet who has the question, one at least may not have answered."""
        del self._open[number]
        everyone = (question.received or frozenset()) | question.missing
        silent = len(everyone - question.answers.keys())
        question.reply(dict(question.answers.values()), max(silent, int(question.received is None)))

    def statistics(self) -> Mapping[str, int]:
        return {"open": len(self._open)}
