"""Messages between agents about jobs; the overlay carries them as opaque bytes.

Frames travel as the bytes of `cbt.encode_frame`, contributor sets as little-endian bitmaps of roster numbers. Messages
that belong to one master's term carry its epoch; those of an older epoch are refused.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

import query
from agent.runtime.messages.copies import (
    Copies,
    CopyAck,
    CopyPart,
    CopyPartAck,
    CopyRequest,
    CopyResponse,
    GivenRequest,
    GivenResponse,
    HoldersNote,
    RackAnnouncement,
)
from agent.runtime.messages.elements import (
    CommitHeld,
    CommitProbe,
    CommitRecord,
    ElementCredit,
    ElementLoad,
    ElementParcel,
    ElementProbe,
    ElementReset,
    ElementRoster,
    ElementRows,
    ElementTimeReport,
    ElementTimes,
    FindHosts,
    MoveNodes,
    NodeBallots,
    NodeHosts,
    NodesMoved,
)
from agent.runtime.messages.emissions import EmitEvents, EventsTaken
from agent.runtime.messages.mastership import (
    FollowAnswer,
    FollowQuestion,
    MasterAnswer,
    MasterQuestion,
    MasterRequest,
)
from agent.runtime.messages.programs import (
    CannotRun,
    JobRequest,
    JobResponse,
    Log,
    LogLines,
    LogRequest,
    ProgramFailed,
    ProgramMulticast,
)
from agent.runtime.messages.reading import NO_RUNS, GivenRuns
from agent.runtime.messages.versions import GoingOn, VersionList, VersionMessage, VersionsCodec
from agent.runtime.messages.views.descriptions import (
    AgentDescription,
    DescribeAgent,
    DescribeStream,
    SampleStream,
    StreamDescription,
    StreamSample,
)
from agent.runtime.messages.views.dry_runs import DryRun, DryRunView
from agent.runtime.messages.views.element_views import DescribeElements, ElementsDescription, ElementsGiven
from agent.runtime.messages.views.latency import LatencyRequest, LatencyView
from agent.runtime.messages.views.placement import PlacementView, PlaceRequest
from agent.runtime.model.bundle import Bundle, Signature
from agent.runtime.model.epoch import JobEpoch
from agent.runtime.model.fields import (
    GROUPS,
    PANES_COUNTED_MAX,
    WORK_BYTES,
    Amount,
    Bitmap,
    Count,
    LossReason,
    Message,
    Name,
    Number,
    PaneCounts,
    Reason,
    Stage,
    Text,
    Time,
    WireOldPanes,
    WireOldWindow,
    WirePatch,
    WireWindow,
    WorkDone,
)
from agent.runtime.model.incomplete import SPANS_MAX
from agent.runtime.model.latency.critical_path import Micros, WirePath
from agent.runtime.model.latency.part_meter import PartBytes, SlowParts
from agent.runtime.model.panes import COUNTS_BYTES, FIRST_PANE, LOSSES_MAX
from agent.runtime.model.placement import NOT_MOVED, KeyMoves
from overlay import Codec, Id, Peer

Owner = Annotated[str, msgspec.Meta(max_length=255)]
Reader = Id | None
"""The job on a follower's agent that reads the results; None: clients and programs of that agent read them."""
GRACE_MS = query.GRACE_DEFAULT_MS
ASKED_WINDOWS_MAX = 64
"""Upper bound on the results in one answer: a master keeps no more."""
LAGGARDS_MAX = 20
ANNOUNCEMENTS_MAX = 64
Tree = Annotated[int, msgspec.Meta(ge=0, lt=query.TREES_MAX)]
"""0 is the tree whose root is the master."""
Incomplete = Annotated[tuple[tuple[Time, Time, Bitmap], ...], msgspec.Meta(max_length=SPANS_MAX)]
"""Spans of panes, each with its contributors, that were published without somebody: see `IncompleteSpan`."""


