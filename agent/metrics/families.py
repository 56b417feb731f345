"""Names the agent's numbers as Prometheus does: base units, `_total` for counters, a bounded number of labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from agent.log import printable
from agent.metrics.figures import AgentFigures
from agent.runtime.model.meters import DELAY_BOUNDS_S, DelayHistogram
from overlay import format_id

KINDS = ("join", "detector", "repair", "tree", "route", "multicast", "direct")
"""Kinds of messages between agents, by purpose."""
ONCE = "once for each job that reads it"


class _Named(NamedTuple):
    """A metric that is one counter of a part. The name of one that only grows ends with `_total`."""

    name: str
    part: str
    counter: str
    help: str


PLAIN = (
    _Named("elf_received_bytes_total", "node", "received_bytes", "Bytes of messages received from other agents."),
    _Named("elf_received_messages_total", "node", "received", "Messages received from other agents."),
    _Named("elf_refused_messages_total", "agent", "refused", "Messages unreadable, unexpected or from a wrong sender."),
    _Named("elf_routed_messages_total", "node", "routed", "Messages of others forwarded towards their key."),
    _Named("elf_suspicions_total", "node", "suspected", "Times this agent suspected a peer."),
    _Named("elf_refutations_total", "node", "refuted", "Times this agent heard that it is suspected."),
    _Named("elf_failed_peers_total", "node", "failed", "Times a peer was considered failed."),
    _Named("elf_returned_peers_total", "node", "returned", "Times a failed or departed peer was heard from again."),
    _Named("elf_cbt_spilled_files_total", "spill", "files", "Pieces of open panes written to disk."),
    _Named("elf_cbt_spilled_bytes_total", "spill", "taken_bytes", "Bytes of open panes written to disk."),
    _Named("elf_cbt_disk_bytes", "spill", "disk_bytes", "Bytes of open panes that are on disk now."),
    _Named("elf_cbt_unwritten_total", "spill", "unwritten", "Failures to write open panes: they stay in memory."),
    _Named("elf_cbt_unread_total", "spill", "unread", "Failures to read open panes back: groups are lost."),
    _Named("elf_sealed_disk_bytes", "sealed", "disk_bytes", "Bytes of sealed panes that are on disk now."),
    _Named("elf_sealed_written_bytes_total", "sealed", "written_bytes", "Bytes of sealed panes written to disk."),
    _Named("elf_sealed_frames", "ingest", "frames", "Frames of sealed panes that are kept for masters."),
    _Named("elf_ahead_events_total", "ingest", "ahead", "Events ahead of the clock by more than max_skew."),
    _Named("elf_clock_steps_total", "ingest", "clock_steps", "Steps of the wall clock."),
    _Named("elf_element_nodes", "keyed", "hosted", "Logical nodes of keyed jobs that are hosted here."),
    _Named("elf_elements", "keyed", "elements", "Processing elements of keyed jobs here."),
    _Named("elf_element_events_total", "keyed", "events", "Events that processing elements here have processed."),
    _Named("elf_element_emitted_total", "keyed", "emitted", "Events that processing elements here have emitted."),
    _Named("elf_elements_evicted_total", "keyed", "evicted", "Elements removed for memory or by their time to live."),
    _Named("elf_element_failed_total", "keyed", "failed", "Calls of elements' code that have raised."),
    _Named(
        "elf_element_events_missed_total", "keyed", "missed", "Events that were late for elements, or lost on the way."
    ),
    _Named("elf_element_events_shed_total", "keyed", "shed", "Events left out at the entry of keyed jobs."),
    _Named("elf_element_nodes_lost_total", "keyed", "lost", "Logical nodes begun anew here without their state."),
    _Named(
        "elf_element_nodes_under_replicated",
        "keyed",
        "under_replicated",
        "Logical nodes whose standbys do not all hold their state, or that have no host.",
    ),
    _Named("elf_element_null_keys_total", "keyed", "null_keys", "Events that no element gets: NULL in the key."),
    _Named("elf_element_events_resent_total", "keyed", "resent", "Events sent again, as their hosts had changed."),
    _Named("elf_element_events_unacknowledged", "keyed", "unacknowledged", "Events sent or waiting, not safe yet."),
    _Named("elf_element_keys_hot", "keyed", "hot_keys", "Keys that are hot here, as this agent sends events."),
    _Named("elf_element_keys_split", "keyed", "split_keys", "Keys that go to more than one worker from here."),
    _Named("elf_programs", "programs", "running", "Programs of jobs that run now."),
    _Named("elf_program_starts_total", "programs", "started", "Programs of jobs started."),
    _Named("elf_program_failures_total", "programs", "failed", "Programs of jobs that ended unasked."),
    _Named("elf_archiver_restarts_total", "archive", "restarts", "Times the archiver was started anew."),
    _Named("elf_control_connections_total", "control", "connections", "Connections of clients."),
    _Named("elf_control_refused_total", "control", "refused", "Requests of clients that were refused."),
    _Named("elf_control_dropped_total", "control", "dropped", "Clients dropped because they did not read."),
    _Named("elf_metrics_requests_total", "metrics", "requests", "Requests for metrics and health."),
    _Named("elf_metrics_refused_total", "metrics", "refused", "Such requests and connections that were refused."),
)


class _OfStream(NamedTuple):
    """A metric of each stream: a number of its statistics. The name of one that only grows ends with `_total`."""

    name: str
    attribute: str
    help: str


STREAM = (
    _OfStream("elf_stream_events_total", "events", "Events read of a stream."),
    _OfStream("elf_stream_malformed_lines_total", "malformed", "Lines of a stream that are no event."),
    _OfStream("elf_stream_read_bytes_total", "bytes_read", "Bytes read of a stream."),
    _OfStream("elf_stream_files", "files", "Files of a stream that are read now."),
    _OfStream("elf_stream_unreadable_files", "unreadable", "Files of a stream that cannot be read."),
    _OfStream("elf_stream_at_end", "at_end", "1 where all lines of a stream are read."),
)
ARCHIVED = (
    _OfStream("elf_archive_lag_bytes", "lag_bytes", "Bytes of lines that are not archived yet."),
    _OfStream("elf_archive_bytes", "bytes", "Bytes of the archive."),
    _OfStream("elf_archive_dropped_rows_total", "dropped_rows", "Lines deleted before they were archived."),
    _OfStream("elf_archive_gaps_total", "gaps", "Losses of an unknown number of lines."),
)


def families(figures: AgentFigures) -> Iterator[Metric]:
    """All metrics of an agent. O(streams + jobs whose lag is told)."""
    yield from _agent(figures)
    yield from map(_plain, PLAIN, (figures.parts,) * len(PLAIN))
    yield from _streams(figures)
    yield from _jobs(figures)
    yield from _traffic(figures)
    yield from _archive(figures)


def _agent(figures: AgentFigures) -> Iterator[Metric]:
    about = GaugeMetricFamily("elf_agent_info", "The agent, its fleet and its version; always 1.",
                              labels=("agent", "fleet", "version"))  # fmt: skip
    about.add_metric((figures.agent, figures.fleet, figures.version), 1)
    yield about
    yield _gauge("elf_agent_active", "1 while the agent is a member of its fleet.", figures.is_active)
    yield _gauge("elf_agent_draining", "1 while the agent hands over to leave.", figures.is_leaving)
    yield _gauge("elf_peers", "Agents that this one knows by address.", figures.peers)
    yield _gauge("elf_leaf_set_peers", "Agents in the leaf set.", figures.leaf_set)
    expires = figures.certificate_expires.timestamp()
    yield _gauge("elf_certificate_expiry_timestamp_seconds", "When the agent's certificate expires.", expires)
    yield _gauge("elf_cbt_memory_bytes", "Memory of the trees of open panes.", figures.cbt_bytes)
    yield _gauge("elf_operators", "Trees that jobs share or have alone.", figures.operators)


def _plain(named: _Named, parts: Mapping[str, Mapping[str, float]]) -> Metric:
    value = parts[named.part].get(named.counter, 0)  # of elements only while there is a job that has them
    return (_counter if named.name.endswith("_total") else _gauge)(named.name, named.help, value)


def _streams(figures: AgentFigures) -> Iterator[Metric]:
    streams = [(printable(name), one) for name, one in figures.streams.items()]
    yield from _each(STREAM, streams)
    lost = CounterMetricFamily("elf_stream_lost_files_total", "Files of a stream that were truncated, broken, "
                               "gone before their end, or missed.", labels=("stream", "reason"))  # fmt: skip
    for name, one in streams:
        for reason in ("truncated", "broken", "gone", "missed"):
            lost.add_metric((name, reason), getattr(one, reason))
    yield lost


def _jobs(figures: AgentFigures) -> Iterator[Metric]:
    jobs, sealed = figures.jobs, figures.meter.sealed
    states = GaugeMetricFamily("elf_jobs", "Jobs on this agent, by their state here.", labels=("state",))
    for state, count in jobs.states.items():
        states.add_metric((state,), count)
    yield states
    yield _gauge("elf_job_masters", "Jobs whose master is on this agent.", figures.masters)
    yield _gauge("elf_fleet_jobs", "Jobs of the fleet that this agent knows.", figures.fleet_jobs)
    yield _gauge("elf_followed_jobs", "Jobs that clients of this agent follow.", figures.followed_jobs)
    yield _counter("elf_job_events_total", f"Events in sealed panes, {ONCE}.", sealed.events)
    yield _counter("elf_job_matched_events_total", f"Of these, events that WHERE lets pass, {ONCE}.", sealed.matched)
    yield _counter("elf_job_late_events_total", f"Events too late for their pane, {ONCE}.", sealed.late)
    yield _counter("elf_job_malformed_lines_total", f"Malformed lines, {ONCE}.", sealed.malformed)
    yield _counter("elf_job_coerced_values_total", f"Values that became NULL for their type, {ONCE}.", sealed.coerced)
    yield _counter("elf_job_dropped_events_total", f"Events dropped, {ONCE}.", sealed.dropped)
    yield _counter("elf_sealed_runs_total", "Runs of panes sealed, of all jobs.", figures.meter.runs)
    yield _counter("elf_published_windows_total", "Windows published by masters here.", figures.meter.windows)
    yield _histogram("elf_seal_delay_seconds", "Time from the end of a pane until it is sealed, grace included.",
                     figures.meter.seal_delays)  # fmt: skip
    yield _histogram("elf_publish_delay_seconds", "Time from the end of the last pane of windows until a master here "
                     "publishes them.", figures.meter.publish_delays)  # fmt: skip
    most = max((lag.seconds for lag in jobs.lags), default=0.0)
    yield _gauge("elf_pane_lag_max_seconds", "The longest of elf_pane_lag_seconds; 0 without a job.", most)
    lags = GaugeMetricFamily("elf_pane_lag_seconds", "Time since the end of the last published pane of a live job; "
                             "of the jobs that lag most.", labels=("app", "app_id"))  # fmt: skip
    for lag in jobs.lags:
        lags.add_metric((printable(lag.name), format_id(lag.app_id)), lag.seconds)
    yield lags
    yield _gauge("elf_tree_children", "Children in the trees of all jobs together.", jobs.children)
    yield _gauge("elf_tree_children_max", "Children in the tree of a job with the most.", jobs.children_most)
    yield _gauge("elf_tree_depth", "Edges up to the master that is farthest away.", jobs.depth)


def _traffic(figures: AgentFigures) -> Iterator[Metric]:
    node, transport = figures.parts.get("node", {}), figures.transport
    for what, suffix in (("Bytes", "_bytes"), ("Messages", "")):
        sent = CounterMetricFamily(f"elf_sent_{what.lower()}", f"{what} sent to other agents, by purpose.",
                                   labels=("kind",))  # fmt: skip
        for kind in KINDS:
            sent.add_metric((kind,), node.get(f"sent_{kind}{suffix}", 0))
        yield sent
    frames = CounterMetricFamily("elf_link_bytes", "Bytes of frames on links, without TLS.", labels=("direction",))
    frames.add_metric(("in",), transport.bytes_in)
    frames.add_metric(("out",), transport.bytes_out)
    yield frames
    yield _gauge("elf_links", "Links to other agents that are up.", transport.connections)
    yield _gauge("elf_link_waiting_bytes", "Bytes that wait for links to other agents.", transport.waiting_bytes)
    yield _counter("elf_link_dropped_messages_total", "Messages dropped: a full queue, an unreachable peer, a broken "
                   "link.", transport.dropped)  # fmt: skip
    yield _counter("elf_link_broken_total", "Links that ended without a goodbye.", transport.broken)
    refused = sum(transport.refused.values())
    yield _counter("elf_link_refused_connections_total", "Connections of other agents refused here.", refused)
    yield _counter("elf_link_failed_dials_total", "Connections to other agents that failed.",
                   sum(transport.unreachable.values()))  # fmt: skip


def _archive(figures: AgentFigures) -> Iterator[Metric]:
    """The metrics of the archive; without one they are named, and have no values."""
    archive = figures.archive
    free = None if archive is None else float(archive.disk_free_bytes)
    fault = None if archive is None else float(bool(archive.fault))
    streams = [] if archive is None else [(printable(one.name), one) for one in archive.streams]
    yield GaugeMetricFamily("elf_archive_disk_free_bytes", "Bytes left on the archive's disk.", value=free)
    yield GaugeMetricFamily("elf_archive_fault", "1 while nothing is archived because of a fault.", value=fault)
    yield from _each(ARCHIVED, streams)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=float(value))


def _each(metrics: Iterable[_OfStream], streams: Sequence[tuple[str, object]]) -> Iterator[Metric]:
    """The metrics with a value for each stream."""
    for metric in metrics:
        kind = CounterMetricFamily if metric.name.endswith("_total") else GaugeMetricFamily
        family = kind(metric.name, metric.help, labels=("stream",))
        for stream, one in streams:
            family.add_metric((stream,), float(getattr(one, metric.attribute)))
        yield family


def _histogram(name: str, text: str, delays: DelayHistogram) -> Metric:
    bounds = [*map(str, DELAY_BOUNDS_S), "+Inf"]
    buckets = list(zip(bounds, delays.cumulative(), strict=True))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=delays.sum_s)
