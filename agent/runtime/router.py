"""Takes job messages apart: which of an agent's parts a message is for, and whether it may come that way."""

from __future__ import annotations

from dataclasses import dataclass

from agent.runtime.fleet.job_directory import JobDirectory
from agent.runtime.job.deployment import Deployments
from agent.runtime.job.local_jobs import LocalJobs
from agent.runtime.master.failover import Failover
from agent.runtime.master.job_masters import JobMasters
from agent.runtime.messages.descriptions import DescribeStream, StreamDescription
from agent.runtime.messages.jobs import (
    CODEC,
    Acknowledgement,
    Announce,
    AnnouncementBatch,
    Ask,
    Commit,
    Enrol,
    Enrolled,
    Follow,
    Followed,
    JobEnded,
    Leave,
    NoJob,
    Ready,
    Replica,
    Replicated,
    Snapshot,
    SnapshotAck,
    Stop,
    StopAnswer,
    Stopped,
    Submit,
    Submitted,
    Unfollow,
    Update,
    Updated,
    WindowMessage,
)
from agent.runtime.messages.programs import CannotRun, JobRequest, LogLines, LogRequest, ProgramFailed, ProgramMulticast
from agent.runtime.messages.sender import FLEET_GROUP
from agent.runtime.messages.versions import AbortVersion, ActivateVersion, PrepareVersion, VersionPrepared
from agent.runtime.model.fields import Message
from agent.runtime.program_host.handler import ProgramHost
from agent.runtime.requests.commands import JobCommands
from agent.runtime.requests.following import JobSubscriptions
from agent.runtime.requests.stream_survey import StreamDiscovery
from agent.runtime.upstream.app_source import UpstreamJobs
from overlay import PAYLOAD_BYTES_MAX, Delivered, Id, MessageReceived, MulticastReceived, Peer, Requested, WireError


@dataclass(slots=True)
class Router:
    """`refused` counts messages that were no messages, unexpected, or from the wrong sender."""

    parts: LocalJobs
    installations: Deployments
    offices: JobMasters
    succession: Failover
    followings: JobSubscriptions
    requests: JobCommands
    announcements: JobDirectory
    acts: ProgramHost
    readings: UpstreamJobs
    surveys: StreamDiscovery
    refused: int = 0

    def receive(
        self, event: Delivered | Requested | MulticastReceived | MessageReceived, now: float, wall_ms: int
    ) -> None:
        """One job message, whichever way it came."""
        try:
            message = CODEC.decode(event.payload, PAYLOAD_BYTES_MAX)
        except WireError:
            self.refused += 1
            return
        match event:
            case MulticastReceived(group=group):
                taken = self._multicast(message, group, now)
            case Delivered(key=key, origin=origin):
                taken = key == message.app_id and self._request(message, origin, now, routed=True)
            case Requested(key=key):
                taken = key == message.app_id and self._question(message, event, now)
            case MessageReceived(sender=sender):
                taken = self._request(message, sender, now, routed=False) or self._direct(message, sender, now, wall_ms)
        self.refused += not taken

    def _question(self, message: Message, event: Requested, now: float) -> bool:
        """What is routed to a job's master and wants an answer."""
        match message:
            case Ask():
                self.offices.answer(message, event, now)
            case LogRequest():
                self.offices.tell_log(message, event, now)
            case JobRequest(sender=sender, message=typed):
                part = self.parts.get(message.app_id)
                if part is None or part.root is None:
                    self.offices.no_job(message.app_id, event, now)
                else:
                    self.acts.deliver(part.program, event, sender, typed, now)
            case _:
                return False
        return True

    def _multicast(self, message: Message, group: Id, now: float) -> bool:
        match message:
            case Announce() if group == FLEET_GROUP:
                return self.announced(message, now)
            case AnnouncementBatch() if group == FLEET_GROUP:
                return sum(self.announced(announce, now) for announce in message.jobs) == len(message.jobs)
            case DescribeStream() if group == FLEET_GROUP:
                return self.surveys.hear(message, None)
            case Stopped() if group == FLEET_GROUP:
                return self._stopped(message, now)
            case Commit() if group == message.app_id:
                return self.parts.commit(message)
            case ProgramMulticast() if group == message.app_id:
                return self.parts.word(message)
            case PrepareVersion() | ActivateVersion() | AbortVersion() if group == message.app_id:
                return self.installations.change(message, now)
        return False

    def _request(self, message: Message, sender: Peer, now: float, *, routed: bool) -> bool:
        """What is asked of a job's master by way of the overlay, or directly where it is known."""
        match message:
            case Submit() if routed:
                self.offices.submit(message, sender, now)
            case Follow():
                self.offices.follow(message, sender, now)
            case Unfollow():
                self.offices.unfollow(message, sender)
            case Stop():
                self.offices.stop(message, sender, now)
            case Update():
                self.offices.update(message, sender, now)
            case _:
                return False
        return True

    def _direct(self, message: Message, sender: Peer, now: float, wall_ms: int) -> bool:
        match message:
            case Snapshot():
                return self.parts.snapshot(message, sender, now)
            case SnapshotAck():
                return self.parts.received(message, sender, now)
            case Enrolled():
                return self.installations.install(message, sender, now, wall_ms)
            case Enrol() | Ready() | VersionPrepared() | Leave() | Replicated():
                return self.offices.receive(message, sender, now)
            case LogLines() | CannotRun() | ProgramFailed():
                return self.offices.hear_code(message, sender, now)
            case Replica():
                inheritance = self.succession.hold(sender, message, now)
                if inheritance is not None:
                    self.offices.inherit(inheritance, now)
                return True
            case Submitted():
                self._submitted(message, now)
                return True
            case StopAnswer():
                self.requests.stopped(message)
                return True
            case StreamDescription():
                return self.surveys.hear(message, sender)
            case Updated():
                if not self.requests.updated(message):
                    self.offices.updated(message)
                return True
        return self._to_follower(message, now)

    def _to_follower(self, message: Message, now: float) -> bool:
        if isinstance(message, NoJob):
            self.followings.no_job(message, now)
            self.readings.no_job(message, now)
            self.requests.no_job(message)
            return True
        if not isinstance(message, Followed | Acknowledgement | WindowMessage | JobEnded):
            return False
        followings = self.followings if message.reader is None else self.readings.of(message.reader)
        match message:
            case _ if followings is None:
                return False
            case Followed():
                followings.followed(message, now)
            case Acknowledgement():
                followings.acknowledged(message, now)
            case WindowMessage():
                followings.window(message, now)
            case JobEnded():
                followings.finished(message, now)
        return True

    def announced(self, message: Announce, now: float) -> bool:
        """A master says that it is in office; False if it is so no longer."""
        if not self.announcements.hear(message, now):
            return False
        self.offices.announced(message, now)
        self.succession.heard(message.app_id, message.epoch, now)
        self.parts.hear(message, now)
        self.followings.announced(message.app_id, message.epoch, now)
        self.readings.announced(message.app_id, message.epoch, now)
        return True

    def _stopped(self, message: Stopped, now: float) -> bool:
        if not self.announcements.end(message):
            return False
        self.offices.close(message.app_id)
        self.parts.drop(message.app_id, now)
        self.succession.forget(message.app_id)
        return True

    def _submitted(self, message: Submitted, now: float) -> None:
        if self.requests.answered(message):
            self.followings.ask_now(message.app_id, now)
        elif message.refusal is not None and not self.requests.is_open(message.app_id):
            self.followings.drop_new(message.app_id)
