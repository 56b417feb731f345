"""Bundles what the creator of a job has signed: the queries its master may choose from, and its Python code."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec

from agent.runtime.model.fields import Count, Name, Text
from agent.runtime.model.mandate import Mandate, mandate_digest
from overlay import Id

SOURCE_BYTES_MAX = 128 << 10
FUNCTIONS_MAX = 32


class Function(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A query under the name by which the master chooses it, with its `text` as people read it."""

    name: Name
    plan: dict[str, Any]
    text: Text


class Contents(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The functions, of which the job begins with the first. `source`: its code, b"" for none.

    `drives`: its batches are cut by the code, not by the clock. `part_of`: the job that it is a stage of, "" for none.
    """

    functions: Annotated[list[Function], msgspec.Meta(min_length=1, max_length=FUNCTIONS_MAX)]
    source: Annotated[bytes, msgspec.Meta(max_length=SOURCE_BYTES_MAX)] = b""
    drives: bool = False
    part_of: Annotated[str, msgspec.Meta(max_length=255)] = ""

    def digest(self) -> bytes:
        """The digest that a creator signs: SHA-256 over the encoded contents, keys of plans in order."""
        return hashlib.sha256(msgspec.msgpack.encode(self, order="sorted")).digest()

    def function(self, name: str) -> Function | None:
        """The function of that name."""
        return next((function for function in self.functions if function.name == name), None)

    def has(self, plan: dict[str, Any], text: str) -> bool:
        """Whether a function computes this."""
        return any((function.plan, function.text) == (plan, text) for function in self.functions)


class Signature(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A creator's certificate (DER), and their signature of a mandate with these fields."""

    certificate: Annotated[bytes, msgspec.Meta(min_length=1, max_length=4096)]
    counter: Count
    predecessor: Annotated[bytes, msgspec.Meta(max_length=32)]
    expires_ms: Count
    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]


class Bundle(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Contents and their creator's signature."""

    contents: Contents
    seal: Signature

    @property
    def source(self) -> bytes:
        return self.contents.source

    def digest(self, app_id: Id) -> bytes:
        """The digest by which the next bundle of the job names this one."""
        seal = self.seal
        return mandate_digest(Mandate(app_id, seal.counter, seal.predecessor, seal.expires_ms, self.contents.digest()))

    def follows(self, before: Bundle, app_id: Id) -> bool:
        """Whether it is the bundle that the creator has signed next, or the same."""
        if self == before:
            return True
        return (self.seal.counter, self.seal.predecessor) == (before.seal.counter + 1, before.digest(app_id))
