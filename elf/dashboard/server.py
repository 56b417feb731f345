"""Serves the page: the toolkit in a web server, behind the admission, on a socket that is already bound."""

from __future__ import annotations

import logging
import socket
from importlib.resources import files

import uvicorn
from fastapi import FastAPI
from nicegui import Client, ui
from nicegui import app as toolkit
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from agent.open_files import allow_open_files
from elf.client.sync_client import SyncClient
from elf.dashboard.admission import PageAdmission
from elf.dashboard.connection import BoundedConnection
from elf.dashboard.fleet_watch import FleetWatch
from elf.dashboard.listening import Listening
from elf.dashboard.page import DashboardPage
from elf.dashboard.query_completion import QueryCompletion
from elf.dashboard.reports import ReportFolder
from elf.dashboard.sections.reports import PATH
from elf.options.fleet import COMPLETION_TIMEOUT_S
from elf.shell.knowledge import Vocabulary
from elf.statements.fleet_backend import FleetBackend, QueryOptions

PAGES_MAX = 32
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'self'"
"""A report is a page by itself, in which nothing runs."""
DESCRIPTORS = 4096
"""Open files that are asked of the system: connections that have not come as far as to be counted need some."""
MESSAGE_BYTES_MAX = 1 << 20
"""Upper bound on what a page may say at once."""
RECONNECTION_S = 20.0
"""Time for which a page whose connection is lost keeps its place, and its query."""
MESSAGES_KEPT = 50
KEPT_ALIVE_S = 15
ENDING_S = 2


def serve(client: SyncClient, place: Listening, bound: socket.socket, reports: ReportFolder | None) -> None:
    """Serves until a signal ends it."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    watch = FleetWatch(client)
    brief = SyncClient(client.agent, COMPLETION_TIMEOUT_S)
    completion = QueryCompletion(FleetBackend(brief, None, QueryOptions()), Vocabulary())
    style = files("elf.dashboard").joinpath("dashboard.css").read_text()

    @ui.page("/", title="ELF dashboard")
    def page() -> None:
        ui.add_css(style)
        if len(Client.instances) > PAGES_MAX:
            ui.label(f"{PAGES_MAX} pages are open, and no more are served: close one, and load this page again.")
            return
        DashboardPage(client, watch, completion, reports)

    if reports is not None:
        app.add_api_route(f"{PATH}{{name}}", lambda name: _report(reports, name), methods=["GET"])
    toolkit.config.quasar_config["loadingBar"]["skipHijack"] = True  # a bar without a name, at each request
    ui.run_with(
        app, dark=None, tailwind=False, language="en-US", reconnect_timeout=RECONNECTION_S,
        message_history_length=MESSAGES_KEPT, show_welcome_message=False,
    )  # fmt: skip
    allow_open_files(DESCRIPTORS)
    logging.getLogger("nicegui").setLevel(logging.ERROR)
    server = uvicorn.Server(_config(PageAdmission(app, place.token, is_https=place.certificate is not None), place))
    server.run(sockets=[bound])


def _report(reports: ReportFolder, name: str) -> Response:
    data = reports.read(name)
    if data is None:
        return PlainTextResponse("there is no such report", 404)
    return HTMLResponse(data, headers={"Content-Security-Policy": REPORT_POLICY})


def _config(app: PageAdmission, place: Listening) -> uvicorn.Config:
    import ssl

    return uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        http=BoundedConnection,
        ws_max_size=MESSAGE_BYTES_MAX,
        timeout_keep_alive=KEPT_ALIVE_S,
        timeout_graceful_shutdown=ENDING_S,
        proxy_headers=False,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
        ssl_ca_certs=None if place.browsers is None else str(place.browsers),
        ssl_cert_reqs=ssl.CERT_NONE if place.browsers is None else ssl.CERT_REQUIRED,
    )
