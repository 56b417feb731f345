"""What a master tells the fleet of its job, and when (paper §3.1)."""

from __future__ import annotations

from agent.runtime.change import Changes
from agent.runtime.followers import Followers
from agent.runtime.master import Master
from agent.runtime.messages import Announce
from overlay import Peer

ANNOUNCE_S = 3.0
FIRST_ANNOUNCEMENTS_S = (0.0, 0.3, 0.7, 1.0)
"""Between the first ones: trees are being mended when a master takes over."""


class Announcing:
    """Of one master in office. A new job and a new version are told at once, everything again every few seconds."""

    def __init__(
        self, master: Master, changes: Changes, followers: Followers, peer: Peer, name: str, now: float
    ) -> None:
        self._master = master
        self._changes = changes
        self._followers = followers
        self._peer = peer
        self._name = name
        self._said = self._version = 0
        self._next_at = now

    def is_due(self, now: float, ahead_s: float = 0.0) -> bool:
        """Whether the job is to be announced now; or soon, where the fleet has been told of it often enough."""
        ahead_s = ahead_s if self._said >= len(FIRST_ANNOUNCEMENTS_S) else 0.0
        return now >= self._next_at - ahead_s or self._version != self._changes.begun()[-1].number

    def next(self, now: float) -> Announce:
        """What the fleet is told of the job now, and then again."""
        pauses, announce = FIRST_ANNOUNCEMENTS_S, self.announcement()
        # Masters of different jobs should not speak in the same instant: what they wait depends on the job.
        jitter = 0.9 + 0.2 * (hash((announce.app_id, self._said)) % 1000) / 1000
        self._said, self._version = self._said + 1, announce.version
        pause = pauses[self._said] if self._said < len(pauses) else ANNOUNCE_S
        self._next_at = now + pause * jitter
        return announce

    def announcement(self) -> Announce:
        """What there is to be told."""
        master, job, newest = self._master, self._master.job, self._changes.begun()[-1]
        bundle = newest.bundle
        return Announce(
            app_id=job.app_id,
            epoch=master.epoch,
            master=self._peer,
            master_name=self._name,
            name=job.name,
            stream=job.stream,
            text=newest.text,
            bounded=job.bounded,
            version=newest.number,
            frontier=self._followers.frontier,
            agents=master.ready.bit_count(),
            expected=master.roster.present().bit_count(),
            proposed=self._changes.proposed,
            creator=master.creator,
            counter=bundle.seal.counter if bundle is not None else 0,
            mandate=bundle.digest(job.app_id) if bundle is not None else b"",
            part_of=master.part_of,
            trees=master.trees,
        )
