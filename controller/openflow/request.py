# SPDX-License-Identifier: Apache-2.0
"""Requests: barriers, roles, and polls of rules and counters.

os-ken writes each kind of poll once. Each later poll is a copy with another transaction id.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Protocol

from os_ken.ofproto import ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller.openflow.frames import VERSION, MessageType, message
from sluice.controller.tables import COOKIE_TABLE_MASK, Table, cookie

CODEC = ofproto_protocol.ProtocolDesc(version=VERSION)
"""The protocol version, as os-ken's message classes take it."""


class XidSource(Protocol):
    """A connection, as far as requests need it."""

    def reserve_xids(self, count: int) -> int:
        """Return the first of `count` consecutive transaction ids, which no other message gets."""


@dataclass(frozen=True)
class Request:
    """Bytes to send, and the consecutive transaction ids of its messages."""

    data: bytes
    first_xid: int
    last_xid: int
    """The message whose answer completes the request."""
    subject: Callable[[int], str]
    """Describes the n-th message, for the log."""

    def subject_of(self, xid: int) -> str | None:
        """Describe the message with a transaction id; None if it is not part of this request."""
        return self.subject(xid - self.first_xid) if self.first_xid <= xid <= self.last_xid else None


def serialised(os_ken_message: Any, xid: int = 0) -> bytes:
    """Return the bytes of one of os-ken's messages."""
    os_ken_message.set_xid(xid)
    os_ken_message.serialize()
    return bytes(os_ken_message.buf)


def barrier(xid: int) -> bytes:
    return message(MessageType.BARRIER_REQUEST, xid=xid)


def _request(xids: XidSource, *templates: tuple[bytes, str]) -> Request:
    """Return these messages, each with a transaction id of its own, and their subjects."""
    first = xids.reserve_xids(len(templates))
    data = b"".join(
        template[:4] + struct.pack("!I", first + i) + template[8:]
        for i, (template, _) in enumerate(templates)
    )
    return Request(data, first, first + len(templates) - 1, lambda at: templates[at][1])


# ── Roles ──────────────────────────────────────────────────────────────────────────────────────


class Role(IntEnum):
    """The role of a controller at a switch (1.3.5, section 6.3.6)."""

    EQUAL = 1
    MASTER = 2
    SLAVE = 3


def role_request(xids: XidSource, role: Role, generation: int) -> Request:
    """Request a role. A switch refuses a generation older than the newest one that it has seen."""
    body = struct.pack("!IxxxxQ", role, generation)
    return _request(xids, (message(MessageType.ROLE_REQUEST, body), f"becoming {role.name.lower()}"))


# ── Polls ──────────────────────────────────────────────────────────────────────────────────────


READING_METERS = "reading meters"
"""The subject of requests that a switch without meters may refuse."""


def _flow_stats_request(table: int, cookie_: int = 0, cookie_mask: int = 0) -> bytes:
    return serialised(
        parser.OFPFlowStatsRequest(
            CODEC, 0, table, ofp.OFPP_ANY, ofp.OFPG_ANY, cookie_, cookie_mask, parser.OFPMatch()
        )
    )


_READING_RULES = (
    (serialised(parser.OFPGroupDescStatsRequest(CODEC, 0)), "reading groups"),
    (serialised(parser.OFPMeterFeaturesStatsRequest(CODEC, 0)), READING_METERS),
    (serialised(parser.OFPMeterConfigStatsRequest(CODEC, 0, ofp.OFPM_ALL)), READING_METERS),
    (_flow_stats_request(ofp.OFPTT_ALL), "reading rules"),
)
_READING_QUEUES = serialised(parser.OFPQueueStatsRequest(CODEC, 0, ofp.OFPP_ANY, ofp.OFPQ_ALL))


def rules_request(xids: XidSource) -> Request:
    """Request all groups, meters and rules."""
    return _request(xids, *_READING_RULES)


_COUNTERS = {
    Table.INGRESS: "the counters at the ingress",
    Table.MAP: "the counters by tag",
    Table.FLOWS: "the counters of flows",
    Table.HOSTS: "the hosts behind the ports",
    Table.ENDS: "the counters of completed flows",
}
"""What the rules of a table count."""


def counters_request(
    xids: XidSource, table: Table, first_table: int = 0, tags_below: int | None = None
) -> Request:
    """Request the counters of a table's rules. `tags_below`: only of tags below this power of two; None: of all."""
    return _request(xids, (_counters(table, first_table, tags_below), f"reading {_COUNTERS[table]}"))


def queues_request(xids: XidSource) -> Request:
    """Request the counters of all queues."""
    return _request(xids, (_READING_QUEUES, "reading queue statistics"))


@cache
def _counters(table: Table, first_table: int, tags_below: int | None) -> bytes:
    if tags_below is None:
        return _flow_stats_request(first_table + table, cookie(table), COOKIE_TABLE_MASK)
    mask = COOKIE_TABLE_MASK | 0xFF & ~(tags_below - 1)
    return _flow_stats_request(first_table + table, cookie(table, 0, 0), mask)