class Submit(Message, frozen=True, tag=True):
    """Agent → master, routed to the appId: run this job.

    `bounded`: over the events that logs hold now, else over events to come. `attached`: only while somebody follows it.
    `text`: the query as people read it. `submitted_ms`: the agent's wall clock, which tells submissions apart.
    `bundle`: the bundle that the job's creator has signed, if it has a creator. `owner`: who has submitted it, as
    `agent.access.owners` spells it; "" from an agent that does not say so yet.
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
    bundle: Bundle | None = None
    owner: Owner = ""


class Submitted(Message, frozen=True, tag=True):
    """Master → submitting agent: the job runs, or why it does not."""

    submitted_ms: Count
    refusal: Text | None


class Announce(Message, frozen=True, tag=True):
    """Master → every agent, multicast every few seconds: this job runs, take part if you have the stream.

    `version`: the newest one in force; `proposed`: one that is being prepared, 0 if there is none.
    `creator`: the job's creator, "" if it has none; `mandate`: the digest of the creator's last mandate, number
    `counter`. `part_of`: the job of which it is a stage, "" if it is none. `trees`: the number of its trees.
    `members`: the numbers on the roster that have not left. A worker whose number is not among them is to enrol anew.
    `incomplete`: as in `Commit`. `owner`: as in `Submit`. `events`: the number of events in what is published.
    `closed`: the last instant of the published panes; that of `frontier` is within one. `keyed`: the job has keyed
    elements, or reads those of the job that it is a stage of; every agent takes part, whatever streams it has.
    `owners`: the roots of its trees but the first make windows of the panes that they combine. `moved`: the moves of
    its key groups.
    """

    epoch: JobEpoch
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
    creator: Text = ""
    counter: Count = 0
    mandate: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    part_of: Text = ""
    trees: Annotated[int, msgspec.Meta(ge=1, le=query.TREES_MAX)] = 1
    members: Bitmap = b""
    incomplete: Incomplete = ()
    owner: Owner = ""
    events: Count = 0
    closed: Time = FIRST_PANE
    keyed: bool = False
    owners: bool = False
    moved: KeyMoves = NOT_MOVED


class AnnouncementBatch(Message, frozen=True, tag=True):
    """Agent → every agent, multicast: the announcements of several masters on this agent. The appId has no meaning.

    Agent → one that joins, in answer to `JobsWanted`: those that it has heard.
    """

    jobs: Annotated[list[Announce], msgspec.Meta(max_length=ANNOUNCEMENTS_MAX)]


class JobsWanted(Message, frozen=True, tag=True):
    """Agent that joins → neighbour: which jobs have you heard of? The appId has no meaning."""


class Enrol(Message, frozen=True, tag=True):
    """Agent → master: I take part in this epoch, as a worker or only by combining what others send.

    `number`: this worker's number on the roster so far. A worker that comes back after leaving is given another one.
    `resumes`: this worker was started again, and reads on where it was. `wall_ms`: the wall clock, as it believes it.
    """

    epoch: JobEpoch
    agent: Name
    works: bool
    number: Number | None = None
    resumes: bool = False
    wall_ms: Time = 0


class Enrolled(Message, frozen=True, tag=True):
    """Master → agent: the job, the frontier after which panes are needed and, for a worker, its number on the roster.

    `begins`: the first pane to which the worker can still contribute. `versions`: the versions in force. `contributed`:
    the last published pane to which this agent may have contributed. `is_new`: it has taken no part before in this job,
    whose windows have been published for a while.
    """

    epoch: JobEpoch
    number: Number | None
    versions: VersionList
    frontier: Time
    begins: Time
    job: Submit
    contributed: Time = -(2**63)
    is_new: bool = False
    moved: KeyMoves = NOT_MOVED
    going_on: GoingOn = ()


class Ready(Message, frozen=True, tag=True):
    """Worker → master: I run this version, and have all of my stream's events from this pane on.

    `instead_of`: the first pane that I reported before, if a feed has taken longer to open than expected.
    """

    epoch: JobEpoch
    number: Number
    version: Count
    first_pane: Time
    instead_of: Time | None = None


class Leave(Message, frozen=True, tag=True):
    """Worker → master: I leave the fleet; expect no pane of me after this one."""

    epoch: JobEpoch
    number: Number
    last_pane: Time


class LeaveAck(Message, frozen=True, tag=True):
    """Master → worker: you are not expected after your last pane; whoever is master next knows that too."""

    epoch: JobEpoch
    number: Number


class Snapshot(Message, frozen=True, tag=True):
    """Child → parent: the combined panes in (after, upto] of the contributors, with their counts.

    `partial`: the contributors that lack some of their events.
    `detached`: it was sent before, to a parent that may have passed it on; it goes up to the root unchanged.
    `tree`: the tree whose range of keys the state has; counts go up tree 0. `of_root`: sent by that tree's root to the
    master. `leaped`: the agents that were leaped over in these panes. `losses`, `patches`, `placed`, `before`: see
    `Run`.

    `stage`: of a tree whose root makes windows, the root sends the master first a *report* of what it has combined,
    without the state and, once that is decided on, the `windows` that it makes of it. What open windows have of a group
    that moves is *given* by one owner to another, that of `to_tree`: see `agent.runtime.reduce.owner`. `loads`: the
    rows of each key group that an owner has had since it answered last; `work_us`, `busy_us`: time of a processor since
    then for windows of the job, and of the whole agent. `old_windows`: those of older versions that end with these
    panes, as far as it has theirs. `work`: what the agent, and those below it, have done for the job since it told
    last. `path`: how long the run's last part has taken so far, and will to the parent. `parts`, `slowest`: how
    long the agent, and those below it, have taken for their own parts since it told last.
    """

    epoch: JobEpoch
    version: Count
    after: Time
    upto: Time
    contributors: Bitmap
    state: bytes
    counted: Annotated[list[PaneCounts], msgspec.Meta(max_length=PANES_COUNTED_MAX)]
    partial: Bitmap = b""
    detached: bool = False
    tree: Tree = 0
    of_root: bool = False
    leaped: Bitmap = b""
    losses: Annotated[list[tuple[Bitmap, LossReason]], msgspec.Meta(max_length=LOSSES_MAX)] = []  # noqa: RUF012
    patches: Annotated[list[WirePatch], msgspec.Meta(max_length=PANES_COUNTED_MAX)] = []  # noqa: RUF012
    stage: Stage = "panes"
    windows: Annotated[list[WireWindow], msgspec.Meta(max_length=PANES_COUNTED_MAX)] = []  # noqa: RUF012
    placed: Count = 0
    to_tree: Tree = 0
    loads: Annotated[list[Count], msgspec.Meta(max_length=GROUPS)] = []  # noqa: RUF012
    work_us: Annotated[int, msgspec.Meta(ge=0, lt=1 << 40)] = 0
    busy_us: Annotated[int, msgspec.Meta(ge=0, lt=1 << 40)] = 0
    before: Annotated[list[WireOldPanes], msgspec.Meta(max_length=PANES_COUNTED_MAX)] = []  # noqa: RUF012
    old_windows: Annotated[list[WireOldWindow], msgspec.Meta(max_length=PANES_COUNTED_MAX)] = []  # noqa: RUF012
    work: WorkDone = []  # noqa: RUF012
    path: WirePath = []  # noqa: RUF012
    parts: PartBytes = b""
    slowest: SlowParts = []  # noqa: RUF012

    @property
    def size(self) -> int:
        """An upper bound on the encoded bytes, but for a few."""
        size = len(self.state) + WORK_BYTES + len(self.parts) + COUNTS_BYTES * len(self.counted)
        size += sum(COUNTS_BYTES + len(state) for *_, state in self.windows)
        size += sum(COUNTS_BYTES + len(state) for *_, state in self.old_windows)
        size += sum(COUNTS_BYTES * (1 + len(one[4])) + len(one[3]) for one in self.before)
        for _, state, counted, _ in self.patches:
            size += len(state) + sum(COUNTS_BYTES + len(entry[-1]) for entry in counted)
        return size


class SnapshotAck(Message, frozen=True, tag=True):
    """Parent → child, master → root of a tree: your snapshot of these panes and contributors has arrived.

    `handled_us`: microseconds from its arrival to this answer.
    """

    epoch: JobEpoch
    after: Time
    upto: Time
    contributors: Bitmap
    tree: Tree = 0
    stage: Stage = "panes"
    handled_us: Amount = 0


GivenGroups = tuple[list[Annotated[int, msgspec.Meta(ge=0, lt=GROUPS)]], Tree, Peer]
"""Key groups, and their new owner: the tree, and the agent."""


class Decision(Message, frozen=True, tag=True):
    """Master → owner of a tree: these panes are decided on, make the windows that end with them.

    `contributors`: those of what the owner has reported of them, if that counts; none if it does not. `begins`: it is
    the first decision on this owner's panes in this epoch; `ends`: the last one, as no window needs them afterwards.
    `whole_from`: of windows that start then or later, nobody else has groups of this owner's but those that move within
    them. `published`: windows that end with a pane up to this one are out. `version`: that of the panes. `gives`: the
    groups of which another owner gets what open windows have of them here, before these panes; `restores`: the owners,
    by their trees and node ids, of whom this one gets it.
    """

    epoch: JobEpoch
    version: Count
    tree: Tree
    after: Time
    upto: Time
    contributors: Bitmap
    begins: bool
    ends: bool
    whole_from: Time
    published: Time
    moved: KeyMoves = NOT_MOVED
    gives: GivenGroups | None = None
    restores: Annotated[list[tuple[Tree, Id]], msgspec.Meta(max_length=GROUPS)] = []  # noqa: RUF012


class MoveKeys(Message, frozen=True, tag=True):
    """Master → all, multicast: the moves of the job's key groups from now on."""

    epoch: JobEpoch
    moved: KeyMoves


