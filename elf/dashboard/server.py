"""Serves the page: the toolkit in a web server, behind the admission, on a socket that is already bound."""

from __future__ import annotations

import logging
import socket
from importlib.resources import files

import uvicorn
from fastapi import FastAPI
from nicegui import Client, ui

from elf.client.sync_client import SyncClient
from elf.dashboard.admission import PageAdmission
from elf.dashboard.fleet_watch import FleetWatch
from elf.dashboard.listening import Listening
from elf.dashboard.page import DashboardPage

PAGES_MAX = 32
CONNECTIONS_MAX = 200
RECONNECTION_S = 20.0
"""Time for which a page whose connection is lost keeps its place, and its query."""
MESSAGES_KEPT = 50
KEPT_ALIVE_S = 15
ENDING_S = 2


def serve(client: SyncClient, place: Listening, bound: socket.socket) -> None:
    """Serves until a signal ends it."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    watch = FleetWatch(client)
    style = files("elf.dashboard").joinpath("dashboard.css").read_text()

    @ui.page("/", title="ELF dashboard")
    def page() -> None:
        ui.add_css(style)
        if len(Client.instances) > PAGES_MAX:
            ui.label(f"{PAGES_MAX} pages are open, and no more are served: close one, and load this page again.")
            return
        DashboardPage(client, watch)

    ui.run_with(
        app, dark=None, tailwind=False, language="en-US", reconnect_timeout=RECONNECTION_S,
        message_history_length=MESSAGES_KEPT, show_welcome_message=False,
    )  # fmt: skip
    logging.getLogger("nicegui").setLevel(logging.ERROR)
    server = uvicorn.Server(_config(PageAdmission(app, place.token, is_https=place.certificate is not None), place))
    server.run(sockets=[bound])


def _config(app: PageAdmission, place: Listening) -> uvicorn.Config:
    import ssl

    return uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEPT_ALIVE_S,
        timeout_graceful_shutdown=ENDING_S,
        proxy_headers=False,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
        ssl_ca_certs=None if place.browsers is None else str(place.browsers),
        ssl_cert_reqs=ssl.CERT_NONE if place.browsers is None else ssl.CERT_REQUIRED,
    )
