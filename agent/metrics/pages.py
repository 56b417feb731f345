"""Answers requests for the agent's metrics and health: what each path says, and with which status."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from agent.metrics.families import families
from agent.metrics.figures import AgentFigures, AgentHealth

PLAIN_TEXT = "text/plain; charset=utf-8"
KEPT_S = 1.0
"""Time for which the metrics are not made anew, however often they are asked for."""


class Page(NamedTuple):
    """An answer: an HTTP status, the type of its content, and the content."""

    status: int
    content_type: str
    content: bytes


class _Figures(Collector):
    def __init__(self, figures: Callable[[], AgentFigures]) -> None:
        self._figures = figures

    def describe(self) -> list[Metric]:
        """Nothing ahead of time: the registry would else make all metrics once."""
        return []

    def collect(self) -> Iterator[Metric]:
        return families(self._figures())


class Pages:
    """The pages of one agent."""

    def __init__(self, health: AgentHealth) -> None:
        self._health = health
        self._registry = CollectorRegistry()
        self._registry.register(_Figures(health.figures))
        ProcessCollector(registry=self._registry)
        self._metrics = b""
        self._made_at: float | None = None

    def page(self, method: str, target: str, now: float) -> Page:
        """The answer to a request."""
        if method not in ("GET", "HEAD"):
            return _text(405, "only GET and HEAD are answered here")
        match target.partition("?")[0]:
            case "/metrics":
                return Page(200, CONTENT_TYPE_LATEST, self._current(now))
            case "/healthz":
                return _text(200, "ok")
            case "/readyz":
                reason = self._health.unready()
                return _text(200, "ready") if reason is None else _text(503, reason)
            case _:
                return _text(404, "there are /metrics, /healthz and /readyz")

    def _current(self, now: float) -> bytes:
        if self._made_at is None or now - self._made_at >= KEPT_S:
            self._metrics, self._made_at = generate_latest(self._registry), now
        return self._metrics


def _text(status: int, text: str) -> Page:
    return Page(status, PLAIN_TEXT, text.encode() + b"\n")
