"""The agent as a process: its parts, wired; its start, its end, and what happens when a part fails.

One trio run holds everything. The node and the agent's core are synchronous and only ever called through the pump.
"""

from __future__ import annotations

import gc
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import trio

from agent import log
from agent.archive.format.streams import results_directory
from agent.configuration.config import Config
from agent.control import messages as control_messages
from agent.control.client_requests import ControlService
from agent.control.described import described_agent, memory_bytes, stream_counters, transport_counters
from agent.control.server import ControlServer
from agent.control.surveying import StreamSampler
from agent.daemon.archiving import Archiving
from agent.daemon.creator_trust import FleetCreators
from agent.daemon.data_directory import DataDirectory
from agent.daemon.disk_warnings import DiskWarnings
from agent.daemon.epochs_file import EpochsFile
from agent.daemon.identity_watch import IdentityWatch
from agent.daemon.kept_revocations import kept_revocations
from agent.daemon.limits_of_process import raise_descriptor_limit
from agent.daemon.result_files import ResultFiles
from agent.daemon.seeds import Seeds
from agent.daemon.shown_files import ShownFiles
from agent.driver import CoreDriver
from agent.errors import StartError
from agent.feeding.feeds import Feeds
from agent.feeding.table_files import TableFiles
from agent.programs.orders import ProgramEnded, ProgramLimits, ProgramSaid
from agent.programs.processes import ProgramSupervisor
from agent.runtime.agent import Agent
from agent.runtime.function.spill import SpillArea
from agent.runtime.ingest.feed import StreamOptions
from agent.runtime.requests.notices import CoreEvent, Shown, StreamAsked
from overlay import (
    CreatorTrust,
    EpochTaken,
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

ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
SWEEP_S = 5.0
"""How often the transport looks for links that are idle or stuck: an agent without work wakes up seldom."""
LEAVE_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 2.0
RESTART_PAUSE_S = 1.0
"""A part that failed and can be done without for a moment is started anew after this long."""


def run_agent(config: Config, identity: Identity, program: Sequence[str]) -> int:
    """Runs one agent until it is told to end; the exit code. StartError, one line, when it cannot start.

    `program` is the command that runs the code of a job, in a process of its own.
    """
    started = time.monotonic()
    raise_descriptor_limit()
    gc.freeze()  # what is loaded by now stays: no need to look through it ever again
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
    with trio.open_signal_receiver(*ENDING_SIGNALS) as signals:
        incarnation = directory.next_incarnation(int(time.time()))
        revocations = kept_revocations(directory, identity)
        spill_directory, epochs = directory.empty_spill_directory(), directory.epochs()
        shown = ShownFiles(directory.shown_directory())
        daemon = Daemon(config, identity, revocations, incarnation, spill_directory, epochs, shown, program, started)
        return await daemon.run(signals)


def wall_ms() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Daemon:
    """One running agent."""

    def __init__(
        self,
        config: Config,
        identity: Identity,
        revocations: Revocations,
        incarnation: int,
        spill_directory: Path,
        epochs: EpochsFile,
        shown: ShownFiles,
        program: Sequence[str],
        started: float,
    ) -> None:
        self._config = config
        self._incarnation = incarnation
        self._started = started
        self._exit_code = 0
        address = config.advertise or config.listen
        chance = random.Random()
        node = Node(Peer(identity.node_id, address), random=chance, start_number=incarnation, epochs=epochs.counters)
        options = {stream.name: StreamOptions(stream.read_from) for stream in config.streams}
        self._epochs = epochs
        self._warnings = DiskWarnings(trio.current_time)
        self._room = SpillArea(config.job_memory_bytes, spill_directory, self._warnings.warn)
        self._agent = agent = Agent(
            config.name, node, options, room=self._room, tables=[table.name for table in config.tables]
        )
        self._shown = shown
        self._programs = ProgramSupervisor(program, ProgramLimits(), self._told)
        self._pump = pump = CoreDriver(
            node,
            agent,
            wall_ms=wall_ms,
            send=self._send,
            notice=self._notice,
            order=self._programs.order,
            is_idle=self._is_idle,
            settled=self._settled,
        )
        agent.on_peer_gone = self._say_gone
        agent.on_epochs = self._note_epochs
        agent.on_unjoinable = lambda app, why: log.warn("not joined with", rows=app, why=why)
        self._transport = Transport(
            identity,
            config.listen,
            advertise=config.advertise,
            incarnation=incarnation,
            receiver=self._pump,
            limits=TransportLimits(sweep_s=SWEEP_S),
            revocations=revocations,
        )
        agent.creators = FleetCreators(CreatorTrust(self._transport.admission.trust), identity.fleet)
        self._identity_watch = IdentityWatch(config, self._transport)
        self._witness = StreamSampler(config.streams, self._pump, agent)
        self._requests = ControlService(config, self._pump, agent, wall_ms=wall_ms, status=self._status)
        self._control = ControlServer(config.control_socket, self._requests.answer)
        self._feeds = Feeds(agent.ingest, config.streams, clock=trio.current_time, wall_ms=wall_ms, pump=pump.settle)
        self._tables = TableFiles(agent.tables, config.tables, pump=pump.settle)
        self._archiving = Archiving(config)
        self._results = self._result_files()
        self._seeds = Seeds(config.seeds, self._pump, self._transport.identify, chance)

    async def run(self, signals: AsyncIterator[int]) -> int:
        """Runs until a signal or a failure; the exit code. StartError when it cannot begin."""
        try:
            self._transport.bind()
        except ListenError as error:
            raise StartError(f"{self._config.place('listen')}: {error}") from None
        await self._control.bind()
        log.info("starting", fleet=self._config.fleet, name=self._config.name, incarnation=self._incarnation)
        async with trio.open_nursery() as nursery:
            ending = partial(self._end_on_signal, signals, nursery.cancel_scope)
            for name, part in (("signals", ending), ("failures", partial(self._end_on_failure, nursery.cancel_scope)),
                               ("transport", self._transport.serve), ("timers", self._pump.run_timers),
                               ("work", self._pump.run_work), ("feeds", self._feeds.run),
                               ("programs", self._programs.run)):  # fmt: skip
                nursery.start_soon(self._necessary, name, part)
            nursery.start_soon(self._again_and_again, "control socket", self._control.serve)
            nursery.start_soon(self._again_and_again, "seeds", self._seeds.run)
            nursery.start_soon(self._again_and_again, "tables", self._tables.run)
            nursery.start_soon(self._again_and_again, "descriptions of streams", self._witness.run)
            nursery.start_soon(self._again_and_again, "archive", self._archiving.run)
            nursery.start_soon(self._again_and_again, "results", self._results.run)
            nursery.start_soon(self._again_and_again, "identity", self._identity_watch.run)
            nursery.start_soon(self._necessary, "start", self._say_ready)
        log.info("ended", exit_code=self._exit_code)
        return self._exit_code

    # Its parts.

    def _result_files(self) -> ResultFiles:
        """Where the results of masters here go, if there is an archive for them."""
        files = ResultFiles(results_directory(self._config.data_directory), wall_ms, self._warnings.warn)
        if self._config.archive is not None:
            self._agent.offices.record = files.add
        return files

    async def _necessary(self, name: str, part: Callable[[], Awaitable[object]]) -> None:
        """Runs a part without which there is no agent: if it fails, the agent ends."""
        try:
            await part()
        except Exception as error:
            self._pump.fail(error, part=name)

    async def _again_and_again(self, name: str, part: Callable[[], Awaitable[object]]) -> None:
        """Runs a part that may fail: then it is started anew."""
        while True:
            try:
                await part()
                return
            except Exception as error:
                log.failed("part failed, starting it anew", error, part=name)
                await trio.sleep(RESTART_PAUSE_S)

    def _send(self, peer: Peer, data: bytes) -> None:
        self._transport.send(peer, data, in_order=keeps_order(data))

    def _notice(self, notice: CoreEvent) -> None:
        if isinstance(notice, Shown):
            self._show(notice)
        elif isinstance(notice, StreamAsked):
            self._witness.ask(notice)
        else:
            self._requests.notice(notice)

    def _show(self, shown: Shown) -> None:
        try:
            self._shown.show(shown.app, shown.json)
        except OSError as error:
            self._warnings.warn(f"what {shown.app} shows is not written", error.strerror or str(error))

    def _told(self, told: ProgramSaid | ProgramEnded) -> None:
        self._pump.do(lambda now: self._agent.program_told(told, now, wall_ms()))

    def _say_gone(self, event: PeerFailed | PeerLeft) -> None:
        say, what = (log.warn, "peer failed") if isinstance(event, PeerFailed) else (log.info, "peer left")
        say(what, peer=event.peer.address, node_id=format_id(event.peer.node_id))

    def _note_epochs(self, epochs: list[EpochTaken]) -> None:
        """Before any message is sent that names them. Without a disk, others' word for them has to do."""
        try:
            self._epochs.note(epochs)
        except OSError as error:
            self._warnings.warn("epochs are not kept", error.strerror or str(error))

    def _is_idle(self) -> bool:
        """Whether this agent is in the fleet, and the fleet has no jobs."""
        return self._pump.node.is_active and not self._agent.ingest.feeds() and not self._agent.jobs()

    def _settled(self) -> None:
        self._feeds.reconcile()

    # Its start and its end.

    async def _say_ready(self) -> None:
        node = self._pump.node
        await self._pump.until(lambda: node.is_active)
        self._pump.do(self._agent.start)
        log.info(
            "ready",
            listen=node.peer.address,
            node_id=format_id(node.peer.node_id),
            incarnation=self._incarnation,
            control_socket=self._config.control_socket,
            seconds=round(time.monotonic() - self._started, 3),
            memory_mb=round(memory_bytes() / 1e6),
        )

    async def _end_on_failure(self, everything: trio.CancelScope) -> None:
        await self._pump.failed.wait()
        self._exit_code = 1
        everything.cancel()

    async def _end_on_signal(self, signals: AsyncIterator[int], everything: trio.CancelScope) -> None:
        number = await anext(signals)
        log.info("leaving", signal=signal.Signals(number).name)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._leave, everything)
            number = await anext(signals)
            log.warn("ending at once", signal=signal.Signals(number).name)
            self._exit_code = 128 + number
            everything.cancel()

    async def _leave(self, everything: trio.CancelScope) -> None:
        """Hands over what others rely on, says goodbye, and ends everything."""
        agent, pump = self._agent, self._pump
        pump.do(lambda now: agent.leave(now, wall_ms()))
        with trio.move_on_after(LEAVE_TIMEOUT_S) as patience:
            await pump.until(lambda: agent.has_left)
        if patience.cancelled_caught:
            log.warn("left before everything was handed over", after_s=LEAVE_TIMEOUT_S)
        pump.do(pump.node.leave)
        await self._transport.close(CLOSE_TIMEOUT_S)
        everything.cancel()

    def _status(self) -> control_messages.Status:
        transport = self._transport.statistics()
        agent = self._agent.status()
        counters = transport_counters(transport)
        counters["agent.refused"] = agent.refused
        counters["results.unwritten"] = self._results.dropped
        counters |= {"spill.unwritten": self._room.unwritten, "spill.unread": self._room.unread}
        counters |= {f"control.{name}": count for name, count in self._control.counters.items()}
        node = self._pump.node.statistics()
        counters |= {f"node.{name}": getattr(node, name) for name in node.__slots__}
        streams = self._feeds.statistics()
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
            archive=self._archiving.status,
        )
