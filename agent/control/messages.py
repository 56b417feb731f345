"""Messages between a client and an agent over the control socket: one JSON object a line.

A client sends one request and reads answers until it closes. `QueryRequest` and `FollowRequest` are answered
by `Accepted`, then by `Acknowledged`, `PublishedWindow` and `WindowsLost` as they come, and `Ended`, `DrainRequest` by
`Draining` and at last `Drained`; every request may be answered by `Refused`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from agent.archive.format.status import ArchiveStatus
from agent.control.observation.fleet_entries import AgentEntry as AgentEntry
from agent.control.observation.fleet_entries import Fleet as Fleet
from agent.control.observation.fleet_entries import Tree as Tree
from agent.control.observation.fleet_entries import TreePlaceEntry as TreePlaceEntry
from agent.control.observation.latency_entries import DryRuns as DryRuns
from agent.control.observation.latency_entries import JobLatency as JobLatency
from agent.control.observation.placement_entries import JobPlacement as JobPlacement
from agent.programs.calls import AGGREGATES_MAX
from agent.programs.element_graph import ELEMENTS_MAX, FIELDS_MAX, FieldType, GraphName
from agent.runtime.messages.client_events import Accepted as Accepted
from agent.runtime.messages.client_events import Acknowledged as Acknowledged
from agent.runtime.messages.client_events import Ended as Ended
from agent.runtime.messages.client_events import PublishedWindow as PublishedWindow
from agent.runtime.messages.client_events import WindowsLost as WindowsLost
from agent.runtime.messages.emissions import SentEvents
from agent.runtime.messages.views.element_views import KEY_FIELDS_MAX, KeyText
from agent.runtime.model.fields import GROUPS, Group, Mode

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
AppId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
LINE_BYTES_MAX = 64 << 20
REQUEST_BYTES_MAX = 1 << 20
GROUPS_DEFAULT = 1_000_000
GROUPS_MAX = 100_000_000
ASKED_WINDOWS_MAX = 64
"""Upper bound on windows in an answer: a job's master keeps no more."""
LOG_LINES_MAX = 1000
"""Upper bound on log lines in an answer: a job's master keeps no more."""
DRAIN_PATIENCE_MAX_S = 3600.0
TAPPED_PER_S_MAX = 1000
BeyondGroups = Literal["other", "error"]
PROTOCOL = 1
"""The version of these messages. A request of a later one says so, in `protocol`."""
NO_REQUEST = "this is no request"


class _Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of requests. What is as it is by default is not sent, so that an agent of the release before takes what it
    knows; what an agent does not know is refused, as it may matter. Of answers, clients ignore what they do not know.
    """


class _Unknown(msgspec.Struct, frozen=True):
    """A request of any version, of which this much can be read."""

    protocol: int = 1


def why_no_request(line: bytes, fault: Exception) -> str:
    """One line for the client whose request cannot be read."""
    try:
        protocol = msgspec.json.decode(line, type=_Unknown).protocol
    except (msgspec.DecodeError, RecursionError):
        protocol = PROTOCOL
    if protocol > PROTOCOL:
        return (
            f"{NO_REQUEST} for this agent: it is of version {protocol} of the control protocol, and the agent reads up"
            f" to {PROTOCOL}: upgrade the agent, or ask it with the elf of its own release"
        )
    return f"{NO_REQUEST} of version {PROTOCOL} of the control protocol, which this agent reads: {fault}"


class QueryRequest(_Request, frozen=True, tag="query"):
    """Run a query. `once`: over the present contents of the logs; `detach`: go on when this connection closes.

    A window keeps `max_groups` groups; all others become one group, or end the job.
    """

    text: str
    app: Name | None = None
    once: bool = False
    detach: bool = False
    max_groups: Annotated[int, msgspec.Meta(ge=1, le=GROUPS_MAX)] = GROUPS_DEFAULT
    beyond_groups: BeyondGroups = "other"


class FollowRequest(_Request, frozen=True, tag="follow"):
    """Attach to a running job; `after`: the pane of the last window seen, in epoch milliseconds."""

    app: Name
    after: int | None = None


class StopRequest(_Request, frozen=True, tag="stop"):
    """Stop a job. If it has a creator, `seal` is the creator's signature of the order, as msgpack, `app_id` its id."""

    app: Name
    app_id: AppId | None = None
    seal: bytes | None = None


