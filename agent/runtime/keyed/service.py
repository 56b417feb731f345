"""Runs the keyed elements of all jobs on one agent: connects their cores with overlay, logs and programs.

What a core is made of is loaded with the first job that has elements: it is a tenth of all that an agent loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import query
from agent.parsing import Parsed
from agent.programs.element_graph import Element
from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.job.local_job import LocalJob
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.job.program_table import Programs
from agent.runtime.keyed.early_messages import EarlyMessages
from agent.runtime.keyed.element_program import ContainedProgram, ElementAct, ElementProgram, ProgramHere, RunHere
from agent.runtime.keyed.hosting.options import ChoiceStore, ChoiceStores, KeyedOptions
from agent.runtime.keyed.logical_nodes import NONE_BEGUN, packed
from agent.runtime.keyed.reading_progress import KeptPlace
from agent.runtime.keyed.ring import OverlayRing
from agent.runtime.keyed.stages import ElementStages, misread
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.messages import elements as messages
from agent.runtime.messages.handlers import Handler, Handlers, Via
from agent.runtime.messages.jobs import Submit
from agent.runtime.messages.programs import ProgramFailed
from agent.runtime.messages.sender import MessageSender
from agent.runtime.model.containment import JobContainment
from agent.runtime.model.epoch import JobTerm
from agent.runtime.model.fields import Message
from agent.runtime.model.step_clock import StepClock
from overlay import Id, Node, Peer

if TYPE_CHECKING:
    from agent.runtime.keyed.elements.runtime import Compact, ElementRuntime
    from agent.runtime.keyed.graph import CheckedGraph
    from agent.runtime.keyed.hosted_job import HostedJob
    from agent.runtime.keyed.hosting.job import KeyedJob
    from agent.runtime.keyed.type_reader import GivenPart

LOOK_S = 0.5
"""Interval between looks at the members of a job, and at the agent's streams."""
BEGUN_MAX = 128
"""Number of cores that an agent begins between two starts with numbers that differ."""
KEPT_MAX = 4096
"""Upper bound on the jobs that do not run here whose places are kept; of more, the oldest are forgotten."""
TICKET_BITS = 40
"""Bits of the number of a call of one element; those above tell the element."""
_TAKEN = (
    messages.ElementRows, messages.ElementCredit, messages.ElementReset,
    messages.FindHosts, messages.NodeHosts, messages.NodeBallots, messages.CommitRecord, messages.CommitHeld,
    messages.MoveNodes, messages.NodesMoved, messages.ElementLoad, messages.ElementTimeReport, messages.ElementTimes,
    messages.ElementRoster, messages.ElementParcel, messages.ElementProbe, messages.CommitProbe,
)  # fmt: skip


def check_elements(data: object) -> CheckedGraph:
    """The graph of a job's elements. Raises `query.PlanError` where any of them cannot run."""
    from agent.runtime.keyed.elements import declared
    from agent.runtime.keyed.graph import CheckedGraph

    graph = CheckedGraph.of(data)
    for element in graph.graph.elements:
        if element.kind != "code":
            declared.check(element, graph.types)
    return graph


