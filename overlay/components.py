"""Builds the parts of one node and maps messages and timers to them."""

from collections.abc import Callable, Mapping
from typing import Any

from overlay.core.outbox import Outbox
from overlay.core.random_source import RandomSource
from overlay.pastry.detection.detector import Detector
from overlay.pastry.detection.health import Health
from overlay.pastry.detection.heartbeat import Heartbeat
from overlay.pastry.detection.lease import Leases
from overlay.pastry.detection.watch import Watch
from overlay.pastry.forwarding.forwarding import Forwarding, OnForward
from overlay.pastry.forwarding.requests import RequestTable
from overlay.pastry.membership.membership import Membership
from overlay.pastry.membership.repair import Repair
from overlay.pastry.membership.table_maintenance import TableMaintenance
from overlay.pastry.presence import Presence
from overlay.pastry.tables.tables import PeerTables
from overlay.scribe.scribe import Scribe
from overlay.wire.ids import Id
from overlay.wire.messages import (
    Absent,
    Announcement,
    Echo,
    EchoReply,
    HopAck,
    JoinReply,
    JoinRequest,
    LeafSetAnswer,
    LeafSetProbe,
    Leaving,
    OverlayMessage,
    Ping,
    PingReport,
    PingRequest,
    Pong,
    Publish,
    Refute,
    RelayedPing,
    Response,
    Route,
    RowAnswer,
    RowRequest,
    Suspect,
)
from overlay.wire.peer import Peer

Handler = Callable[[Peer, Any, float], None]


class Components:
    """The parts of one node, built in order of dependency; all send through one outbox."""

    def __init__(
        self,
        peer: Peer,
        outbox: Outbox,
        random: RandomSource,
        start_number: int,
        on_forward: OnForward | None,
        epochs: Mapping[Id, int],
    ) -> None:
        heartbeat, health = Heartbeat(start_number, outbox, random), Health()
        self.watch = Watch(peer, heartbeat, health, random)
        self.tables = PeerTables(peer, self.watch.suspects, random)
        leases = self.leases = Leases(self.tables)
        self.membership = Membership(self.tables, leases, outbox, random)
        self.repair = Repair(self.tables, self.membership, outbox, random)
        self.table_maintenance = TableMaintenance(self.tables, self.membership, self.watch, outbox, random)
        self.scribe = Scribe(self.tables, self.membership, self.watch, outbox, random, epochs)
        heartbeat.edges_with = self.scribe.edges_with
        self.requests = RequestTable(self.membership, outbox, random)
        self.forwarding = Forwarding(
            self.tables,
            self.membership,
            self.table_maintenance,
            self.requests,
            self.watch,
            outbox,
            on_forward,
            self.scribe.multicast.publish,
        )
        self.detector = Detector(self.tables, self.watch, leases, heartbeat, health, outbox, random)
        self.presence = Presence(
            self.tables,
            self.watch,
            self.detector,
            heartbeat,
            leases,
            self.membership,
            self.repair,
            self.scribe,
            self.forwarding,
            outbox,
        )

    def timers(self) -> tuple[Callable[[], float | None], ...]:
        """Return a function for each part that returns when its timer is due."""
        parts = (
            self.membership,
            self.watch,
            self.leases,
            self.repair,
            self.table_maintenance,
            self.requests,
            self.forwarding,
        )
        return (*(part.next_timer for part in parts), *self.detector.timers(), *self.scribe.timers())

    def handlers(self) -> dict[type[OverlayMessage], Handler]:
        """Return the handler of each message type, except for those of the owner's payloads."""
        return {
            **self.scribe.handlers(),
            JoinRequest: self.forwarding.handle_join_request,
            JoinReply: self.membership.handle_join_reply,
            LeafSetProbe: self.membership.handle_probe,
            LeafSetAnswer: self.membership.handle_answer,
            Announcement: self.membership.handle_announcement,
            RowRequest: self.table_maintenance.handle_row_request,
            RowAnswer: self.table_maintenance.handle_row_answer,
            Route: self.forwarding.handle_route,
            Publish: self.forwarding.handle_publish,
            Ping: self.presence.handle_ping,
            Pong: self.presence.handle_pong,
            PingRequest: self.detector.handle_ping_request,
            RelayedPing: self.presence.handle_relayed_ping,
            PingReport: self.detector.handle_report,
            Suspect: self.presence.handle_suspect,
            Refute: self.detector.handle_refute,
            HopAck: self.forwarding.handle_hop_ack,
            Leaving: self.presence.handle_leaving,
            Absent: self.presence.handle_absent,
            Echo: self.table_maintenance.handle_echo,
            EchoReply: self.table_maintenance.handle_echo_reply,
            Response: self.requests.handle_response,
        }
