"""Runs the agent as a process: wires its parts, starts and ends it, and handles the failure of a part.

One trio run holds all tasks. The node and the agent's core are synchronous and called only through the `CoreDriver`.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from importlib.metadata import version

import trio

from agent import log
from agent.access.decision import Access
from agent.access.rules import standing_rules
from agent.archive.format.streams import results_directory
from agent.calibration.keeper import CalibrationKeeper
from agent.configuration.config import Config
from agent.control import messages as control_messages
from agent.control.control_service import ControlService
from agent.control.departure import Departure
from agent.control.latency.dry_runs import DryRunAnswers, DryRunClocks
from agent.control.latency.replanning import PlanningThread
from agent.control.observation.fleet_tap import RemoteTaps
from agent.control.observation.fleet_view import own_description
from agent.control.observation.stream_sampler import StreamSampler
from agent.control.reload.config_reload import ConfigReload
from agent.control.remote_clients import RemoteClients
from agent.control.server import ControlServer
from agent.control.socket_peers import unknown_names
from agent.control.status_report import (
    described_agent,
    described_split,
    memory_bytes,
    stream_counters,
    transport_counters,
)
from agent.daemon.archiving import ArchiveSupervisor
from agent.daemon.data_directory import SEALED_DIRECTORY, ClockFile, DataDirectory, DiskWarnings, ShownFiles
from agent.daemon.free_memory import FreeMemory, give_back
from agent.daemon.identity_watch import IdentityWatch
from agent.daemon.job_journal import JobJournal
from agent.daemon.position_keeper import PositionKeeper
from agent.daemon.result_files import ResultFiles
from agent.daemon.sealed_files import SealedFiles
from agent.daemon.seeds import Seeds
from agent.daemon.trust import FleetCreators, kept_ended_mandates, kept_revocations
from agent.driver import CoreDriver
from agent.enrolment.renewal import Renewal
from agent.errors import StartError
from agent.feeding.choice_files import ChoiceFiles
from agent.feeding.feeds import Feeds
from agent.feeding.kept_places import KeptPlaces, read_kept_places
from agent.feeding.table_files import TableFiles
from agent.metrics.figures import AgentFigures
from agent.metrics.server import MetricsServer
from agent.open_files import allow_open_files
from agent.programs.commands import ProgramEnded, ProgramLimits, ProgramSaid
from agent.programs.program_supervisor import ProgramSupervisor
from agent.runtime.agent import Agent
from agent.runtime.copies.service import CopyOptions
from agent.runtime.function.spill import SpillArea
from agent.runtime.ingest.feed import StreamOptions
from agent.runtime.keyed.hosting.options import KeyedOptions
from agent.runtime.messages.job_records import JobRecord
from agent.runtime.messages.plans import PlanQuestion
from agent.runtime.messages.views.descriptions import SampleStream
from agent.runtime.requests.events import AgentAsked, AgentObserver, DryRunAsked, Shown, StreamAsked
from agent.runtime.requests.status import AgentStatus, job_figures
from agent.seeding.neighbours_file import NeighboursFile
from agent.service_manager.life_signs import LifeSigns
from agent.service_manager.notify_socket import own_notify_socket
from cbt import DiskQuota
from overlay import (
    CreatorTrust,
    EpochTaken,
    Id,
    Identity,
    ListenError,
    Node,
    Peer,
    PeerFailed,
    PeerLeft,
    Revocations,
    Transport,
    TransportLimits,
    format_id,
    keeps_order,
)

KEPT_PLACES_FILE = "kept-places"
CALIBRATION_FILE = "calibration"
CHOICES_DIRECTORY = "choices"
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT)
RELOAD_SIGNAL = signal.SIGHUP
DESCRIPTORS_WANTED = 8192
"""Open files an agent may need: links to 1,024 peers, and files of a few streams."""
SWEEP_S = 5.0
"""Interval at which the transport looks for idle and stuck links; long, so that an idle agent seldom wakes up."""
NEIGHBOURS_FILE = "neighbours"
NEIGHBOURS_S = 15.0
"""Interval at which neighbours are stored, if they have changed."""
SHOWN_PARTS = (
    "agent", "claims", "copies", "ingest", "keyed", "masters", "sealed", "results", "jobs", "spill", "control",
    "clients", "node",
)  # fmt: skip
"""Parts whose counters the status shows in full, as `part.counter`."""
LEAVE_TIMEOUT_S = 5.0
PAUSE_TIMEOUT_S = 2.0
"""Time that an agent that leaves takes to insert what its feeds have read."""
CLOSE_TIMEOUT_S = 2.0
POSITIONS_BYTES = 64 << 20
"""Upper bound on the files of positions, where sealed panes are not on disk."""
RESTART_PAUSE_S = 1.0
"""Delay before a failed part is restarted."""


class WorkClock:
    """Seconds for which the process has worked. It stands still while others have the processor or the machine sleeps,
    and goes no faster than time however many threads work.
    """

    def __init__(self) -> None:
        self._elapsed, self._used = time.monotonic(), time.process_time()
        self._worked_s = 0.0

    def __call__(self) -> float:
        elapsed, used = time.monotonic(), time.process_time()
        self._worked_s += min(elapsed - self._elapsed, used - self._used)
        self._elapsed, self._used = elapsed, used
        return self._worked_s


def run_agent(config: Config, identity: Identity, program: Sequence[str]) -> int:
    """Runs one agent until it is told to end; returns the exit code. StartError, one line, when it cannot start.

    `program` is the command that runs the code of a job, in a process of its own.
    """
    started = time.monotonic()
    faulthandler.enable()  # the service manager ends an agent that stands still with SIGABRT: the journal says where
    allow_open_files(DESCRIPTORS_WANTED)
    gc.collect()
    gc.freeze()  # what is loaded by now stays: no need to look through it ever again
    give_back()
    with DataDirectory(config.data_directory) as directory:
        log.start_logging(config.log_level)
        try:
            return trio.run(_run, config, identity, directory, program, started)
        except StartError:
            raise
        except BaseException as error:
            log.failed("crashed", error)
            return 1


async def _run(
    config: Config, identity: Identity, directory: DataDirectory, program: Sequence[str], started: float
) -> int:
    with (
        trio.open_signal_receiver(*ENDING_SIGNALS) as signals,
        trio.open_signal_receiver(RELOAD_SIGNAL) as hangups,
    ):
        daemon = Daemon(config, identity, directory, program, started)
        return await daemon.run(signals, hangups)


@cache
def _version() -> str:
    """The version of ELF, which is read from disk when somebody first asks for it."""
    return version("elf-stream")


def wall_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Daemon(AgentObserver):
    """One running agent."""

    def __init__(
        self, config: Config, identity: Identity, directory: DataDirectory, program: Sequence[str], started: float
    ) -> None:
        self._config = config
        self._incarnation = incarnation = directory.next_incarnation(int(time.time()))
        self._epochs, job_files = directory.epochs(), directory.job_files()
        self._started, self._exit_code = started, 0
        address = config.advertise or config.listen
        chance = random.Random()
        node = Node(
            Peer(identity.node_id, address), random=chance, start_number=incarnation, epochs=self._epochs.counters
        )
        options = {stream.name: StreamOptions(stream.read_from) for stream in config.streams}
        self._warnings = DiskWarnings(trio.current_time)
        self._quota = DiskQuota(config.spill_disk_bytes)
        self._room = SpillArea(
            config.job_memory_bytes, directory.empty_spill_directory(), self._warnings.warn, self._quota
        )
        self._agent = agent = self._new_agent(node, options)
        self._clock_file = self._resumed_clock(directory)
        self._journal = JobJournal(job_files, self._jobs_stored, self._repeat_jobs, self._warnings.warn)
        agent.restore(job_files.read(), trio.current_time())
        self._shown_files = ShownFiles(directory.shown_directory())
        self._programs = self._new_programs(program)
        self._pump = pump = CoreDriver(
            node,
            agent,
            wall_ms=wall_ms,
            send=self._send,
            order=self._programs.order,
            is_idle=lambda: self._agent.is_idle,
            settled=self._settled,
        )
        self._life_signs = LifeSigns(own_notify_socket(), pump, self._described)
        self._transport = self._new_transport(identity, kept_revocations(directory, identity))
        agent.code.ended = kept_ended_mandates(directory)
        agent.code.creators = FleetCreators(CreatorTrust(self._transport.admission.trust), identity.fleet)
        self._identity_watch = IdentityWatch(config, self._transport)
        self._renewal = Renewal(config.identity, lambda: self._transport.admission.trust.identity, chance)
        self._planning = PlanningThread(lambda answer: pump.do(partial(agent.masters.planned, answer)))
        self._witness, self._departure = StreamSampler(config.streams, pump, agent), Departure(agent.drain)
        self._reload = ConfigReload(config, self._put_in_force, self._life_signs.reloading, self._life_signs.reloaded)
        self._access = Access(config.name, standing_rules(os.geteuid(), os.getegid(), config.access))
        self._taps = RemoteTaps(pump, agent, self._access, lambda: self._reload.config.streams, wall_ms)
        self._calibration, self._dry_runs = self._new_dry_runs()
        self._requests = self._new_requests()
        self._control = ControlServer(
            config.control_socket, self._requests.answer, agent=config.name, rules=lambda: self._access.rules
        )
        self._remote = self._remote_clients()
        self._positions = self._position_keeper()
        self._kept_places = self._places_of_elements(directory)
        self._feeds = self._new_feeds(pump)
        self._tables = TableFiles(agent.tables, config.tables, pump=pump.settle)
        self._archiving, self._metrics = ArchiveSupervisor(config), MetricsServer(config.metrics, self)
        self._results = self._result_files()
        self._neighbours = NeighboursFile(config.data_directory / NEIGHBOURS_FILE, self._warnings.warn)
        self._remembers = not set(config.seeds) - {address}
        seeds = (address, *self._neighbours.read()) if self._remembers else config.seeds
        self._seeds = Seeds(seeds, self._pump, self._transport.identify, chance)

    async def run(self, signals: AsyncIterator[int], hangups: AsyncIterator[int]) -> int:
        """Runs until a signal or a failure; returns the exit code. StartError when it cannot begin."""
        try:
            self._transport.bind()
        except ListenError as error:
            raise StartError(f"{self._config.place('listen')}: {error}") from None
        await self._control.bind()
        if self._remote is not None:
            try:
                await self._remote.bind()
            except StartError as error:
                raise StartError(f"{self._config.place('clients', 'listen')}: {error}") from None
        log.info("starting", fleet=self._config.fleet, name=self._config.name, incarnation=self._incarnation)
        async with trio.open_nursery() as nursery:
            ending = partial(self._end_on_signal, signals, nursery.cancel_scope)
            for name, part in (("signals", ending), ("failures", partial(self._end_on_failure, nursery.cancel_scope)),
                               ("transport", self._transport.serve), ("timers", self._pump.run_timers),
                               ("work", self._pump.run_work), ("feeds", self._feeds.run),
                               ("programs", self._programs.run)):  # fmt: skip
                nursery.start_soon(self._necessary, name, part)
            nursery.start_soon(self._again_and_again, "service manager", self._life_signs.run)
            nursery.start_soon(self._again_and_again, "control socket", self._control.serve)
            if self._remote is not None:
                nursery.start_soon(self._again_and_again, "clients elsewhere", self._remote.serve)
            nursery.start_soon(self._again_and_again, "metrics", self._metrics.run)
            nursery.start_soon(self._again_and_again, "positions", partial(self._positions.run, self._feeds))
            nursery.start_soon(self._again_and_again, "places of elements", self._kept_places.run)
            nursery.start_soon(self._again_and_again, "reload", partial(self._reload_on_signal, hangups))
            nursery.start_soon(self._again_and_again, "seeds", self._seeds.run)
            nursery.start_soon(self._again_and_again, "neighbours", self._keep_neighbours)
            nursery.start_soon(self._again_and_again, "tables", self._tables.run)
            nursery.start_soon(self._again_and_again, "descriptions of streams", self._witness.run)
            nursery.start_soon(self._again_and_again, "plans", self._planning.run)
            nursery.start_soon(self._again_and_again, "taps of other agents", self._taps.run)
            nursery.start_soon(self._again_and_again, "dry runs", self._dry_runs.run)
            nursery.start_soon(self._again_and_again, "calibration", self._calibration.run)
            nursery.start_soon(self._again_and_again, "archive", self._archiving.run)
            nursery.start_soon(self._again_and_again, "results", self._results.run)
            nursery.start_soon(self._again_and_again, "jobs on disk", self._journal.run)
            nursery.start_soon(self._again_and_again, "identity", self._identity_watch.run)
            nursery.start_soon(self._again_and_again, "renewal", self._renewal.run)
            nursery.start_soon(self._again_and_again, "free memory", FreeMemory(time.process_time, give_back).run)
            nursery.start_soon(self._again_and_again, "names in rules", self._check_access)
            nursery.start_soon(self._necessary, "start", self._say_ready)
        log.info("ended", exit_code=self._exit_code)
        return self._exit_code

    # Parts.

    def _new_agent(self, node: Node, streams: Mapping[str, StreamOptions]) -> Agent:
        config = self._config
        return Agent(
            config.name, node, streams, room=self._room, tables=[table.name for table in config.tables], observer=self,
            clock=WorkClock(), time=trio.current_time, max_skew_ms=config.max_skew_ms, heal_ms=config.heal_ms,
            copies=CopyOptions(config.copies, config.rack or ""),
            keyed=KeyedOptions(
                incarnation=self._incarnation, weight=config.elements.weight, memory_bytes=config.elements.memory_bytes
            ),
        )  # fmt: skip

    def _resumed_clock(self, directory: DataDirectory) -> ClockFile:
        """The lead of the clock as it was believed before this start, and from now on."""
        file = directory.clock(self._warnings.warn, trio.current_time() - time.monotonic())
        if (lead_ms := file.read()) is not None:
            self._agent.ingest.clock.resume(lead_ms)
        return file

    def _new_transport(self, identity: Identity, revocations: Revocations) -> Transport:
        """The links to other agents."""
        return Transport(
            identity,
            self._config.listen,
            advertise=self._config.advertise,
            incarnation=self._incarnation,
            receiver=self._pump,
            limits=TransportLimits(sweep_s=SWEEP_S),
            revocations=revocations,
        )

    def _new_requests(self) -> ControlService:
        """The answers to clients."""
        return ControlService(
            self._reload,
            self._pump,
            self._agent,
            self._access,
            wall_ms=wall_ms,
            status=self._status,
            departure=self._departure,
        )

    def _new_dry_runs(self) -> tuple[CalibrationKeeper, DryRunAnswers]:
        """The costs of work on this machine, and the answers to agents that ask what a query would cost here."""
        kept = CalibrationKeeper(self._config.data_directory / CALIBRATION_FILE, _version, WorkClock())
        clocks = DryRunClocks(WorkClock(), time.monotonic, wall_ms)
        return kept, DryRunAnswers(
            self._pump, self._agent, self._access, lambda: self._reload.config.streams, lambda: kept.costs, clocks
        )

    def _remote_clients(self) -> RemoteClients | None:
        """The service for clients elsewhere, if the agent listens for any."""
        clients = self._config.clients
        if clients is None:
            return None
        return RemoteClients(
            clients.listen, self._requests.answer, self._transport.admission.trust,
            clients_max=clients.connections, wall_s=time.time,
        )  # fmt: skip

    def _position_keeper(self) -> PositionKeeper:
        """The places in logs where jobs go on that were begun before this start."""
        config, ingest, warn = self._config, self._agent.ingest, self._warnings.warn
        folder = config.data_directory / SEALED_DIRECTORY
        room = config.sealed_disk_bytes or POSITIONS_BYTES
        self._sealed_files = SealedFiles(folder, self._incarnation, room, warn)
        return PositionKeeper(
            self._sealed_files, ingest.memory, ingest.journal, self._config.streams, self._sealed_stored, warn
        )

    def _new_programs(self, command: Sequence[str]) -> ProgramSupervisor:
        """The programs of jobs; those in which elements are hosted have limits of their own."""
        config = self._config
        limits = ProgramLimits(all_memory_bytes=config.program_memory_bytes)
        element_limits = limits.for_elements(config.elements.cores, config.elements.memory_bytes)
        return ProgramSupervisor(command, limits, self._told, element_limits)

    def _places_of_elements(self, directory: DataDirectory) -> KeptPlaces:
        """The places in logs from which sources of keyed jobs go on."""
        path, keyed = directory.path / KEPT_PLACES_FILE, self._agent.keyed
        choices = ChoiceFiles(directory.path / CHOICES_DIRECTORY, self._warnings.warn)
        keyed.resume(read_kept_places(path, self._warnings.warn), choices)
        return KeptPlaces(path, keyed.places, keyed.stored, self._warnings.warn)

    def _new_feeds(self, pump: CoreDriver) -> Feeds:
        """The reading of all streams."""
        return Feeds(
            self._agent.ingest, self._config.streams, clock=trio.current_time, wall_ms=wall_ms, pump=pump.settle,
            remembered=self._positions.remembered, max_skew_ms=self._config.max_skew_ms, timer=time.perf_counter,
            due_looks=self._config.due_looks,
        )  # fmt: skip

    def _result_files(self) -> ResultFiles:
        """The files of published results; masters write to them if there is an archive."""
        files = ResultFiles(results_directory(self._config.data_directory), wall_ms, self._warnings.warn)
        if self._config.archive is not None:
            self._agent.masters.record = files.add
        return files

    async def _necessary(self, name: str, part: Callable[[], Awaitable[object]]) -> None:
        """Runs a part the agent cannot do without: if it fails, the agent ends."""
        try:
            await part()
        except Exception as error:
            self._pump.fail(error, part=name)

    async def _again_and_again(self, name: str, part: Callable[[], Awaitable[object]]) -> None:
        """Runs a part that is restarted when it fails."""
        while True:
            try:
                await part()
                return
            except Exception as error:
                log.failed("part failed, starting it anew", error, part=name)
                await trio.sleep(RESTART_PAUSE_S)

    def _send(self, peer: Peer, data: bytes) -> None:
        self._transport.send(peer, data, in_order=keeps_order(data))

    def stream_asked(self, asked: StreamAsked) -> None:
        self._witness.ask(asked)

    def agent_asked(self, asked: AgentAsked) -> None:
        described = own_description(
            asked, self._agent, self._feeds.statistics(), _version(), time.monotonic() - self._started,
            wall_ms(),
        )  # fmt: skip
        self._pump.do(partial(self._agent.discovery.describe, asked, described))

    def sample_asked(self, asked: SampleStream) -> None:
        self._taps.ask(asked)

    def dry_run_asked(self, asked: DryRunAsked) -> None:
        self._dry_runs.ask(asked)

    def plan_asked(self, question: PlanQuestion) -> None:
        self._planning.ask(question)

    def rows_unjoinable(self, rows: str, why: str) -> None:
        log.warn("not joined with", rows=rows, why=why)

    def job_contained(self, app_id: Id, error: BaseException) -> None:
        log.failed("a job ends here by what its data raised", error, job=format_id(app_id))

    def shown(self, shown: Shown) -> None:
        try:
            self._shown_files.show(shown.app, shown.json)
        except OSError as error:
            self._warnings.warn(f"what {shown.app} shows is not written", error.strerror or str(error))

    def _told(self, told: ProgramSaid | ProgramEnded) -> None:
        self._pump.do(lambda now: self._agent.program_host.receive(told, now, self._pump.wall_at(now)))

    def peer_gone(self, event: PeerFailed | PeerLeft) -> None:
        say, what = (log.warn, "peer failed") if isinstance(event, PeerFailed) else (log.info, "peer left")
        say(what, peer=event.peer.address, node_id=format_id(event.peer.node_id))

    def epochs_taken(self, epochs: list[EpochTaken]) -> None:
        """Saves epochs before any message names them. If the disk fails, they are known from other agents alone."""
        try:
            self._epochs.note(epochs)
        except OSError as error:
            self._warnings.warn("epochs are not kept", error.strerror or str(error))

    @property
    def keeps_jobs(self) -> bool:
        return True

    def job_recorded(self, record: JobRecord) -> None:
        self._journal.add(record)

    @property
    def keeps_sealed(self) -> bool:
        return self._config.sealed_disk_bytes > 0

    def _sealed_stored(self, count: int, are_kept: bool) -> None:
        self._pump.do(lambda now: self._agent.sealed_stored(count, now, self._pump.wall_at(now), are_kept=are_kept))

    def _jobs_stored(self, count: int) -> None:
        self._pump.do(lambda now: self._agent.jobs_stored(count, now, self._pump.wall_at(now)))

    def _repeat_jobs(self) -> None:
        self._pump.do(self._agent.recorder.repeat)

    def _settled(self) -> None:
        self._positions.settled(is_idle=self._agent.is_idle)
        self._feeds.reconcile()
        self._clock_file.keep(self._agent.ingest.clock.lead_ms)

    # Start and end.

    async def _check_access(self) -> None:
        """Warns of rules for users and groups that this machine does not have."""
        for name in await trio.to_thread.run_sync(unknown_names, self._config.access, abandon_on_cancel=True):
            log.warn("nobody has a right by this name", name=name, place=self._config.place("access"))

    async def _say_ready(self) -> None:
        node = self._pump.node
        await self._pump.until(lambda: node.is_active)
        self._pump.do(self._agent.start)
        self._life_signs.ready()
        log.info(
            "ready",
            listen=node.peer.address,
            node_id=format_id(node.peer.node_id),
            incarnation=self._incarnation,
            control_socket=self._config.control_socket,
            seconds=round(time.monotonic() - self._started, 3),
            memory_mb=round(memory_bytes() / 1e6),
            jobs=len(self._agent.failover.jobs),
        )

    async def _reload_on_signal(self, hangups: AsyncIterator[int]) -> None:
        async for _number in hangups:
            await self._reload.reload(RELOAD_SIGNAL.name)

    def _put_in_force(self, before: Config, config: Config) -> None:
        """Puts a reloaded configuration in force: what is left out here needs a restart."""
        self._config = config
        log.set_level(config.log_level)
        self._access.rules = tuple(standing_rules(os.geteuid(), os.getegid(), config.access))
        self._control.rules_changed()
        agent, ingest = self._agent, self._agent.ingest
        self._room.memory_bytes = config.job_memory_bytes
        self._quota.bytes_max = config.spill_disk_bytes
        self._sealed_files.bytes_max = config.sealed_disk_bytes or POSITIONS_BYTES
        self._programs.limit_memory(config.program_memory_bytes)
        ingest.clock.max_skew_ms, ingest.heal_ms = config.max_skew_ms, config.heal_ms
        agent.copies.wanted = config.copies
        self._witness.streams = config.streams
        self._feeds.change_streams(config.streams, config.max_skew_ms)
        if config.streams != before.streams:
            options = {stream.name: StreamOptions(stream.read_from) for stream in config.streams}
            self._pump.do(lambda now: agent.change_streams(options, now, self._pump.wall_at(now)))
        if config.tables != before.tables:
            self._tables.change(config.tables)
        if (config.archive, config.streams) != (before.archive, before.streams):
            agent.masters.record = None if config.archive is None else self._results.add
            self._archiving.change(config)

    async def _end_on_failure(self, everything: trio.CancelScope) -> None:
        await self._pump.failed.wait()
        self._exit_code = 1
        everything.cancel()

    async def _end_on_signal(self, signals: AsyncIterator[int], everything: trio.CancelScope) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._leave, everything)
            number = await anext(signals)
            log.info("leaving", signal=signal.Signals(number).name)
            self._departure.begin(LEAVE_TIMEOUT_S)
            number = await anext(signals)
            log.warn("ending at once", signal=signal.Signals(number).name)
            self._exit_code = 128 + number
            everything.cancel()

    async def _keep_neighbours(self) -> None:
        """Has an agent without other seeds remember its neighbours."""
        while self._remembers:
            await trio.sleep(NEIGHBOURS_S)
            self._store_neighbours()

    def _store_neighbours(self) -> None:
        if self._remembers:
            self._neighbours.store(peer.address for peer in self._pump.node.leaf_set.members)

    async def _leave(self, everything: trio.CancelScope) -> None:
        """Once it is to leave, hands over masters and roots, takes leave of the fleet, and ends all tasks."""
        agent, pump, departure = self._agent, self._pump, self._departure
        await departure.asked()
        self._store_neighbours()
        self._life_signs.leaving("hands over what it has, and leaves the fleet")
        await self._positions.pause(self._feeds, PAUSE_TIMEOUT_S)
        pump.do(agent.drain.begin)
        is_whole = await departure.handed_over(pump.until)
        if is_whole:
            await self._positions.left()
        else:
            left = departure.remainder
            log.warn("left before everything was handed over", masters=left.masters, jobs=left.jobs)
        pump.do(pump.node.leave)
        await departure.end(is_whole=is_whole)
        await self._transport.close(CLOSE_TIMEOUT_S)
        everything.cancel()

    def _described(self) -> str:
        """A few words for the status of the service."""
        node = self._pump.node
        if not node.is_active:
            return "waits for a seed that lets it into the fleet"
        streams, jobs = self._feeds.statistics().values(), self._agent.directory.statistics()["jobs"]
        behind = sum(not stream.at_end for stream in streams)
        rate = sum(stream.events_per_s for stream in streams)
        reading = f"{rate:,.0f} events/s" + (f", behind in {behind} of {len(streams)} streams" if behind else "")
        neighbours = len(node.leaf_set.members)
        return f"in fleet {self._config.fleet}, neighbours: {neighbours}, jobs: {jobs}, {reading}"

    def statistics(self) -> dict[str, Mapping[str, float]]:
        """The counters of every part, by part; each stream is a part."""
        services, node = self._agent.statistics(), self._pump.node.statistics()
        streams = {f"stream.{name}": asdict(read) for name, read in self._feeds.statistics().items()}
        return {
            **services,
            "agent": {"refused": self._agent.refused},
            "sealed": {
                **services["sealed"],
                "disk_bytes": self._sealed_files.disk_bytes,
                "written_bytes": self._sealed_files.written_bytes,
            },
            "results": self._results.statistics(),
            "jobs": {"unwritten": self._journal.unwritten},
            "spill": {
                "unwritten": self._room.unwritten,
                "unread": self._room.unread,
                "disk_bytes": self._quota.used_bytes,
                "files": self._quota.files,
                "taken_bytes": self._quota.taken_bytes,
            },
            "control": self._control.counters,
            "clients": {} if self._remote is None else self._remote.counters,
            "metrics": self._metrics.counters,
            "programs": self._programs.statistics(),
            "node": {name: getattr(node, name) for name in node.__slots__},
            "archive": {**self._archiving.statistics(), "restarts": self._archiving.restarts},
            **streams,
        }

    # Metrics and health.

    def figures(self) -> AgentFigures:
        agent, node = self._agent, self._pump.node
        return AgentFigures(
            agent=self._config.name,
            fleet=self._config.fleet,
            version=_version(),
            is_active=node.is_active,
            is_leaving=agent.drain.has_begun,
            peers=len({peer.node_id for peer in (*node.leaf_set.members, *node.routing_table)}),
            leaf_set=len(node.leaf_set.members),
            masters=len(agent.masters.held),
            fleet_jobs=len(agent.directory.all()),
            followed_jobs=len(agent.following.jobs),
            cbt_bytes=sum(operator.memory_bytes for operator in agent.ingest),
            operators=sum(1 for _ in agent.ingest),
            parts=self.statistics(),
            streams=self._feeds.statistics(),
            jobs=job_figures(agent.jobs, agent.directory, node, wall_ms()),
            meter=agent.ingest.meter,
            transport=self._transport.statistics(),
            archive=self._archiving.status,
            certificate_expires=self._transport.admission.trust.identity.expires,
        )

    def unready(self) -> str | None:
        """The reason why this agent is not to be counted on; None if it is ready."""
        if self._agent.drain.has_begun:
            return "the agent leaves its fleet"
        return None if self._pump.node.is_active else "the agent has not joined its fleet yet"

    def _split_elements(self, agent: AgentStatus) -> Iterator[control_messages.SplitStatus]:
        names = {job.app_id: job.name for job in agent.jobs}
        now = trio.current_time()
        for job in self._agent.keyed:
            rate = partial(self._agent.elements_seen.events_per_s, job.app_id, now=now)
            yield from described_split(job, names.get(job.app_id, ""), job.statistics(), rate)

    def _status(self) -> control_messages.Status:
        transport = self._transport.statistics()
        agent = self._agent.status()
        streams = self._feeds.statistics()
        counters = transport_counters(transport)
        statistics = self.statistics()
        for part in SHOWN_PARTS:
            counters |= {f"{part}.{name}": int(count) for name, count in statistics[part].items()}
        counters |= stream_counters(streams)
        return described_agent(
            self._config,
            self._pump.node,
            agent,
            uptime_s=time.monotonic() - self._started,
            names={link.peer.node_id: link.name for link in self._transport.connections()},
            streams=streams,
            counters=counters,
            trust=self._transport.admission.trust,
            in_force=self._reload.status,
            split=self._split_elements(agent),
            archive=self._archiving.status,
        )
