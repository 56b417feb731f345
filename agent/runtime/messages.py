"""What agents say to each other about jobs; the overlay carries these as opaque bytes.

Frames travel as the bytes of `cbt.encode_frame`, contributor sets as little-endian bitmaps of roster numbers. What
belongs to a master's time in office carries its epoch: lower ones are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from agent.runtime.epochs import Epoch
from overlay import Codec, Id, Peer

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
Text = Annotated[str, msgspec.Meta(max_length=1 << 20)]
Bitmap = Annotated[bytes, msgspec.Meta(max_length=8192)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Number = Annotated[int, msgspec.Meta(ge=0, lt=65536)]
Time = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Reason = Literal["finished", "stopped", "nobody", "failed"]
"""Why a job is over; nobody: it was over what logs hold, and no agent has its stream; failed: it cannot go on."""
GRACE_MS = 5000
ASKED_WINDOWS_MAX = 64
"""As many results as a master keeps."""
VERSIONS_MAX = 8
"""Versions of a job that still have windows open; no further one is begun meanwhile."""
LAGGARDS_MAX = 20
BULLETIN_MAX = 64


class Version(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One version of a job's function; `number` counts from 1 in the job's life.

    It computes the panes after `after`, the last one of the version before, and has windows from `starts` on.
    """

    number: Count
    after: Time
    starts: Time
    plan: dict[str, Any]
    text: Text


VersionList = Annotated[list[Version], msgspec.Meta(min_length=1, max_length=VERSIONS_MAX)]


class Message(msgspec.Struct, frozen=True, tag=True):
    """Base of all job messages."""

    app_id: Id


class Submit(Message, frozen=True, tag=True):
    """Agent → master, routed to the appId: run this job.

    `bounded`: over what the logs hold now, else over what comes. `attached`: only as long as somebody follows it.
    `text`: the query as people read it. `submitted_ms`: the agent's wall clock, which tells submissions apart.
    """

    name: Name
    stream: Name
    plan: dict[str, Any]
    text: Text = ""
    bounded: bool = True
    attached: bool = False
    grace_ms: Annotated[int, msgspec.Meta(ge=0, le=86_400_000)] = GRACE_MS
    since_ms: Time | None = None
    until_ms: Time | None = None
    submitted_ms: Count = 0


class Submitted(Message, frozen=True, tag=True):
    """Master → submitting agent: the job runs, or why it does not."""

    submitted_ms: Count
    refusal: Text | None


class Announce(Message, frozen=True, tag=True):
    """Master → every agent, multicast again and again: this job runs, take part if you have the stream.

    `version`: the newest one in force; `proposed`: one that is being prepared, 0 if there is none.
    """

    epoch: Epoch
    master: Peer
    master_name: Name
    name: Name
    stream: Name
    text: Text
    bounded: bool
    version: Count
    frontier: Time
    agents: Count
    expected: Count
    proposed: Count = 0


class Bulletin(Message, frozen=True, tag=True):
    """Agent → every agent, multicast: the announcements of several masters that live on it. Its appId means nothing."""

    jobs: Annotated[list[Announce], msgspec.Meta(max_length=BULLETIN_MAX)]


class Enrol(Message, frozen=True, tag=True):
    """Agent → master: I take part in this epoch, as a worker or only by combining what others send.

    `number`: what this worker has gone by so far. One that has left and comes back is another.
    """

    epoch: Epoch
    agent: Name
    works: bool
    number: Number | None = None


class Enrolled(Message, frozen=True, tag=True):
    """Master → agent: the job, how far it is out and, for a worker, its number on the roster.

    `begins`: before this pane the worker has nothing to contribute (again). `versions`: those that are in force.
    """

    epoch: Epoch
    number: Number | None
    versions: VersionList
    frontier: Time
    begins: Time
    job: Submit


class Ready(Message, frozen=True, tag=True):
    """Worker → master: I run this version, and have all of my stream's events from this pane on.

    `instead_of`: the first pane I said before, when a feed took longer to open than expected.
    """

    epoch: Epoch
    number: Number
    version: Count
    first_pane: Time
    instead_of: Time | None = None


class Farewell(Message, frozen=True, tag=True):
    """Worker → master: I leave the fleet; after this pane nothing is to be expected of me."""

    epoch: Epoch
    number: Number
    last_pane: Time


class Snapshot(Message, frozen=True, tag=True):
    """Child → parent: the combined panes in (after, upto] of the contributors, and what was counted on the way.

    `partial`: those of them who lack some of their events.
    `again`: it went up before, to a parent that may have passed it on; it stays as it is until it is at the root.
    """

    epoch: Epoch
    version: Count
    after: Time
    upto: Time
    contributors: Bitmap
    state: bytes
    counters: bytes
    partial: Bitmap = b""
    again: bool = False


class Received(Message, frozen=True, tag=True):
    """Parent → child: your snapshot of these panes and contributors has come."""

    epoch: Epoch
    after: Time
    upto: Time
    contributors: Bitmap


class Commit(Message, frozen=True, tag=True):
    """Master → all, multicast: every pane up to the frontier is out; free what you kept for it."""

    epoch: Epoch
    frontier: Time


