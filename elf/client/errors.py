"""What can go wrong between a client and its agent; every message is for people and says what to do next."""

from __future__ import annotations

from agent.control.messages import Refused
from elf.errors import ElfError, UsageError


class ClientError(ElfError):
    """Asking an agent did not work."""


class AgentUnreachableError(ClientError):
    """Nobody answers at the control socket: it is not there, not permitted, or its agent has ended."""


class ConnectionLostError(ClientError):
    """The agent closed the connection before it had said everything."""


class AnswerTimeoutError(ClientError, TimeoutError):
    """The agent did not answer a request in time."""


class ControlProtocolError(ClientError):
    """What answers at the control socket does not speak as an agent does."""


class RefusedError(ClientError):
    """The agent cannot carry out the request, e.g. since it has not joined its fleet yet."""


class QueryRefusedError(RefusedError, UsageError):
    """The request can never be carried out as it was written; the text names the place in a query."""


class OwnedJobError(QueryRefusedError):
    """Only the job's creator may ask for that."""


class UnknownJobError(RefusedError):
    """The fleet runs no job of that name, as far as the agent has heard."""


class JobEndedError(ClientError):
    """The job ended before its client was done: `reason` is "stopped", "nobody" (has its stream), "lost" or "failed",
    in which case `failure` tells why it could not go on.
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
    }
    return kinds.get(refused.kind, RefusedError)(refused.message)
