"""Functions of IP addresses: IPv4 in Polars, each distinct IPv6 one in Python. `::ffff:a.b.c.d` is IPv4."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network

import polars as pl

from query.functions.function import Arguments, ConstantError, Scalar, ScalarFunction
from query.physical.values import Value

ADDRESS_CHARACTERS_MAX = 60
NETWORKS_MAX = 100
BITS_OF_IPV6 = 48
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"^(?:{_BYTE}\.){{3}}{_BYTE}$"


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text[:ADDRESS_CHARACTERS_MAX])
    except ValueError as error:
        reason = str(error)[:100]
        raise ConstantError(f"this is no network, as '10.0.0.0/8' or '2001:db8::/32' are: {reason}") from None


def _ipv4(arguments: Arguments) -> Value:
    """The number of an IPv4 address, NULL of any other text."""
    text = arguments.bound(0).expression.str.replace("^(?i:::ffff:)", "")
    parts = pl.when(text.str.contains(_IPV4)).then(text).str.split_exact(".", 3).struct
    number = pl.lit(0, dtype=pl.Int64)
    for place in range(4):
        number = number * 256 + parts.field(f"field_{place}").cast(pl.Int64)
    return arguments.bind(arguments.result(number, "integer"))


def _on_ipv6(text: pl.Expr, compute: Callable[[IPv6Address], Scalar], dtype: pl.DataType) -> pl.Expr:
    """The result of a Python function for each distinct IPv6 address; NULL for any other text."""

    def one(text: str) -> Scalar:
        try:
            return compute(IPv6Address(text[:ADDRESS_CHARACTERS_MAX]))
        except ValueError:
            return None

    def computed(texts: pl.Series) -> pl.Series:
        distinct = texts.unique().drop_nulls()
        results = pl.Series([one(text) for text in distinct], dtype=dtype)
        return texts.replace_strict(distinct, results, default=None, return_dtype=dtype)

    candidates = pl.when(text.str.contains(":", literal=True)).then(text)
    return candidates.map_batches(computed, return_dtype=dtype, is_elementwise=True)


def _is_in(arguments: Arguments) -> Value:
    number = _ipv4(arguments)
    networks = [_network(arguments.text(place)) for place in range(1, len(arguments))]
    inside = pl.lit(False)
    for network in networks:
        if isinstance(network, IPv4Network):
            inside |= number.expression.is_between(int(network.network_address), int(network.broadcast_address))
    of_ipv6 = [network for network in networks if isinstance(network, IPv6Network)]
    other = _on_ipv6(
        arguments.expression(0), lambda address: any(address in network for network in of_ipv6), pl.Boolean()
    )
    return Value(pl.when(number.expression.is_not_null()).then(inside).otherwise(other), "boolean", level=number.level)


def _version(arguments: Arguments) -> Value:
    number = _ipv4(arguments)
    other = _on_ipv6(arguments.expression(0), lambda address: address.version, pl.Int64())
    version = pl.when(number.expression.is_not_null()).then(pl.lit(4, dtype=pl.Int64)).otherwise(other)
    return Value(version, "integer", level=number.level)


def _truncated(arguments: Arguments) -> Value:
    number, zeros = _ipv4(arguments), 128 - arguments.number(2, BITS_OF_IPV6)
    start = number.expression - number.expression % 2 ** (32 - arguments.number(1, 32))
    parts = [(start // 256**place % 256).cast(pl.String) for place in (3, 2, 1, 0)]

    def start_of(address: IPv6Address) -> str:
        return str(IPv6Address(int(address) >> zeros << zeros))

    other = _on_ipv6(arguments.expression(0), start_of, pl.String())
    truncated = pl.when(number.expression.is_not_null()).then(pl.concat_str(parts, separator=".")).otherwise(other)
    return Value(truncated, "string", level=number.level)


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
    ScalarFunction(
        "IP_IN", "ip: string, networks!...: string", "boolean", _is_in,
        "whether an address is in one of the networks; NULL if it is no address",
        "IP_IN('10.1.2.3', '10.0.0.0/8', 'fc00::/7')", "true", check=_check_networks,
    ),
    ScalarFunction(
        "IP_VERSION", "ip: string", "integer", _version,
        "4 or 6, NULL if it is no address", "IP_VERSION('2001:db8::1')", "6",
    ),
    ScalarFunction(
        "IP_TRUNC", "ip: string, bits!: integer, bits_of_ipv6?!: integer", "string", _truncated,
        "the first address of its network of that many bits; for IPv6, of 48 unless given",
        "IP_TRUNC('203.0.113.77', 24)", '"203.0.113.0"', check=_check_bits,
    ),
)  # fmt: skip
