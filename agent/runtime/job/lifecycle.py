"""Drives the life of a job on one agent, as one table.

Theory. A local job exists because a master has announced it, or because a child in one of its trees sends snapshots.

UNANNOUNCED. A child has sent a snapshot, and no master is known. After a while without an announcement it is dropped.

ENROLLING. The epoch and its master are known, the job's function is not: the agent asks the master for it, again with
every announcement. Snapshots of children are held meanwhile. Each new epoch begins here, whatever was before: no run
that was combined under the old master is used, so none can count twice.

LOADING. The master has answered, and the code that goes with the function is being loaded.

FORWARDING. The function is installed: runs of children are combined and passed on. The agent has no events of the job,
or cannot run it, or waits for its pipeline.

WORKING. The agent has a number on the roster, and its own runs are combined as they are sealed. Runs that it sealed in
an earlier epoch beyond the new master's frontier are handed in again at the beginning.

LEAVING. The agent leaves: it has handed in every run that is not committed, detached, and seals no more.

Code may also be missing later, for a further version: this changes no state, the version begins when it is loaded.
"""

from __future__ import annotations

from enum import Enum, auto


class LocalJobState(Enum):
    """The states of a job on one agent."""

    UNANNOUNCED = auto()
    ENROLLING = auto()
    LOADING = auto()
    FORWARDING = auto()
    WORKING = auto()
    LEAVING = auto()


class LocalJobEvent(Enum):
    """The events that change the state of a job on one agent."""

    EPOCH_BEGUN = auto()
    CODE_MISSING = auto()
    INSTALLED = auto()
    WORK_BEGUN = auto()
    WORK_ENDED = auto()
    HANDED_IN = auto()


_S, _E = LocalJobState, LocalJobEvent
TRANSITIONS: dict[tuple[LocalJobState, LocalJobEvent], LocalJobState] = {
    (_S.UNANNOUNCED, _E.EPOCH_BEGUN): _S.ENROLLING,
    (_S.UNANNOUNCED, _E.WORK_ENDED): _S.UNANNOUNCED,
    (_S.ENROLLING, _E.EPOCH_BEGUN): _S.ENROLLING,
    (_S.ENROLLING, _E.CODE_MISSING): _S.LOADING,
    (_S.ENROLLING, _E.INSTALLED): _S.FORWARDING,
    (_S.ENROLLING, _E.WORK_ENDED): _S.ENROLLING,
    (_S.LOADING, _E.EPOCH_BEGUN): _S.ENROLLING,
    (_S.LOADING, _E.CODE_MISSING): _S.LOADING,
    (_S.LOADING, _E.INSTALLED): _S.FORWARDING,
    (_S.LOADING, _E.WORK_ENDED): _S.LOADING,
    (_S.FORWARDING, _E.EPOCH_BEGUN): _S.ENROLLING,
    (_S.FORWARDING, _E.CODE_MISSING): _S.FORWARDING,
    (_S.FORWARDING, _E.WORK_BEGUN): _S.WORKING,
    (_S.FORWARDING, _E.WORK_ENDED): _S.FORWARDING,
    (_S.WORKING, _E.EPOCH_BEGUN): _S.ENROLLING,
    (_S.WORKING, _E.CODE_MISSING): _S.WORKING,
    (_S.WORKING, _E.WORK_ENDED): _S.FORWARDING,
    (_S.WORKING, _E.HANDED_IN): _S.LEAVING,
    (_S.LEAVING, _E.EPOCH_BEGUN): _S.ENROLLING,
    (_S.LEAVING, _E.CODE_MISSING): _S.LEAVING,
    (_S.LEAVING, _E.WORK_ENDED): _S.FORWARDING,
}
INSTALLED_STATES = frozenset({_S.FORWARDING, _S.WORKING, _S.LEAVING})
"""The states in which the job's function is known."""


def next_state(state: LocalJobState, event: LocalJobEvent) -> LocalJobState:
    """Looks the transition up; one that is not in the table is a defect of the caller.

    >>> next_state(LocalJobState.FORWARDING, LocalJobEvent.WORK_BEGUN)
    <LocalJobState.WORKING: 5>
    """
    assert (state, event) in TRANSITIONS, f"{event.name} in state {state.name}"
    return TRANSITIONS[state, event]
