"""Errors between a client and its agent; every message is for people and names the next step."""

from __future__ import annotations

from agent.control.messages import Refused
from elf.errors import ElfError, UsageError


class ClientError(ElfError):
    """A request to an agent failed."""


class AgentUnreachableError(ClientError):
    """No agent answers at the control socket: it is missing, not permitted, or its agent has ended."""


class ConnectionLostError(ClientError):
    """The agent closed the connection before it had said everything."""


class AnswerTimeoutError(ClientError, TimeoutError):
    """The agent did not answer a request in time."""


class ControlProtocolError(ClientError):
    """The listener at the control socket does not speak the protocol of agents."""


class RefusedError(ClientError):
    """The agent cannot carry out the request, e.g. because it has not joined its fleet yet."""


class QueryRefusedError(RefusedError, UsageError):
    """A request that can never be carried out as written; the text names the place in a query."""


class OwnedJobError(QueryRefusedError):
    """A request that only the job's creator may make."""


class ForbiddenError(RefusedError):
    """The client lacks a right, which the text names, with who grants it."""


class UnknownJobError(RefusedError):
    """The fleet runs no job of that name, as far as the agent has heard."""


class JobEndedError(ClientError):
    """The job ended before its client was done. `reason` is "stopped", "nobody" (no agent has its stream), "lost" or
    "failed"; in the last case `failure` says why.
    """

    def __init__(self, app: str, reason: str, failure: str = "") -> None:
        self.app = app
        self.reason = reason
        self.failure = failure
        why = {
            "stopped": "was stopped (by elf stop, since nobody followed it, or with the job that it is a stage of)",
            "nobody": "has nobody to run it: no agent has its stream (elf status shows an agent's streams)",
            "lost": "is lost: no agent knows it any more (elf jobs lists what the fleet runs)",
            "failed": f"failed: {failure}",
        }
        super().__init__(f"{app} {why.get(reason, f'ended: {reason}')}")


def refusal(refused: Refused) -> RefusedError:
    """The exception that stands for an agent's refusal."""
    kinds: dict[str, type[RefusedError]] = {
        "usage": QueryRefusedError,
        "unknown": UnknownJobError,
        "owned": OwnedJobError,
        "forbidden": ForbiddenError,
    }
    return kinds.get(refused.kind, RefusedError)(refused.message)
