"""Assigns every message type to a kind of traffic, for the statistics."""

from enum import StrEnum

from overlay.wire.messages import (
    Absent,
    Acknowledge,
    AcknowledgeAgain,
    AcknowledgeResult,
    Announcement,
    Direct,
    Disseminate,
    Echo,
    EchoReply,
    EdgeBuckets,
    GroupDigest,
    GroupJoin,
    GroupJoined,
    GroupLeave,
    GroupRefused,
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
    Pull,
    Refute,
    RelayedPing,
    Replicate,
    Response,
    RootAnswer,
    RootQuery,
    Route,
    RowAnswer,
    RowRequest,
    Supply,
    Suspect,
)


class Traffic(StrEnum):
    """Purpose of a message: the overlay itself (join, detector, repair), its trees, or payloads."""

    JOIN = "join"
    DETECTOR = "detector"
    REPAIR = "repair"
    TREE = "tree"
    ROUTE = "route"
    MULTICAST = "multicast"
    DIRECT = "direct"


TRAFFIC: dict[type[OverlayMessage], Traffic] = {
    JoinRequest: Traffic.JOIN,
    JoinReply: Traffic.JOIN,
    LeafSetProbe: Traffic.REPAIR,
    LeafSetAnswer: Traffic.REPAIR,
    Announcement: Traffic.JOIN,
    RowRequest: Traffic.REPAIR,
    RowAnswer: Traffic.REPAIR,
    Route: Traffic.ROUTE,
    Direct: Traffic.DIRECT,
    Publish: Traffic.MULTICAST,
    Disseminate: Traffic.MULTICAST,
    GroupJoin: Traffic.TREE,
    GroupJoined: Traffic.TREE,
    GroupRefused: Traffic.TREE,
    GroupLeave: Traffic.TREE,
    GroupDigest: Traffic.TREE,
    EdgeBuckets: Traffic.TREE,
    Pull: Traffic.MULTICAST,
    Supply: Traffic.MULTICAST,
    Replicate: Traffic.TREE,
    RootQuery: Traffic.TREE,
    RootAnswer: Traffic.TREE,
    Acknowledge: Traffic.MULTICAST,
    AcknowledgeAgain: Traffic.MULTICAST,
    AcknowledgeResult: Traffic.MULTICAST,
    Ping: Traffic.DETECTOR,
    Pong: Traffic.DETECTOR,
    Leaving: Traffic.JOIN,
    Absent: Traffic.JOIN,
    Echo: Traffic.REPAIR,
    EchoReply: Traffic.REPAIR,
    Response: Traffic.ROUTE,
    PingRequest: Traffic.DETECTOR,
    RelayedPing: Traffic.DETECTOR,
    PingReport: Traffic.DETECTOR,
    Suspect: Traffic.DETECTOR,
    Refute: Traffic.DETECTOR,
    HopAck: Traffic.ROUTE,
}
