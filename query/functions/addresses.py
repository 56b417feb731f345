"""Functions of IP addresses: Python reads each distinct address of a frame once. `::ffff:a.b.c.d` is IPv4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import polars as pl

from query.functions.function import Arguments, ConstantError, Function, Scalar
from query.values import Value

ADDRESS_CHARACTERS_MAX = 60
NETWORKS_MAX = 100
BITS_OF_IPV6 = 48


def _address(text: str) -> IPv4Address | IPv6Address | None:
    if len(text) > ADDRESS_CHARACTERS_MAX:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text[:ADDRESS_CHARACTERS_MAX])
    except ValueError as error:
        reason = str(error)[:100]
        raise ConstantError(f"this is no network, as '10.0.0.0/8' or '2001:db8::/32' are: {reason}") from None


def _on_addresses(
    arguments: Arguments, compute: Callable[[IPv4Address | IPv6Address], Scalar], dtype: pl.DataType, kind: str
) -> Value:
    """What Python makes of each distinct address; NULL of what is none."""

    def computed(texts: pl.Series) -> pl.Series:
        distinct = texts.unique().drop_nulls()
        results = [None if (one := _address(text)) is None else compute(one) for text in distinct]
        return texts.replace_strict(distinct, pl.Series(results, dtype=dtype), default=None, return_dtype=dtype)

    expression = arguments.expression(0).map_batches(computed, return_dtype=dtype, is_elementwise=True)
    return arguments.result(expression, kind)


def _is_in(arguments: Arguments) -> Value:
    networks = [_network(arguments.text(place)) for place in range(1, len(arguments))]

    def inside(address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in networks)

    return _on_addresses(arguments, inside, pl.Boolean(), "boolean")


def _version(arguments: Arguments) -> Value:
    return _on_addresses(arguments, lambda address: address.version, pl.Int64(), "integer")


def _truncated(arguments: Arguments) -> Value:
    bits = {4: arguments.number(1, 32), 6: arguments.number(2, BITS_OF_IPV6)}

    def start_of(address: IPv4Address | IPv6Address) -> str:
        size = address.max_prefixlen
        kept = int(address) >> (size - bits[address.version]) << (size - bits[address.version])
        return str(type(address)(kept))

    return _on_addresses(arguments, start_of, pl.String(), "string")


def _check_networks(constants: Sequence[Scalar]) -> None:
    if len(constants) > NETWORKS_MAX:
        raise ConstantError(f"at most {NETWORKS_MAX} networks can be given")
    for network in constants[1:]:
        if isinstance(network, str):
            _network(network)


def _check_bits(constants: Sequence[Scalar]) -> None:
    for bits, most, version in zip(constants[1:], (32, 128), (4, 6), strict=False):
        if isinstance(bits, int) and not 0 <= bits <= most:
            raise ConstantError(f"an IPv{version} address has 0 to {most} bits, not {bits}")


FUNCTIONS = (
    Function(
        "IP_IN", "ip: string, networks!...: string", "boolean", _is_in,
        "whether an address is in one of the networks; NULL if it is no address",
        "IP_IN('10.1.2.3', '10.0.0.0/8', 'fc00::/7')", "true", check=_check_networks,
    ),
    Function(
        "IP_VERSION", "ip: string", "integer", _version,
        "4 or 6, NULL if it is no address", "IP_VERSION('2001:db8::1')", "6",
    ),
    Function(
        "IP_TRUNC", "ip: string, bits!: integer, bits_of_ipv6?!: integer", "string", _truncated,
        "the first address of its network of so many bits, of 48 for IPv6 if it is not said",
        "IP_TRUNC('203.0.113.77', 24)", '"203.0.113.0"', check=_check_bits,
    ),
)  # fmt: skip