class OwnerLost(Message, frozen=True, tag=True):
    """Owner of a tree → master: I do not have the panes that you have decided on, or leave with them.

    `failure`: why the job cannot go on, if it cannot.
    """

    epoch: JobEpoch
    tree: Tree
    failure: Text = ""


class SnapshotPart(Message, frozen=True, tag=True):
    """Child → parent, root of a tree → master: the bytes from `offset` on of an encoded snapshot that has `size` bytes.

    `digest` names those bytes: parts of one digest belong together. `of_root` holds for the snapshot.
    """

    epoch: JobEpoch
    tree: Tree
    digest: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    size: Count
    offset: Count
    data: bytes
    of_root: bool = False
    stage: Stage = "panes"


class SnapshotPartAck(Message, frozen=True, tag=True):
    """Parent → child, master → root of a tree: every part of that snapshot before `upto` has arrived, the one at `upto`
    has not."""

    epoch: JobEpoch
    tree: Tree
    digest: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    upto: Count
    stage: Stage = "panes"


class Commit(Message, frozen=True, tag=True):
    """Master → all, multicast: every pane up to the frontier is published; free what you kept for it.

    `incomplete`: the spans that were published without somebody, with their contributors, for a while.
    """

    epoch: JobEpoch
    frontier: Time
    incomplete: Incomplete = ()


