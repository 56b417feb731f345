"""What any program may do."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from pathlib import Path

from attempts import WIRES, tried

HELD: list[bytes] = []


@tried
def echo(text: str) -> str:
    return text


@tried
def hold(mib: str) -> str:
    """Keeps so much memory for good, all of it in use."""
    HELD.append(b"x" * (int(mib) << 20))
    return mib


@tried
def hold_and_wait(mib: str) -> None:
    hold(mib)
    time.sleep(300)


@tried
def work(seconds: str) -> float:
    """Uses so much CPU time."""
    until = time.process_time() + float(seconds)
    while time.process_time() < until:
        pass
    return time.process_time()


@tried
def double(text: str) -> str:
    """Asks the agent in the middle of a call, and says what it answers."""
    WIRES[0].write(b"how many?")
    return text * int(WIRES[0].read())


@tried
def use(module: str) -> object:
    return importlib.import_module(module).__name__


@tried
def compute() -> object:
    import collections
    import dataclasses
    import datetime
    import decimal
    import hashlib
    import json
    import random
    import re
    import statistics
    import zlib
    import zoneinfo

    import msgspec

    @dataclasses.dataclass
    class Point:
        x: decimal.Decimal

    assert json.loads(json.dumps({"a": [1]})) == {"a": [1]} == msgspec.json.decode(b'{"a":[1]}')
    assert re.sub("b+", "c", "abba") == "aca"
    assert random.random() != random.random()
    assert os.urandom(8) != os.urandom(8)
    assert datetime.datetime.now().astimezone().utcoffset() == datetime.timedelta(0)
    assert zoneinfo.ZoneInfo("Europe/Vienna").key == "Europe/Vienna"
    assert Point(decimal.Decimal("1.10") + 1).x == decimal.Decimal("2.10")
    assert collections.Counter("aab").most_common(1) == [("a", 2)]
    assert statistics.stdev([1, 2, 3]) == 1
    assert hashlib.sha256(b"").hexdigest().startswith("e3b0c442")
    assert zlib.decompress(zlib.compress(b"x" * 1000)) == b"x" * 1000
    time.sleep(0.001)
    print("printed")
    return "computed"


@tried
def environment() -> object:
    return sorted(os.environ)


@tried
def descriptors() -> object:
    found = []
    for number in range(256):
        with contextlib.suppress(OSError):
            os.fstat(number)
            found.append(number)
    return found


@tried
def modules() -> object:
    return " ".join(sorted(sys.modules))


@tried
def pid() -> object:
    return os.getpid()


@tried
def where() -> object:
    return str(Path.cwd()), sys.flags.isolated, sys.dont_write_bytecode, sys.stdin.read()
