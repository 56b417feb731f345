"""Remembers the last signature of jobs that their creators have stopped: nobody starts what was signed before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from agent.runtime.fleet.authorization import NotAuthorizedError
from agent.runtime.model.bundle import Signature
from agent.runtime.model.fields import Count
from overlay import Id, format_id

MARKS_MAX = 4096
"""Upper bound on remembered jobs; past it the one stopped first is forgotten."""
MARKS_BYTES_MAX = 64 * MARKS_MAX
"""Upper bound on the encoded marks."""


class _Mark(msgspec.Struct, frozen=True, array_like=True):
    app: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]
    expires_ms: Count
    counter: Count


class EndedMandates:
    """Marks of stopped jobs, the last one at the end. A mark lasts as long as what it refuses could be valid.

    `save` gets the encoded marks after each change, to be read by `load` at the next start.
    """

    def __init__(self) -> None:
        self.save: Callable[[bytes], object] = lambda _marks: None
        self._marks: dict[str, _Mark] = {}

    def load(self, encoded: bytes) -> bool:
        """Takes the marks of an earlier start; False if they are damaged."""
        try:
            marks = msgspec.msgpack.decode(encoded, type=list[_Mark]) if encoded else []
        except msgspec.MsgspecError:
            return False
        self._marks = {mark.app: mark for mark in marks[-MARKS_MAX:]}
        return True

    def note(self, app_id: Id, seal: Signature, wall_ms: int) -> None:
        """Notes that a job is stopped; `seal` is the last signature that it ran under."""
        app = format_id(app_id)
        last = self._marks.pop(app, None)
        mark = _Mark(app, seal.expires_ms, seal.counter)
        if last is not None and (last.expires_ms, last.counter) > (mark.expires_ms, mark.counter):
            mark = last
        valid = {key: one for key, one in self._marks.items() if one.expires_ms >= wall_ms}
        self._marks = dict([*valid.items(), (app, mark)][-MARKS_MAX:])
        if mark != last:
            self.save(msgspec.msgpack.encode(list(self._marks.values())))

    def check(self, app_id: Id, seal: Signature) -> None:
        """Raises NotAuthorizedError for what was signed before the job was stopped."""
        mark = self._marks.get(format_id(app_id))
        if mark is not None and (seal.expires_ms, seal.counter) <= (mark.expires_ms, mark.counter):
            raise NotAuthorizedError("its creator has stopped the job since this was signed: it has to be signed anew")