class Lagging(Message, frozen=True, tag=True):
    """Agent → master: some of my sources lag far behind the one that has come to the pane `most`.

    `is_full`: as many runs wait here as may.
    """

    epoch: JobEpoch
    most: Time
    is_full: bool = False


class AgentFailed(Message, frozen=True, tag=True):
    """Agent → master: a child of mine in a tree of the job is dead."""

    epoch: JobEpoch
    node_id: Id


class Leap(Message, frozen=True, tag=True):
    """Master → all, multicast: go on up to this pane with what there is; whoever has not sealed it passes over it."""

    epoch: JobEpoch
    upto: Time


class MemberEntry(msgspec.Struct, frozen=True, array_like=True):
    """One agent of a roster. It is expected in panes from the first (None: not ready yet) to the last (None: open)."""

    number: Number
    name: Name
    node_id: Id
    first_pane: Time | None
    last_pane: Time | None


Members = Annotated[list[MemberEntry], msgspec.Meta(max_length=4096)]
Totals = Annotated[list[Count], msgspec.Meta(min_length=6, max_length=6)]
GivenResults = Annotated[list[tuple[Time, bytes]], msgspec.Meta(max_length=256)]


class Replica(Message, frozen=True, tag=True):
    """Master → the nodes nearest to it: everything that a successor needs.

    `written_off`: the agents that no pane waits for. `results`: the results that the receiver lacks, by pane, as JSON.
    `take_over`: become the master if you are the root by now; the number of this attempt, 0 if there is none.
    `leaving`: become the master in any case. `restored`: sent by an agent that has it from its disk, not by its master.
    `incomplete`: as in `Commit`. `unshown`: the panes without a window so far, with those who lack in them. `read`: if
    it reads another job's results.
    """

    epoch: JobEpoch
    revision: Count
    job: Submit
    submitter: Id
    members: Members
    next_number: Count
    frontier: Time
    totals: Totals
    written_off: Bitmap
    results: GivenResults
    versions: VersionList
    take_over: Count = 0
    leaving: bool = False
    restored: bool = False
    incomplete: Incomplete = ()
    unshown: Incomplete = ()
    moved: KeyMoves = NOT_MOVED
    read: GivenRuns = NO_RUNS
    going_on: GoingOn = ()