class AskRequest(_Request, frozen=True, tag="ask"):
    """Send at most this number of the last windows of a running job."""

    app: Name
    windows: Annotated[int, msgspec.Meta(ge=1, le=ASKED_WINDOWS_MAX)] = 1


class UpdateJob(_Request, frozen=True, tag="update"):
    """Let a running job compute another query, from a window that has not begun anywhere yet.

    `reset`: drop the open windows, which otherwise end on the query with which they began.
    """

    app: Name
    text: str
    reset: bool = False
    max_groups: Annotated[int, msgspec.Meta(ge=1, le=GROUPS_MAX)] = GROUPS_DEFAULT
    beyond_groups: BeyondGroups = "other"


class AnalyseRequest(_Request, frozen=True, tag="analyse"):
    """Send the plan of a query, for its creator to sign. `mapped`: its columns are made by the job's code.

    `apps`: the fleet's names of the jobs that the query calls by other names, by these names. `types`: the fields of
    the types of events that elements of the job bring, which it reads as streams. `aggregates`: the types of
    the results of aggregates that the job's code computes, by their names in capitals, with ":rigid" after them where
    there is no combine.
    """

    text: str
    mapped: bool = False
    apps: dict[Name, Name] = {}
    max_groups: Annotated[int, msgspec.Meta(ge=1, le=GROUPS_MAX)] = GROUPS_DEFAULT
    beyond_groups: BeyondGroups = "other"
    types: Annotated[
        dict[GraphName, Annotated[list[tuple[GraphName, FieldType]], msgspec.Meta(max_length=FIELDS_MAX)]],
        msgspec.Meta(max_length=ELEMENTS_MAX),
    ] = {}
    aggregates: Annotated[
        dict[Name, Annotated[str, msgspec.Meta(pattern="^(number|integer|string|boolean)(:rigid)?$")]],
        msgspec.Meta(max_length=AGGREGATES_MAX),
    ] = {}


class SubmitRequest(_Request, frozen=True, tag="submit"):
    """Run a bundle that a creator has signed, as msgpack. `app_id`: the id of the name and their key, in hex."""

    app: Name
    app_id: AppId
    bundle: bytes


class UpdateBundle(_Request, frozen=True, tag="update_bundle"):
    """Let a running job of a creator run another bundle, from a window that has not begun anywhere yet."""

    app: Name
    app_id: AppId
    bundle: bytes
    reset: bool = False


class DrainRequest(_Request, frozen=True, tag="drain"):
    """Let the agent hand over all it has, leave the fleet and end; within `patience_s`, or else without the rest."""

    patience_s: Annotated[float, msgspec.Meta(ge=0.0, le=DRAIN_PATIENCE_MAX_S)]


class ReloadRequest(_Request, frozen=True, tag="reload"):
    """Read the agent's configuration again."""


class GetLog(_Request, frozen=True, tag="log"):
    """Send at most this number of the last lines of a job's log."""

    app: Name
    lines: Annotated[int, msgspec.Meta(ge=1, le=LOG_LINES_MAX)] = 100


class DescribeRequest(_Request, frozen=True, tag="describe"):
    """Send the columns that this agent has seen in one of its streams."""

    stream: Name


class SurveyRequest(_Request, frozen=True, tag="survey"):
    """Send the columns that all agents have seen in a stream, or in several by patterns as in FROM."""

    stream: Name


class GetJobs(_Request, frozen=True, tag="jobs"):
    """List the fleet's jobs."""


class GetFleet(_Request, frozen=True, tag="fleet"):
    """Describe all agents of the fleet."""


class GetTree(_Request, frozen=True, tag="tree"):
    """Describe the trees of a job: the place of each agent in them."""

    app: Name


class GetElements(_Request, frozen=True, tag="elements"):
    """Describe the processing elements of a keyed job, or of all that the client may read.

    `key`: send the state of the elements of this value of the key too, in text, one for each field; `element`: of this
    one alone.
    """

    app: Name | None = None
    key: Annotated[list[KeyText], msgspec.Meta(max_length=KEY_FIELDS_MAX)] | None = None
    element: Annotated[str, msgspec.Meta(max_length=255)] = ""


