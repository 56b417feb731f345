"""Seeds by name, record and file: what they stand for, and what is said of those that stand for nothing."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import dns.message
import dns.resolver
import dns.rrset
import pytest
import trio
from pumped_fleet import MemoryFleet

from agent.daemon.seeds import Seeds
from agent.seeding.seed_addresses import ADDRESSES_MAX, find_seeds


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A name server on a loopback port that knows one SRV record."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def serve() -> None:
            while (asked := server.recvfrom(4096))[0] != b"end":
                query = dns.message.from_wire(asked[0])
                answer = dns.message.make_response(query)
                name = query.question[0].name
                if name.to_text() == "_elf._tcp.example.com.":
                    records = ("20 1 7700 c.example.com.", "10 1 7701 a.example.com.", "10 9 7700 b.example.com.")
                    answer.answer.append(dns.rrset.from_text(name, 60, "IN", "SRV", *records))
                else:
                    answer.set_rcode(3)
                server.sendto(answer.to_wire(), asked[1])

        thread = threading.Thread(target=serve)
        thread.start()
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers, resolver.port = ["127.0.0.1"], server.getsockname()[1]
        monkeypatch.setattr(dns.resolver, "default_resolver", resolver)
        yield
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.sendto(b"end", server.getsockname())
        thread.join()


def test_addresses_stand_for_themselves() -> None:
    assert find_seeds(["10.0.0.1:7700", "web-1:7700", "10.0.0.1:7700"]).addresses == ("10.0.0.1:7700", "web-1:7700")


def test_a_name_stands_for_all_its_addresses() -> None:
    assert "127.0.0.1:7700" in find_seeds(["dns:localhost:7700"]).addresses
    assert list(find_seeds(["dns:no-such-host.invalid:7700"]).faults) == ["dns:no-such-host.invalid:7700"]


@pytest.mark.usefixtures("name_server")
def test_a_record_stands_for_its_targets_in_their_order() -> None:
    found = find_seeds(["srv:_elf._tcp.example.com", "srv:_elf._tcp.example.org"])
    assert found.addresses == ("b.example.com:7700", "a.example.com:7701", "c.example.com:7700")
    assert "the record is not found" in found.faults["srv:_elf._tcp.example.org"]


def test_a_file_has_an_address_a_line(tmp_path: Path) -> None:
    file = tmp_path / "seeds"
    entry = f"file:{file}"
    assert find_seeds([entry]).faults == {entry: "no such file or directory"}
    file.write_text("# two of three\n10.0.0.1:7700\n\n  10.0.0.2:07700  # the second\n")
    assert find_seeds([entry, "a:1"]).addresses == ("10.0.0.1:7700", "10.0.0.2:7700", "a:1")
    file.write_text("10.0.0.1:7700\nnonsense\n")
    assert find_seeds([entry]).faults == {entry: "line 2: 'nonsense' is not host:port"}
    file.write_bytes(b"\xff" * 100_000)
    assert find_seeds([entry]).faults == {entry: "is larger than 65,536 bytes"}
    file.write_text("".join(f"10.0.{n // 250}.{n % 250}:7700\n" for n in range(2000)))
    assert len(find_seeds([entry]).addresses) == ADDRESSES_MAX


@pytest.mark.trio
async def test_an_agent_waits_for_a_list_of_seeds_that_is_not_there_yet(tmp_path: Path) -> None:
    file = tmp_path / "seeds"
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        first, second = fleet.add("a:1"), fleet.add("b:1")
        nursery.start_soon(Seeds(["a:1"], first, fleet.identify, random.Random(1)).run)
        with trio.fail_after(5):
            await first.until(lambda: first.node.is_active)
        nursery.start_soon(Seeds([f"file:{file}"], second, fleet.identify, random.Random(1)).run)
        with trio.move_on_after(0.5):
            await second.until(lambda: second.node.is_active)
        assert not second.node.is_active, "it does not begin a fleet of its own"
        file.write_text("a:1\nb:1\n")
        with trio.fail_after(10):
            await second.until(lambda: second.node.is_active)
        assert len(second.node.leaf_set.members) == 1
        nursery.cancel_scope.cancel()


@pytest.mark.trio
async def test_the_only_agent_in_its_list_is_the_first(tmp_path: Path) -> None:
    file = tmp_path / "seeds"
    file.write_text("a:1\n")
    async with trio.open_nursery() as nursery:
        fleet = MemoryFleet(nursery)
        first = fleet.add("a:1")
        nursery.start_soon(Seeds([f"file:{file}"], first, fleet.identify, random.Random(1)).run)
        with trio.fail_after(1):
            await first.until(lambda: first.node.is_active)
        nursery.cancel_scope.cancel()