class KeyedJobs:
    """The cores of all jobs with keyed elements that this agent works for. Every agent of the fleet does.

    A core begins when its agent is on the job's roster, and its program has been loaded.
    """

    name = "keyed"

    def __init__(
        self,
        node: Node,
        sender: MessageSender,
        jobs: LocalJobs,
        masters: JobMasters,
        directory: JobDirectory,
        clock: StepClock,
        containment: JobContainment,
        programs: Programs,
        options: KeyedOptions,
    ) -> None:
        self.refused = 0
        self.on_lost: Callable[[float], None] = lambda _now: None
        """Is told where logical nodes of a job have begun anew here."""
        self.run_here: RunHere | None = None
        """Runs the code of jobs in this process; None: programs run it, contained."""
        self._programs = programs
        self.options = options
        self._node = node
        self._sender = sender
        self._jobs = jobs
        self._masters = masters
        self._directory = directory
        self._clock = clock
        self._containment = containment
        self._hosted: dict[Id, HostedJob] = {}
        self._stages = ElementStages(directory)
        self._early = EarlyMessages()
        self._kept: dict[JobTerm, dict[str, KeptPlace]] = {}
        self._has_store = False
        self._choices: ChoiceStores | None = None
        self._look_at = 0.0
        self._begun = 0
        """Number of cores begun so far."""
        self._is_leaving = False
        jobs.on_working = self._begin
        jobs.functions.check_elements = check_elements

    def handlers(self) -> Handlers:
        return dict.fromkeys(_TAKEN, Handler(Via.DIRECT | Via.JOB, self.take))

    def statistics(self) -> Mapping[str, int]:
        total = {"refused": self.refused, "jobs": len(self._hosted), "early": len(self._early)}
        for hosted in self._hosted.values():
            for name, count in hosted.core.statistics().items():
                total[name] = total.get(name, 0) + count
        return total

    def __iter__(self) -> Iterator[KeyedJob]:
        return (hosted.core for hosted in list(self._hosted.values()))

    def get(self, app_id: Id) -> KeyedJob | None:
        """The core of a job, if this agent takes part in one with keyed elements."""
        hosted = self._hosted.get(app_id)
        return None if hosted is None else hosted.core

    # Jobs that come and go.

    def _begin(self, local: LocalJob, job: Submit, now: float) -> None:
        from agent.runtime.keyed.hosted_job import HostedJob

        assert local.versions is not None
        plan = local.versions.newest.function.plan
        elements = plan.elements
        if plan.types is not None:
            self._look_at = now  # stages begin with the job whose events they read
        if elements is None or local.app_id in self._hosted:
            return
        graph = check_elements(elements)
        program = self._program_of(local)
        runtimes = {
            one.name: self._runtime(one, graph, program, is_bounded=job.bounded) for one in graph.graph.elements
        }
        kept = self._kept_of(local)
        options = replace(
            self.options,
            begun_before=kept[""].begun if kept and "" in kept else NONE_BEGUN,
            incarnation=self._next_incarnation(),
            bounded=job.bounded,
            choices=self._choices_of(local, graph),
            pane_ms=local.versions.newest.function.pane_ms,
            compact={one.name: self._compact(one) for one in graph.graph.elements},
        )
        ring = OverlayRing(self._node, self._sender, local.app_id)
        hosted = HostedJob(local, job, graph, ring, runtimes, program, options, self._jobs.ingest, kept)
        hosted.core.on_lost = self.on_lost
        self._hosted[local.app_id] = hosted
        self._stages.look(self._jobs)
        self._read_by_stages(hosted, now)
        self._look(hosted, now)
        for message, about in self._early.take(local.app_id):
            self.take(message, *about, now)
        self._tick(hosted, now)

    def _read_by_stages(self, hosted: HostedJob, now: float) -> None:
        """Gives events to those stages of a job that are here, and to no others."""
        stages = self._stages.of(hosted.app_id)
        for stage in stages:
            if (problem := misread(stage, hosted.graph)) is not None:
                self._jobs.abandon(stage.app_id, query.PlanError(problem), now)
        hosted.read_by(stage for stage in stages if stage.pipeline is not None)

    def _next_incarnation(self) -> int:
        """A number higher than those of earlier cores of this agent, also before it was started again."""
        self._begun += 1
        return (self.options.incarnation or max(0, self._clock.ms // 1000)) * BEGUN_MAX + self._begun % BEGUN_MAX

    def resume(self, kept: Iterable[KeptPlace], choices: ChoiceStores | None = None) -> None:
        """Takes the places that an earlier process of the agent has stored, as those of this one will be, and where the
        choices for rows after these places are."""
        self._has_store, self._choices = True, choices
        self._keep(kept)

    def stored(self, places: Iterable[KeptPlace]) -> None:
        """Learns which places are in store, or would be if the disk took them."""
        for place in places:
            hosted = self._hosted.get(Id(place.term.app_id))
            if hosted is not None and hosted.term == place.term:
                hosted.sources.stored(place)

    def _keep(self, kept: Iterable[KeptPlace]) -> None:
        for place in kept:
            self._kept.setdefault(place.term, {})[place.stream] = place
        while len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]

    def _kept_of(self, local: LocalJob) -> Mapping[str, KeptPlace] | None:
        found = {} if local.epoch is None else self._kept.pop(JobTerm(local.app_id, local.epoch.born_ms), {})
        return found if found or self._has_store else None

    def _choices_of(self, local: LocalJob, graph: CheckedGraph) -> ChoiceStore | None:
        """Keeps choices of workers that may have to be made again alike; None where none has to."""
        is_split = any(route.grouping and graph.types[route.type].guaranteed for route in graph.routes)
        if self._choices is None or local.epoch is None or not is_split:
            return None
        return self._choices.of(JobTerm(local.app_id, local.epoch.born_ms))

    def places(self) -> list[KeptPlace]:
        """The places from which sources would go on if the agent were started anew; those of jobs that have not begun
        again here are kept for a while."""
        self._forget_places()
        found = [place for places in self._kept.values() for place in places.values()]
        return found + [place for hosted in self._hosted.values() for place in hosted.places()]

    def _forget_places(self) -> None:
        """Forgets the places of jobs that are over."""
        is_over = self._directory.is_over
        self._kept = {term: places for term, places in self._kept.items() if not is_over(Id(term.app_id), term)}
        if self._choices is not None:
            hosted = (one.term for one in self._hosted.values())
            self._choices.retain({*self._kept, *(term for term in hosted if term is not None)})

    def _program_of(self, local: LocalJob) -> ElementProgram:
        return ContainedProgram(local, self._programs) if self.run_here is None else ProgramHere(self.run_here)

    def _runtime(
        self, element: Element, graph: CheckedGraph, program: ElementProgram, *, is_bounded: bool
    ) -> ElementRuntime:
        from agent.runtime.keyed.elements import code, declared

        if element.kind == "code":
            first_ticket = graph.index(element.name) << TICKET_BITS
            return code.CodeRuntime(
                element, graph.types, program.call, program.place, first_ticket, is_bounded=is_bounded
            )
        return declared.runtime_of(element, graph.types, self._jobs.ingest.area, ordered=is_bounded)

    def _compact(self, element: Element) -> Compact:
        from agent.runtime.keyed.elements import code, declared

        return code.compact(element) if element.kind == "code" else declared.compact(element)

    def drop(self, app_id: Id, _now: float) -> None:
        """Forgets a job that is over, or that this agent works for no more; where it begins here again, its sources go
        on."""
        self._early.drop(app_id)
        if (hosted := self._hosted.pop(app_id, None)) is not None:
            self._keep(hosted.places())
            hosted.close()
        self._forget_places()

    # The parts of agents that are dead.

    def given_to(self, app_id: Id, node_id: Id, after: int, upto: int) -> GivenPart | None:
        """The part of an agent in windows of a job, or of a stage, as far as hosts here were given it; see
        `HostedJob`."""
        hosted = self._hosted.get(self._stages.job_of(app_id) or app_id)
        return None if hosted is None else hosted.given_to(app_id, node_id, after, upto)

    def begun(self, app_id: Id) -> bytes:
        """The logical nodes of a job, or of that of a stage, that have been begun, as far as is known here."""
        hosted = self._hosted.get(self._stages.job_of(app_id) or app_id)
        return b"" if hosted is None else packed(hosted.core.begun_nodes)

    def has_waited_for(self, app_id: Id, node_id: Id, from_ms: int, before_ms: int) -> bool:
        """At a job's master: whether event time has waited for all events of an agent's logs in this range. The master
        of a stage does not know."""
        hosted = self._hosted.get(app_id)
        return hosted is not None and hosted.core.has_waited_for(node_id, from_ms, before_ms)

    # Messages and the overlay.

    def take(self, message: Message, *about: Any) -> bool:
        """Gives a message to the core of its job; keeps it for a moment where that has not begun. `about`: the sender,
        or nothing where it was multicast; then the time."""
        *ways, now = about
        hosted = self._hosted.get(message.app_id)
        if hosted is None:
            known = self._directory.get(message.app_id)
            if known is None or not known.keyed:
                return False
            if isinstance(message, messages.ElementParcel):
                return self._pass_on(message, now)
            return self._early.hold(message, tuple(ways))
        match ways:
            case [] if isinstance(message, messages.ElementRoster):
                taken = hosted.local.epoch == message.epoch
                if taken and message.peers:
                    hosted.note_members(tuple(message.peers), now)
            case [sender]:
                self._note_return(message, sender)
                taken = hosted.core.handle(message, sender, now)
            case _:
                hosted.core.multicast(message, now)
                taken = True
        hosted.flush(now, self._clock.ms)
        self.refused += not taken
        return True

    def _pass_on(self, parcel: messages.ElementParcel, now: float) -> bool:
        """Passes letters on at an agent where their job has not begun, and keeps those that are for it."""
        from agent.runtime.keyed.hosting.rows.relay import MessageRelay

        relay = MessageRelay(parcel.app_id, OverlayRing(self._node, self._sender, parcel.app_id), 0.0)
        kept = [self._early.hold(letter, (origin,)) for origin, letter in relay.take(parcel, now)]
        relay.tick(now)
        return all(kept)

    def _note_return(self, message: Message, sender: Peer) -> None:
        """The time of a job waits for all that host its nodes, also if they were taken for dead."""
        if isinstance(message, messages.ElementTimeReport):
            master = self._masters.get(message.app_id)
            if master is not None:
                master.returned(sender.node_id)

    def answered(self, app_id: Id, act: ElementAct, now: float) -> bool:
        """Takes an answer of a job's program; False if it was not asked for."""
        hosted = self._hosted.get(app_id)
        if hosted is None:
            return True  # it was asked before this agent's part ended
        is_ours = hosted.answered(act)
        self._tick(hosted, now)
        return is_ours

    def failed(self, peer: Peer, now: float) -> None:
        """Tells all cores that an agent is dead, or has left."""
        self._for_each(lambda hosted: hosted.core.failed(peer, now), now)

    def neighbours_changed(self, now: float) -> None:
        """Tells all cores that agents near to this one have come or gone."""
        self._for_each(lambda hosted: hosted.core.neighbours_changed(now), now)

    def _for_each(self, act: Any, now: float) -> None:
        for app_id, hosted in list(self._hosted.items()):
            with self._containment.around(app_id, now):
                act(hosted)

    # Leaving.

    def leave(self, now: float) -> None:
        """Hands over everything that is hosted here, and reads no more."""
        if not self._is_leaving:
            self._is_leaving = True
            self._for_each(lambda hosted: hosted.leave(now), now)

    def holds(self, app_id: Id) -> bool:
        """Whether a job has to go on here until it has handed over what it hosts."""
        hosted = self._hosted.get(self._stages.job_of(app_id) or app_id)
        return hosted is not None and self._is_leaving and not hosted.core.has_left

    # Time.

    @property
    def is_active(self) -> bool:
        """Whether anything is under way in any job."""
        return any(hosted.is_active for hosted in self._hosted.values())

    def next_timer(self) -> float | None:
        """The time at which `step` wants to be called."""
        timers = [due for hosted in self._hosted.values() if (due := hosted.next_timer()) is not None]
        return min(timers, default=None)

    def check_states(self, now: float) -> None:
        """Has all jobs' code tell its states, where nobody else asks for them."""
        for hosted in self._hosted.values():
            hosted.check_states()
            self._tick(hosted, now)

    def step(self, now: float) -> None:
        """Does what is due in any job."""
        for hosted in list(self._hosted.values()):
            due = hosted.next_timer()
            if due is not None and due <= now:
                self._tick(hosted, now)

    def tick(self, now: float) -> None:
        """Looks at members and streams, now and then."""
        self._early.expire(now)
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        self._stages.look(self._jobs)
        self._pass_time(now)
        for app_id, hosted in list(self._hosted.items()):
            if self._jobs.get(app_id) is not hosted.local or hosted.local.pipeline is None:
                self.drop(app_id, now)
                continue
            with self._containment.around(app_id, now):
                self._read_by_stages(hosted, now)
                self._look(hosted, now)
                hosted.note_published()
            self._tick(hosted, now)

    def _pass_time(self, now: float) -> None:
        """Lets time pass for stages of jobs that cannot run here: no events are emitted here."""
        for app_id, stages in self._stages.all():
            if app_id in self._hosted or not self._jobs.is_unable(app_id):
                continue
            for key in [key for stage in stages if stage.pipeline is not None for key in stage.pipeline.feeds]:
                self._jobs.ingest.insert(key, Parsed((), 0, self._clock.ms), now, self._clock.ms)

    def _tick(self, hosted: HostedJob, now: float) -> None:
        with self._containment.around(hosted.app_id, now):
            hosted.tick(now, self._clock.ms)
            if (failure := hosted.take_failure()) is not None and hosted.local.epoch is not None:
                failed = ProgramFailed(hosted.app_id, hosted.local.epoch, self._jobs.agent_name, failure, "")
                self._jobs.send_to_master(hosted.local, failed, now)

    def _look(self, hosted: HostedJob, now: float) -> None:
        local = hosted.local
        if not self._is_leaving:
            names = {one.plan.stream for one in hosted.graph.sources}
            hosted.sources.read({name: how for stream in names for name, how in self._jobs.streams_of(stream).items()})
        master = self._masters.get(hosted.app_id)
        if master is None or master.ended is not None:
            return
        peers = master.members(hosted.members, now)
        if peers and hosted.is_to_tell(peers, master.enrolments, now):
            self._sender.multicast(
                local.app_id, messages.ElementRoster(local.app_id, master.state.epoch, list(peers)), now
            )