class PlaceGroups(_Request, frozen=True, tag="place"):
    """Say where a job's key groups are; move those named first, to the agent of this name or node id."""

    app: Name
    groups: Annotated[list[Group], msgspec.Meta(max_length=GROUPS)] = []
    to: Annotated[str, msgspec.Meta(max_length=255)] = ""
    mode: Mode = "instant"


class GetLatency(_Request, frozen=True, tag="get_latency"):
    """Say how long the results of a job take."""

    app: Name


class RunDry(_Request, frozen=True, tag="run_dry"):
    """Say what a live query would cost agents, by the last lines of their logs."""

    text: str


class EmitRequest(_Request, frozen=True, tag="emit"):
    """Send events into the elements of a job, one batch of a client at a time. `emission`: the same for all batches of
    a client, which are numbered in it, so that a batch that is sent again counts once."""

    app: Name
    emission: AppId
    batch: SentEvents


class TapRequest(_Request, frozen=True, tag="tap"):
    """Show new events of one of this agent's streams, or its `malformed` lines, at most `per_s` a second.

    `where`: only events that this condition of ELF QL keeps. `everywhere`: of all agents that have the stream, at most
    `per_s` a second of each.
    """

    stream: Name
    malformed: bool = False
    where: Annotated[str, msgspec.Meta(min_length=1, max_length=65536)] | None = None
    per_s: Annotated[int, msgspec.Meta(ge=1, le=TAPPED_PER_S_MAX)] = 20
    everywhere: bool = False


class GetStatus(_Request, frozen=True, tag="status"):
    """Describe this agent."""


class GetRights(_Request, frozen=True, tag="rights"):
    """Say who this client is to the agent, and what it may do."""


Request = (
    QueryRequest | FollowRequest | AnalyseRequest | SubmitRequest | UpdateJob | UpdateBundle | StopRequest | AskRequest
    | DescribeRequest | SurveyRequest | DrainRequest | ReloadRequest | GetLog | GetJobs | GetStatus
    | GetRights | GetFleet | GetTree | GetElements | PlaceGroups | GetLatency | RunDry | EmitRequest | TapRequest
)  # fmt: skip


class JobUpdated(msgspec.Struct, frozen=True, tag="updated"):
    """The job runs this version of its function in windows that start at `starts` (RFC 3339) or later.

    `agents` of the `expected` ones on its roster have acknowledged it; `laggards` names at most 20 that have not yet.
    `leaves_out`: windows of the version before that are open then are left out. `warning`: why its results may come too
    late; "" if nothing says so.
    """

    app: str
    query: str
    version: int
    starts: str
    agents: int
    expected: int
    laggards: list[str]
    leaves_out: bool = False
    warning: str = ""


class AskAnswer(msgspec.Struct, frozen=True, tag="answered"):
    """A job's last published windows, in order."""

    app: str
    query: str
    columns: list[str]
    windows: list[PublishedWindow]


class Described(msgspec.Struct, frozen=True, tag="described"):
    """The columns of a stream and their types, in its present files. `open`: events may have other columns too."""

    stream: str
    columns: dict[str, str]
    open: bool


class SurveyedColumn(msgspec.Struct, frozen=True):
    """A column that this number of `agents` has seen: the type they agree on, else any, and one of its values."""

    name: str
    type: str
    agents: int
    example: str


class Surveyed(msgspec.Struct, frozen=True, tag="surveyed"):
    """The columns of a stream: `agents` of the `asked` ones have it, `silent` of them have not answered.

    `open`: events may have other columns too.
    """

    stream: str
    columns: list[SurveyedColumn]
    open: bool
    agents: int
    asked: int
    silent: int


class Analysed(msgspec.Struct, frozen=True, tag="analysed"):
    """A query as ELF reads it, and its plan as msgpack. `warning`: why its results may come too late; "" if nothing
    says so."""

    query: str
    plan: bytes
    warning: str = ""


class LogLine(msgspec.Struct, frozen=True):
    """A line that the code of a job has written on an agent; `time` is RFC 3339."""

    time: str
    agent: str
    text: str


