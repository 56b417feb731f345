"""Lines in the shapes in which software of many makers writes its logs, with what is odd in them, drawn from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

TEXTS = (
    "", "ok", "connection reset by peer", "of just twelve", "x" * 12, "x" * 13, "Zürich", "日本語", "\U0001f600",
    "a\tb", "\\",
    'say "hi"', "C:\\temp\\x", "</script>", "a/b", "line\nbreak", "\x1b[31mred\x1b[0m",
    "\u2028", "\x7f", "NaN", "null", "-",
    "2026-03-02T12:00:00Z", "1700000000", "{\"inner\":1}", "\0", "e\u0301", "\ufeff",
)  # fmt: skip
NUMBERS = (
    0,
    1,
    -1,
    200,
    404,
    0.0,
    0.003,
    1e-7,
    1.5e300,
    2**31,
    2**53,
    2**53 + 1,
    2**63 - 1,
    2**63,
    10**20,
    -(2**63),
    12.50,
)
LITERALS = ("1E3", "1e+3", "1.0", "-0", "-0.0", "1e400", "0.1234567890123456789", "123456789012345678901", "1.7e9")
"""Numbers as some encoders write them and Python's does not."""
Maker = Callable[[random.Random, int], Any]
"""The event of a number, as an object, or as a line that is no JSON."""


def _iso(chance: random.Random, n: int) -> str:
    second = f"2026-03-02T12:{n // 60 % 60:02}:{n % 60:02}"
    return second + chance.choice(["Z", ".123Z", ".123456Z", ".123456789Z", "+00:00", ".5+0530", "-07:00", ""])


def _any(chance: random.Random) -> Any:
    kind = chance.randrange(8)
    if kind < 3:
        return chance.choice(TEXTS)
    if kind < 5:
        return chance.choice(NUMBERS)
    return [None, True, [1, "a", None] if chance.random() < 0.5 else {"k": chance.choice(TEXTS)}][kind - 5]


def _epoch(n: int) -> int:
    return 1_772_452_800 + n


def nginx(chance: random.Random, n: int) -> str:
    agent = chance.choice(["Mozilla/5.0 (X11; Linux x86_64)", "-", "", "curl/8.5", r"\x22quoted\x22", "Zürich", "a\\"])
    request = chance.choice(
        ["GET /a?b=c HTTP/1.1", "POST / HTTP/2.0", r"\x16\x03\x01", "", "-", "GET /a b HTTP/1.1", "GET /"]
    )
    host = chance.choice(["10.0.0.1", "2001:db8::1", "unix:", "web-1.example.com"])
    user = chance.choice(["-", "-", "-", "frank", "a b"])
    stamp = f"02/Mar/2026:12:{n // 60 % 60:02}:{n % 60:02} +0000"
    size = chance.choice(["0", "2326", "-", "99999999999"])
    line = f'{host} - {user} [{stamp}] "{request}" {chance.choice([200, 304, 499, 502])} {size}'
    return line + chance.choice([f' "-" "{agent}"'] * 4 + [f' "https://ref/" "{agent}" "10.0.0.2" 0.003', "", ' "-"'])


def apache(chance: random.Random, n: int) -> str:
    return nginx(chance, n).replace("\\x22", '\\"')


def haproxy(chance: random.Random, n: int) -> str:
    return (
        f"Mar  2 12:00:{n % 60:02} lb haproxy[14389]: 10.0.1.2:{chance.randrange(65536)} "
        f"[02/Mar/2026:12:00:{n % 60:02}.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "
        '{1wt.eu} {} "GET /index.html HTTP/1.1"'
    )


def iis(chance: random.Random, n: int) -> str:
    if n % 200 == 0:
        return chance.choice(
            ["#Software: Microsoft Internet Information Services 10.0", "#Fields: date time s-ip cs-method"]
        )
    taken = chance.randrange(99)
    return f"2026-03-02 12:00:{n % 60:02} ::1 GET /default.htm - 80 - ::1 Mozilla/5.0+(Windows) - 200 0 0 {taken}"


def caddy(chance: random.Random, n: int) -> Any:
    return {
        "level": "info", "ts": chance.choice([_epoch(n) + 0.6519, float(_epoch(n)), _epoch(n)]),
        "logger": "http.log.access.log0", "msg": "handled request",
        "request": {
            "remote_ip": "127.0.0.1", "remote_port": str(chance.randrange(65536)), "proto": "HTTP/2.0", "method": "GET",
            "host": "localhost", "uri": chance.choice(["/", "/a?b=%20c", "/\u00fc"]),
            "headers": {"User-Agent": [chance.choice(TEXTS)], "Accept": ["*/*"]},
            "tls": {"resumed": False, "version": 772},
        },
        "bytes_read": 0, "duration": chance.choice([0.000929675, 1e-05, 2]), "size": chance.randrange(10**6),
        "status": 200, "resp_headers": {"Server": ["Caddy"], "Content-Length": ["10"]},
    }  # fmt: skip


def traefik(chance: random.Random, n: int) -> Any:
    return {
        "ClientAddr": "10.0.0.1:1", "DownstreamStatus": chance.choice([200, 499]), "Duration": chance.choice(NUMBERS),
        "RequestPath": chance.choice(TEXTS), "StartUTC": _iso(chance, n), "level": "info", "msg": "",
        "time": _iso(chance, n), "request_User-Agent": chance.choice(TEXTS), "RetryAttempts": 0,
    }  # fmt: skip


def docker(chance: random.Random, n: int) -> Any:
    return {"log": chance.choice(TEXTS) + "\n", "stream": chance.choice(["stdout", "stderr"]), "time": _iso(chance, n)}