class Replicated(Message, frozen=True, tag=True):
    """Replica → master: I hold this revision, and results up to this pane.

    `declined`: the number of the attempt to hand over that I have declined, 0 if there is none.
    """

    epoch: JobEpoch
    revision: Count
    upto: Time
    declined: Count = 0


class Follow(Message, frozen=True, tag=True):
    """Agent → master, also routed to the appId: send results here, from the one after this pane (None: from now on).

    Repeated with the same request number it keeps the subscription alive. `way_us`: the last known time (µs) from the
    master to here.
    """

    request: Count
    after: Time | None
    reader: Reader = None
    way_us: Micros | None = None


class Unfollow(Message, frozen=True, tag=True):
    """Agent → master: send no more results here."""

    reader: Reader = None


class NoJob(Message, frozen=True, tag=True):
    """Root → agent, in answer to Follow, Ask or MasterRequest: there is no such job here."""


class Followed(Message, frozen=True, tag=True):
    """Master → follower, in answer to a new request: the job's description; windows after `after` come next.

    `lost`: the newest pane whose result is no longer kept.
    """

    epoch: JobEpoch
    request: Count
    after: Time
    name: Name
    text: Text
    stream: Name
    columns: Annotated[list[str], msgspec.Meta(max_length=4096)]
    bounded: bool
    version: Count = 1
    lost: Time = -(2**63)
    reader: Reader = None


class Acknowledgement(Message, frozen=True, tag=True):
    """Master → follower: the number of agents that run the job and of those on the roster (`expected`).

    Sent when a number changes, and in answer to every Follow. `sent`: the pane of the last window sent, so that its
    loss shows. `closed_ms`: every window up to this instant is published, even if it has no result.
    """

    epoch: JobEpoch
    sent: Time
    agents: Count
    expected: Count
    version: Count
    master_name: Name
    closed_ms: Time = -(2**63)
    reader: Reader = None


class WindowMessage(Message, frozen=True, tag=True):
    """Master → follower: one result, as JSON. `previous`: the pane of the result sent before, so that a gap shows."""

    epoch: JobEpoch
    previous: Time
    pane: Time
    json: bytes
    reader: Reader = None


class JobEnded(Message, frozen=True, tag=True):
    """Master → follower: the window of the pane `sent` was the last. `failure`: explains the reason "failed"."""

    epoch: JobEpoch
    sent: Time
    reason: Reason
    failure: Text = ""
    reader: Reader = None


class Ask(Message, frozen=True, tag=True):
    """Agent → master, as a request to the appId: send at most this number of the job's last results.

    A result larger than `bytes_max` is replaced by an empty one.
    """

    windows: Annotated[int, msgspec.Meta(ge=1, le=ASKED_WINDOWS_MAX)]
    bytes_max: Count = 2**63 - 1