class LogExcerpt(msgspec.Struct, frozen=True, tag="log"):
    """The last lines of a job's log. `dropped`: the number of earlier lines that are left out."""

    app: str
    lines: list[LogLine]
    dropped: int


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The request cannot be carried out: usage (as it was written), unknown (no such job), unavailable (not now), owned
    (only the job's creator may ask for that), forbidden (the client lacks a right, which the message names).
    """

    kind: Literal["usage", "unknown", "unavailable", "owned", "forbidden"]
    message: str


class JobStopped(msgspec.Struct, frozen=True, tag="stopped"):
    """The job's master has taken the order to stop."""

    app: str


class JobEntry(msgspec.Struct, frozen=True):
    """One of the fleet's jobs. `mandate`: the digest of its creator's last mandate, number `counter`.

    `part_of`: the job of which it is a stage, "" if it is none. `owner`: who has submitted it, USER@AGENT or
    CREATOR/KEY; "" if that is not known. `query` is "" where the client has no right to read the job. `events`: those
    in the results so far. `contributors`: the number of agents in the newest results; None where none are live.
    """

    app: str
    app_id: str
    stream: str
    query: str
    master: str
    epoch: int
    version: int
    agents: int
    expected: int
    bounded: bool
    frontier: str | None
    creator: str = ""
    counter: int = 0
    mandate: str = ""
    part_of: str = ""
    owner: str = ""
    events: int = 0
    contributors: int | None = None

    @property
    def full_name(self) -> str:
        """The name that no other job has: NAME@CREATOR, of a job without a creator NAME."""
        return f"{self.app}@{self.creator}" if self.creator else self.app


class Jobs(msgspec.Struct, frozen=True, tag="jobs"):
    """The jobs that this agent knows."""

    jobs: list[JobEntry]


class GrantedRole(msgspec.Struct, frozen=True):
    """A role over streams and apps, by names and patterns; over one's own jobs it is a role too."""

    role: str
    streams: list[str]
    apps: list[str]


class Rights(msgspec.Struct, frozen=True, tag="rights"):
    """A client as the agent knows it: its name, the owner of what it submits, and its roles."""

    name: str
    owner: str
    roles: list[GrantedRole]


class StreamStatus(msgspec.Struct, frozen=True):
    """One stream of this agent, since it started; the rate is over the last seconds."""

    name: str
    paths: list[str]
    files: int
    events: int
    malformed: int
    bytes_read: int
    events_per_s: float
    at_end: bool


class JobStatus(msgspec.Struct, frozen=True):
    """One local job of this agent. `parent` and `children`: its neighbours in the first of the job's trees.

    `roots`: the other trees of which it is the root. `rows_here`, `rows_sent`: rows of another job's results that it
    has read, from a master on this agent, and as JSON from elsewhere; `rows_as_states`: those from here of which it has
    merged the state, without making them.
    """

    app: str
    app_id: str
    roles: list[str]
    parent: str | None
    children: list[str]
    version: int
    epoch: int
    frontier: str | None
    trees: int = 1
    roots: list[int] = []
    rows_here: int = 0
    rows_sent: int = 0
    rows_as_states: int = 0


class ElementKey(msgspec.Struct, frozen=True):
    """A hot key: its share of the events that an agent sends, and the workers that it may go to."""

    key: str
    share: float
    workers: int


class SplitStatus(msgspec.Struct, frozen=True):
    """Elements of a job whose keys are split, as this agent sends events to their workers: see
    `element_views.HostedElement`. `unacknowledged`, `resent`: of all events of the job, those that are not safe yet,
    and those that were sent again."""

    app: str
    element: str
    grouping: str
    workers: int
    events_per_s: float
    hot_keys: int
    split_keys: int
    mean_parts: float
    hot: list[ElementKey]
    longest_wait_s: float
    unacknowledged: int
    resent: int


class RevocationListStatus(msgspec.Struct, frozen=True):
    """The newest list of revoked certificates of an authority; `number` is 0 if there is none."""

    authority: str
    number: int
    revoked: int


class IdentityStatus(msgspec.Struct, frozen=True):
    """The agent's certificate, and the authorities it trusts, as SHA-256 of their certificates."""

    serial: str
    expires: str
    authorities: list[RevocationListStatus]


class ConfigStatus(msgspec.Struct, frozen=True):
    """The configuration in force: its file, how many there were since the agent started, and the changes in the files
    that wait for a restart."""

    path: str
    generation: int
    restart: list[str] = []


class Reloaded(msgspec.Struct, frozen=True, tag="reloaded"):
    """The configuration was read again. With `faults` it is as it was; else `changes` are in force, and those in
    `restart` will be when the agent is started anew."""

    generation: int
    changes: list[str] = []
    restart: list[str] = []
    faults: list[str] = []


class Draining(msgspec.Struct, frozen=True, tag="draining"):
    """The agent leaves: it is still the master of so many jobs, and owes others its part of so many."""

    masters: int
    jobs: int


class Drained(msgspec.Struct, frozen=True, tag="drained"):
    """The agent has left, and ends. `whole`: everything was handed over."""

    whole: bool


class Status(msgspec.Struct, frozen=True, tag="status"):
    """The status of this agent, and its knowledge of the others. `parsing`: whether lines are scanned natively, and why
    not; `trees`: whether trees have their kernel, and why not."""

    name: str
    fleet: str
    node_id: str
    address: str
    active: bool
    uptime_s: float
    memory_bytes: int
    leaf_set: list[str]
    peers: int
    streams: list[StreamStatus]
    jobs: list[JobStatus]
    counters: dict[str, int]
    identity: IdentityStatus
    archive: ArchiveStatus | None = None
    parsing: str = ""
    trees: str = ""
    config: ConfigStatus | None = None
    split: list[SplitStatus] = []


class ElementEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The processing elements of one prototype on one agent. See `element_views.HostedElement`."""

    app: str
    element: str
    agent: str
    node_id: str
    nodes: int
    elements: int
    events: int
    events_per_s: float
    queue: int
    emitted: int
    evicted: int
    shed: int
    lost: int
    null_keys: int
    refused: int
    memory_bytes: int
    lag_s: float | None
    failed: int = 0
    missed: int = 0
    under_replicated: int = 0
    grouping: str = ""
    workers: int = 0
    hot_keys: int = 0
    split_keys: int = 0
    mean_parts: float = 0.0
    hot: list[ElementKey] = []
    waits: list[float] = []
    refused_reports: int = 0


class ElementState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one processing element: on which agent, in which logical node, of which epoch. `state` is None if it
    is longer than is shown; `state_bytes` tells its size."""

    element: str
    agent: str
    node: int
    epoch: int
    state: Any
    state_bytes: int


class Elements(msgspec.Struct, frozen=True, tag="elements"):
    """The processing elements of jobs, by agent; `silent` agents have not answered. `states`: those of the key that was
    asked for, of which each has one host."""

    elements: list[ElementEntry]
    states: list[ElementState] = []
    silent: int = 0


class EventsSent(msgspec.Struct, frozen=True, tag="emitted"):
    """The events of a batch are safe, `rows` of them; `busy`: they are not, for this reason, and are to be sent again,
    with the same numbers."""

    rows: int
    busy: str = ""


class TappedLine(msgspec.Struct, frozen=True):
    """An event as its columns or, where it is malformed, the line as text; `place` is the file it is from, `agent` the
    agent where all are asked."""

    place: str
    event: dict[str, Any] | None = None
    line: str | None = None
    agent: str = ""


class Tapped(msgspec.Struct, frozen=True, tag="tapped"):
    """New lines of a stream; `skipped` more of that kind are not shown, and `read` were read in all, since the last.

    Of all agents: `skipped_by` agent, at most 20 of them; `refused` tells why these agents show nothing, and `silent`
    ones have not answered.
    """

    stream: str
    lines: list[TappedLine]
    skipped: int
    read: int
    skipped_by: dict[str, int] = {}
    refused: dict[str, str] = {}
    silent: int = 0


Answer = (
    Accepted | Acknowledged | PublishedWindow | WindowsLost | Ended | Refused | Analysed | Described | Surveyed
    | JobUpdated | JobStopped | AskAnswer | LogExcerpt | Jobs | Status | Draining | Drained | Reloaded
    | Rights | Fleet | Tree | Elements | JobPlacement | JobLatency | DryRuns | EventsSent | Tapped
)  # fmt: skip
