"""Who is let in: by a token over HTTPS, by a browser's certificate, and never from another site."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from browser_certificates import BrowserAuthority
from fleet_for_pages import Dashboard, dashboard

import elf
from elf.demo.agents.agents import AgentFleet

pytestmark = [pytest.mark.slow, pytest.mark.dashboard]
SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport="
TOKEN = "0123456789abcdef0123456789abcdef"
UPGRADE = {
    "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
}  # fmt: skip


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> BrowserAuthority:
    return BrowserAuthority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def server(authority: BrowserAuthority) -> list[str]:
    certificate, key = authority.issue("page", is_server=True)
    return ["--certificate", certificate, "--key", key]


@pytest.fixture(scope="module")
def by_certificate(fleet: AgentFleet, authority: BrowserAuthority, server: list[str]) -> Iterator[Dashboard]:
    options = ["--browser-authority", authority.file, *server, "--socket", fleet.socket("agent-1")]
    with dashboard(*options) as running:
        yield running


@pytest.fixture(scope="module")
def by_token(fleet: AgentFleet, server: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    with dashboard("--token-file", file, *server, "--socket", fleet.socket("agent-1")) as running:
        yield running


def client(served: Dashboard, authority: BrowserAuthority, *, shows: tuple[str, str] | None = None) -> httpx.Client:
    """A browser that trusts the page's certificate, and may show one of its own."""
    context = ssl.create_default_context(cafile=str(authority.file))
    if shows is not None:
        context.load_cert_chain(*shows)
    return httpx.Client(base_url=served.link, verify=context)


def test_a_certificate_of_the_authority_opens_the_page_and_no_other_does(
    by_certificate: Dashboard, authority: BrowserAuthority, tmp_path: Path
) -> None:
    assert by_certificate.link.startswith("https://127.0.0.1:")
    assert "token" not in by_certificate.link
    with client(by_certificate, authority, shows=authority.issue("ann")) as known:
        assert known.get("/").status_code == 200
        assert known.get("/", headers=UPGRADE | {"origin": "https://127.0.0.1:1"}).status_code == 403
        assert known.get(SOCKET + "polling", headers={"origin": "https://elsewhere.example"}).status_code in (200, 400)
        assert known.post(SOCKET + "polling", headers={"origin": "https://elsewhere.example"}).status_code == 403
    foreign = BrowserAuthority(tmp_path, "authority").issue("eve")
    for shown in (None, foreign, authority.issue("other-page", is_server=True)):
        with client(by_certificate, authority, shows=shown) as stranger, pytest.raises(httpx.TransportError):
            stranger.get("/")


def test_the_token_of_the_file_opens_the_page_and_no_other_does(
    by_token: Dashboard, authority: BrowserAuthority
) -> None:
    assert "token" not in by_token.link, "it is not printed"
    with client(by_token, authority) as stranger:
        assert stranger.get("/").headers["location"] == "/login"
        for wrong in ("guessed", TOKEN[:-1], f"{TOKEN}0", "\x00", "ü" * 20, "a" * 100_000):
            refused = stranger.post("/login", data={"token": wrong})
            assert refused.status_code in (200, 401)
            assert "set-cookie" not in refused.headers
        assert stranger.get("/").status_code == 303
        assert stranger.get(SOCKET + "websocket", headers=UPGRADE).status_code == 403, "a WebSocket without the cookie"
        forged = UPGRADE | {"cookie": "elf-dashboard=AAAA"}
        assert stranger.get(SOCKET + "websocket", headers=forged).status_code == 403
    with client(by_token, authority) as user:
        answer = user.post("/login", data={"token": TOKEN})
        assert answer.status_code == 303
        flags = {part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]}
        assert {"httponly", "secure", "samesite=strict"} <= flags
        assert TOKEN not in answer.headers["set-cookie"]
        assert user.get("/").status_code == 200
        foreign = UPGRADE | {"origin": "https://elsewhere.example"}
        assert user.get(SOCKET + "websocket", headers=foreign).status_code == 403, "with the cookie, from elsewhere"


def test_nothing_runs_by_address_alone(by_token: Dashboard, authority: BrowserAuthority, fleet: AgentFleet) -> None:
    with client(by_token, authority) as user:
        user.post("/login", data={"token": TOKEN})
        for path in (
            "/?query=SELECT+COUNT(*)+FROM+web",
            "/query?text=SELECT+1",
            "/stop?app=x",
            "/docs",
            "/openapi.json",
        ):
            assert user.get(path).status_code in (200, 404)
        assert user.post("/", data={"query": "SELECT COUNT(*) FROM web"}).status_code in (404, 405)
    with elf.connect_sync(fleet.socket("agent-1")) as asked:
        assert asked.jobs() == []