class Answer(Message, frozen=True, tag=True):
    """Master → agent, in response to Ask unless NoJob is: the last results by pane, ascending, as JSON."""

    name: Name
    text: Text
    columns: Annotated[list[str], msgspec.Meta(max_length=4096)]
    results: Annotated[list[tuple[Time, bytes]], msgspec.Meta(max_length=ASKED_WINDOWS_MAX)]


class Update(Message, frozen=True, tag=True):
    """Agent → master, also routed to the appId: compute this plan, from a window that has not begun anywhere yet.

    `reset`: drop the windows that have begun. `updated_ms`: the agent's wall clock, which tells updates apart.
    `by`: only if the job is this owner's; "" where the client may change anybody's.
    """

    plan: dict[str, Any]
    text: Text
    reset: bool
    updated_ms: Count
    bundle: Bundle | None = None
    by: Owner = ""


class Updated(Message, frozen=True, tag=True):
    """Master or root → agent: this version is in force from the window at `starts` on, or why none is.

    `agents` of the `expected` ones have acknowledged it; `laggards` names some that have not. `leaves_out`: windows of
    the version before that are open then are left out.
    """

    updated_ms: Count
    refusal: Text | None
    version: Count = 0
    starts: Time = 0
    agents: Count = 0
    expected: Count = 0
    laggards: Annotated[list[Name], msgspec.Meta(max_length=LAGGARDS_MAX)] = []  # noqa: RUF012
    leaves_out: bool = False


class Stop(Message, frozen=True, tag=True):
    """Agent → master, also routed to the appId: end this job. `seal`: its creator's signature, if it has a creator.

    `by`: as in `Update`.
    """

    seal: Signature | None = None
    by: Owner = ""


class StopAnswer(Message, frozen=True, tag=True):
    """Master or root → agent: whether there is such a job, and why it is not stopped, if it is not."""

    found: bool
    refusal: Text | None = None


class Stopped(Message, frozen=True, tag=True):
    """Master → every agent, multicast: this job is over, drop it.

    Any agent → one that brings a job back from its disk: it has ended meanwhile. `seal`: the signature by which its
    creator has stopped it. Without one the root is asked whether it is true.
    """

    epoch: JobEpoch
    reason: Reason
    seal: Signature | None = None


class OverRequest(Message, frozen=True, tag=True):
    """Agent → root, as a request to the appId: is the job of this epoch over?"""

    epoch: JobEpoch


class OverAnswer(Message, frozen=True, tag=True):
    """Root → agent, in response to OverRequest."""

    over: bool


CODEC: Codec[Message] = VersionsCodec(
    Submit | Submitted | Announce | AnnouncementBatch | JobsWanted | Enrol | Enrolled | Ready | Leave | LeaveAck
    | Snapshot | SnapshotAck | SnapshotPart | SnapshotPartAck | Commit | Lagging | AgentFailed | Leap
    | Decision | OwnerLost | MoveKeys | PlaceRequest | PlacementView | LatencyRequest | LatencyView
    | Replica | Replicated | Follow | Unfollow | NoJob | Followed | Acknowledgement | WindowMessage | JobEnded
    | Ask | Answer | LogRequest | Log | JobRequest | JobResponse
    | ProgramMulticast | LogLines | CannotRun | ProgramFailed
    | DescribeStream | StreamDescription | DescribeAgent | AgentDescription | SampleStream | StreamSample
    | DescribeElements | ElementsDescription | DryRun | DryRunView | ElementsGiven | EmitEvents | EventsTaken
    | Update | Updated | VersionMessage | Stop | StopAnswer | Stopped | OverRequest | OverAnswer
    | MasterRequest | FollowQuestion | FollowAnswer | MasterQuestion | MasterAnswer
    | RackAnnouncement | HoldersNote | Copies | CopyAck | CopyRequest | CopyResponse | CopyPart | CopyPartAck
    | GivenRequest | GivenResponse
    | ElementRows | ElementCredit | ElementReset | FindHosts | NodeHosts | NodeBallots
    | CommitRecord | CommitHeld | MoveNodes | NodesMoved | ElementLoad | ElementTimeReport | ElementTimes
    | ElementRoster | ElementParcel | ElementProbe | CommitProbe
)  # fmt: skip
