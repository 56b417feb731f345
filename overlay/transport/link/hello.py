"""The first frame each way: the sender's identity, checked against its certificate."""

from typing import Annotated

import msgspec

from overlay.transport.identity.claims import Claims
from overlay.transport.link.refusals import LinkError
from overlay.wire.addresses import parse_address
from overlay.wire.codec import Codec
from overlay.wire.ids import Id
from overlay.wire.peer import Peer


class Hello(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """An agent's statement about itself."""

    node_id: Id
    address: Annotated[str, msgspec.Meta(min_length=3, max_length=255)]
    """Address at which the sender is dialled."""
    incarnation: Annotated[int, msgspec.Meta(ge=0)]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


HELLO_CODEC: Codec[Hello] = Codec(Hello)


def checked_peer(hello: Hello, claims: Claims) -> Peer:
    """Return the peer that a hello names; LinkError when the certificate differs."""
    if hello.node_id != claims.node_id or hello.name != claims.name:
        raise LinkError("hello and certificate differ", f"{hello.name!r} with the certificate of {claims.name!r}")
    try:
        parse_address(hello.address)
        return Peer(hello.node_id, hello.address)
    except ValueError as error:
        raise LinkError("no hello", str(error)) from error
