"""Addresses as people write them: `host:port`, `[ipv6]:port`."""

PORT_MAX = 65_535
HOST_CHARACTERS_MAX = 240
UNSPECIFIED_HOSTS = ("0.0.0.0", "::")


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of an address; ValueError says in a few words what is wrong with it.

    Port 0 is valid only for listening: the system then chooses the port.

    >>> parse_address("10.0.0.5:7705"), parse_address("[::1]:7705")
    (('10.0.0.5', 7705), ('::1', 7705))
    """
    shown = repr(text[:60])
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{shown}: an IPv6 address stands in brackets, as in [::1]:7705")
    if not colon or not host:
        raise ValueError(f"{shown} is not host:port")
    if len(host) > HOST_CHARACTERS_MAX or not host.isascii() or not host.isprintable() or " " in host:
        raise ValueError(f"{shown} has no host name or address before the port")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= PORT_MAX):
        raise ValueError(f"{shown}: a port is 0 to {PORT_MAX}, not {port[:20]!r}")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """Return an address as `parse_address` reads it.

    >>> format_address("::1", 7705)
    '[::1]:7705'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_unspecified(host: str) -> bool:
    """Say whether the host stands for every interface: usable for listening, not for dialling.

    >>> is_unspecified("0.0.0.0"), is_unspecified("127.0.0.1")
    (True, False)
    """
    return host in UNSPECIFIED_HOSTS
