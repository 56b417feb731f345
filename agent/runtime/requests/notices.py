"""What an agent's core tells the shell around it about the jobs its clients care for; drained by `Agent.notices()`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.runtime.messages.descriptions import StreamDescription
from agent.runtime.messages.programs import Line
from overlay import Peer


@dataclass(frozen=True, slots=True)
class Accepted:
    """A job is there: one answer to each `submit` that succeeds, and to each `follow` of a job that runs."""

    app_id: int
    name: str
    text: str
    stream: str
    columns: tuple[str, ...]
    bounded: bool
    version: int = 1


@dataclass(frozen=True, slots=True)
class SubmitRefused:
    """A job was not started, and why: one line for people. `unavailable`: trying again later may help."""

    app_id: int
    reason: str
    unavailable: bool


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """So many agents run a followed job, of so many on its roster; said again when it changes."""

    app_id: int
    agents: int
    expected: int
    version: int
    epoch: int
    master: str


@dataclass(frozen=True, slots=True)
class Published:
    """One result of a followed job as its JSON line; `pane` is the window's start in epoch ms (0 without windows).

    Panes come in order. After another `follow` of the same job they start again from where that one asked for.
    """

    app_id: int
    pane: int
    json: bytes


@dataclass(frozen=True, slots=True)
class Ended:
    """There will be no further result of a followed job.

    finished: its input ended; stopped: someone stopped it, or nobody followed it; nobody: no agent has its stream;
    lost: nothing was heard of it for long; unknown: there is no such job; failed: it cannot go on, and `failure`
    tells people why.
    """

    app_id: int
    reason: Literal["finished", "stopped", "nobody", "lost", "unknown", "failed"]
    failure: str = ""


@dataclass(frozen=True, slots=True)
class StopAnswered:
    """The answer to `stop`: whether there is such a job, and why it goes on nevertheless."""

    app_id: int
    found: bool
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateAnswered:
    """A job computes something else, by this version, in windows that start at `starts` (epoch ms) or later.

    So many `agents` have acknowledged it, of so many on the roster; `laggards` are names of those who have not.
    """

    app_id: int
    version: int
    starts: int
    agents: int
    expected: int
    laggards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UpdateRefused:
    """A job computes what it did, and why: usage (as it was asked), unknown (no such job), unavailable (not now)."""

    app_id: int
    reason: str
    kind: Literal["usage", "unknown", "unavailable"]


@dataclass(frozen=True, slots=True)
class Shown:
    """A job's code leaves this JSON for the web server beside the agent."""

    app: str
    json: bytes


@dataclass(frozen=True, slots=True)
class LogAnswered:
    """The answer to a question for a job's log: its name, its last lines, and how many went before them."""

    question: int
    name: str
    lines: tuple[Line, ...]
    dropped: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to an `ask`: the job and its last results by pane, ascending, as their JSON lines."""

    question: int
    name: str
    text: str
    columns: tuple[str, ...]
    results: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class AskRefused:
    """There is no answer to an `ask`; `unavailable`: not now, else there is no such job."""

    question: int
    unavailable: bool


@dataclass(frozen=True, slots=True)
class StreamAsked:
    """An agent wants to know what a stream holds here: `Surveys.tell` answers."""

    asker: Peer
    question: int
    stream: str


@dataclass(frozen=True, slots=True)
class StreamSurveyed:
    """What agents have answered to a question about a stream; so many `silent` ones have not."""

    question: int
    answers: tuple[StreamDescription, ...]
    silent: int


CoreEvent = (
    Accepted
    | SubmitRefused
    | Acknowledged
    | Published
    | Ended
    | StopAnswered
    | UpdateAnswered
    | UpdateRefused
    | Shown
    | LogAnswered
    | Answered
    | AskRefused
    | StreamAsked
    | StreamSurveyed
)