def journald(chance: random.Random, n: int) -> Any:
    message = chance.choice([*TEXTS, [72, 101, 255, 0], None])
    return {
        "__REALTIME_TIMESTAMP": str(_epoch(n) * 10**6), "__MONOTONIC_TIMESTAMP": "1234", "_BOOT_ID": "a" * 32,
        "PRIORITY": chance.choice(["6", "3"]), "_PID": str(n), "MESSAGE": message, "SYSLOG_IDENTIFIER": "kernel",
        "_CMDLINE": chance.choice(["/usr/bin/x", ["a", "b"]]),
    }  # fmt: skip


def kubernetes(chance: random.Random, n: int) -> Any:
    event = {
        "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "auditID": f"{n:08x}-0000",
        "stage": "ResponseComplete", "requestURI": "/api/v1/pods?limit=500", "verb": chance.choice(["get", "list"]),
        "user": {"username": "system:node", "groups": ["system:nodes", "system:authenticated"], "extra": None},
        "sourceIPs": ["10.0.0.1"], "objectRef": {"resource": "pods", "namespace": chance.choice(TEXTS), "name": None},
        "responseStatus": {"metadata": {}, "code": 200}, "requestReceivedTimestamp": _iso(chance, n),
        "stageTimestamp": _iso(chance, n), "annotations": {"authorization.k8s.io/decision": "allow"},
    }  # fmt: skip
    if chance.random() < 0.1:
        event["responseObject"] = {"items": [{"spec": {"env": [{"name": "A", "value": chance.choice(TEXTS)}]}}] * 30}
    return event


def envoy(chance: random.Random, n: int) -> Any:
    return {
        "start_time": _iso(chance, n), "method": "GET", "path": chance.choice(TEXTS),
        "response_code": chance.choice([200, 0]),
        "bytes_sent": chance.choice([0, 135, None]), "duration": chance.choice([0, 4, None]), "upstream_host": None,
        "authority": "x:443", "user_agent": chance.choice([None, "curl"]),
    }  # fmt: skip


def zap(chance: random.Random, n: int) -> Any:
    return {"level": "warn", "ts": _epoch(n) + n % 1000 / 1000, "caller": "a/b.go:1", "msg": chance.choice(TEXTS),
            "err": _any(chance), "stacktrace": "main.main\n\t/a/b.go:1"}  # fmt: skip


def logrus(chance: random.Random, n: int) -> Any:
    return {
        "level": "info",
        "msg": chance.choice(TEXTS),
        "time": _iso(chance, n),
        "size": _any(chance),
        "fields.level": 1,
    }


def bunyan(chance: random.Random, n: int) -> Any:
    return {"name": "app", "hostname": "h", "pid": n, "level": 30, "msg": chance.choice(TEXTS),
            "time": _iso(chance, n), "v": 0, "req": {"method": "GET", "headers": {"x-y": chance.choice(TEXTS)}},
            "err": _any(chance)}  # fmt: skip


def pino(chance: random.Random, n: int) -> Any:
    return {"level": 30, "time": _epoch(n) * 1000 + n % 1000, "pid": n, "hostname": "h", "msg": chance.choice(TEXTS),
            "res": {"statusCode": _any(chance)}, "responseTime": chance.choice(NUMBERS)}  # fmt: skip


def structlog(chance: random.Random, n: int) -> Any:
    event = {"event": chance.choice(TEXTS), "level": "info", "timestamp": _iso(chance, n)}
    return event | {chance.choice(["user", "n", "a.b", "q", "üñ"]): _any(chance) for _ in range(3)}


MAKERS: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        nginx, apache, haproxy, iis, caddy, traefik, docker, journald, kubernetes, envoy, zap, logrus, bunyan, pino,
        structlog,
    )
}  # fmt: skip


def lines_of(maker: Maker, seed: int, count: int) -> Iterator[bytes]:
    """Lines as a maker writes them, in the manners of several encoders; some of them damaged."""
    chance = random.Random(seed)
    for n in range(count):
        event = maker(chance, n)
        line = event.encode() if isinstance(event, str) else _encoded(chance, event)
        yield _damaged(chance, line).replace(b"\n", b"") + chance.choice([b"\n"] * 9 + [b"\r\n"])


def _encoded(chance: random.Random, event: Any) -> bytes:
    separators = chance.choice([(",", ":"), (",", ":"), (", ", ": "), (" , ", " : ")])
    text = json.dumps(event, ensure_ascii=chance.random() < 0.5, separators=separators)
    if chance.random() < 0.2:
        text = text.replace("<", "\\u003c").replace("/", "\\/")
    if chance.random() < 0.1:
        text = text.replace(separators[1] + "0", separators[1] + chance.choice(LITERALS), 1)
    if chance.random() < 0.05:
        text = text[:-1] + separators[0] + text[1 : text.index(separators[1])] + separators[1] + '"again"}'
    return text.encode("utf-8", "surrogatepass")


def _damaged(chance: random.Random, line: bytes) -> bytes:
    match chance.randrange(60):
        case 0:
            return line[: chance.randrange(len(line) + 1)]
        case 1:
            return b"\xef\xbb\xbf" + line
        case 2:
            return b"\0" * chance.randrange(1, 9) + line
        case 3:
            return line + line
        case 4:
            place = chance.randrange(len(line))
            return line[:place] + bytes([chance.randrange(256)]) + line[place + 1 :]
        case 5:
            return line.replace(b"a", b"\\ud83d", 1)
        case 6:
            return line.replace(b"a", b"\\ud83d\\ude00\\u0000", 1)
        case 7:
            return line.replace(b"e", b"e" * 70_000, 1)
        case 8:
            return chance.choice([b"", b" ", b"\t", b"[]", b"null", b"--- log rotated ---", b"\xff\xfe{\x00"])
        case _:
            return line