class MemberEntry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One agent of a roster. It is expected in panes from the first (None: not ready yet) to the last (None: open)."""

    number: Number
    name: Name
    node_id: Id
    first_pane: Time | None
    last_pane: Time | None


class Replica(Message, frozen=True, tag=True):
    """Master → the nodes nearest to it: all that a successor needs.

    `given_up`: the agents that no pane waits for. `results`: what came out since the revision before, by pane, as JSON.
    `take_over`: the successor is you, if you are the root by now; `leaving`: in any case.
    """

    epoch: Epoch
    revision: Count
    job: Submit
    submitter: Id
    members: Annotated[list[MemberEntry], msgspec.Meta(max_length=4096)]
    next_number: Count
    frontier: Time
    totals: Annotated[list[Count], msgspec.Meta(max_length=16)]
    given_up: Bitmap
    results: Annotated[list[tuple[Time, bytes]], msgspec.Meta(max_length=256)]
    versions: VersionList
    take_over: bool = False
    leaving: bool = False


class Replicated(Message, frozen=True, tag=True):
    """Replica → master: I hold this revision, and results up to this pane."""

    epoch: Epoch
    revision: Count
    upto: Time


class Follow(Message, frozen=True, tag=True):
    """Agent → master, also routed to the appId: send results here, from the one after this pane (None: from now on).

    Repeated with the same request number it keeps the subscription alive.
    """

    request: Count
    after: Time | None


class Unfollow(Message, frozen=True, tag=True):
    """Agent → master: send no more results here."""


class NoJob(Message, frozen=True, tag=True):
    """Root → agent, in answer to Follow or Ask: there is no such job here."""


class Followed(Message, frozen=True, tag=True):
    """Master → follower, in answer to a new request: what the job is; windows after `after` come next."""

    epoch: Epoch
    request: Count
    after: Time
    name: Name
    text: Text
    stream: Name
    columns: Annotated[list[str], msgspec.Meta(max_length=4096)]
    bounded: bool
    version: Count = 1


class Acknowledgement(Message, frozen=True, tag=True):
    """Master → follower: so many agents run the job, of so many on the roster. Said on change and on every Follow.

    `sent`: the pane of the last window that was sent, so that its loss shows.
    """

    epoch: Epoch
    sent: Time
    agents: Count
    expected: Count
    version: Count
    master_name: Name


class Window(Message, frozen=True, tag=True):
    """Master → follower: one result, as JSON. `previous`: the pane of the one sent before, so that a gap shows."""

    epoch: Epoch
    previous: Time
    pane: Time
    json: bytes


class Finished(Message, frozen=True, tag=True):
    """Master → follower: that was the last window, of the pane `sent`. `failure`: what the reason "failed" is about."""

    epoch: Epoch
    sent: Time
    reason: Reason
    failure: Text = ""


class Ask(Message, frozen=True, tag=True):
    """Agent → master, as a request to the appId: the last results of this job, up to so many."""

    windows: Annotated[int, msgspec.Meta(ge=1, le=ASKED_WINDOWS_MAX)]


class Answer(Message, frozen=True, tag=True):
    """Master → agent, in response to Ask (NoJob is the other one): the last results by pane, ascending, as JSON."""

    name: Name
    text: Text
    columns: Annotated[list[str], msgspec.Meta(max_length=4096)]
    results: Annotated[list[tuple[Time, bytes]], msgspec.Meta(max_length=ASKED_WINDOWS_MAX)]


class Update(Message, frozen=True, tag=True):
    """Agent → master, also routed to the appId: compute this from a window on that has not begun anywhere.

    `reset`: windows that have begun are given up. `updated_ms`: the agent's wall clock, which tells updates apart.
    """

    plan: dict[str, Any]
    text: Text
    reset: bool
    updated_ms: Count


class Updated(Message, frozen=True, tag=True):
    """Master or root → agent: this version is in force from a window on, or why none is.

    `agents` have acknowledged it, of `expected`; they are `laggards` who have not.
    """

    updated_ms: Count
    refusal: Text | None
    version: Count = 0
    starts: Time = 0
    agents: Count = 0
    expected: Count = 0
    laggards: Annotated[list[Name], msgspec.Meta(max_length=LAGGARDS_MAX)] = []


class Propose(Message, frozen=True, tag=True):
    """Master → all, multicast: be ready to compute this too, and say so."""

    epoch: Epoch
    version: Count
    plan: dict[str, Any]


class Prepared(Message, frozen=True, tag=True):
    """Worker → master: I have all events later than `opened` (epoch ms) for this version, or why I cannot run it."""

    epoch: Epoch
    number: Number
    version: Count
    opened: Time
    refusal: Text | None = None


class Begin(Message, frozen=True, tag=True):
    """Master → all, multicast: these versions are in force. Who is not told asks: it enrols again."""

    epoch: Epoch
    versions: VersionList


class Withdraw(Message, frozen=True, tag=True):
    """Master → all, multicast: this version will not be."""

    epoch: Epoch
    version: Count


class Stop(Message, frozen=True, tag=True):
    """Agent → master, also routed to the appId: end this job."""


class StopAnswer(Message, frozen=True, tag=True):
    """Master or root → agent: whether there was such a job."""

    found: bool


class Stopped(Message, frozen=True, tag=True):
    """Master → every agent, multicast: this job is over, drop it."""

    epoch: Epoch
    reason: Reason


CODEC: Codec[Message] = Codec(
    Submit | Submitted | Announce | Bulletin | Enrol | Enrolled | Ready | Farewell | Snapshot | Received | Commit
    | Replica | Replicated | Follow | Unfollow | NoJob | Followed | Acknowledgement | Window | Finished
    | Ask | Answer | Update | Updated | Propose | Prepared | Begin | Withdraw | Stop | StopAnswer | Stopped
)  # fmt: skip
