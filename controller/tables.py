# SPDX-License-Identifier: Apache-2.0
"""The tables of the switch pipeline, and the metadata that goes from table to table.

The pipeline's metadata carries the results of earlier tables: the egress port in bits 0–15, the
tag in bits 16–23, the group of the ingress port (policy/network/graph.py) in bits 24–26. Bit 27 says that the frame
has passed the check of VLANs, in a network that has them.

Cookies: which table, port, address family and tag a rule counts.

      63      48 47    40 39  32 31        16 15   8 7    0
     ┌──────────┬────────┬──────┬────────────┬──────┬──────┐
     │  SPACE   │ table  │  0   │    port    │family│ code │
     └──────────┴────────┴──────┴────────────┴──────┴──────┘

The code is a tag, NOT_IP, VLAN or NO_CODE. In the table `ends`, the group of the ingress port takes the place of the
family, because one rule counts both families. A request with a cookie mask selects the counters of one
table, and the cookies in the reply identify each counter.
"""

from dataclasses import dataclass
from enum import IntEnum

from sluice.controller.rules import Match, MatchValue
from sluice.policy import tags
from sluice.policy.network.description import OWN_PORT


class Table(IntEnum):
    EDGE = 0
    INGRESS = 1
    FORWARD = 2
    COMPLETED = 3
    MAP = 4
    FLOWS = 5
    HOSTS = 6
    ENDS = 7


@dataclass(frozen=True)
class TableSpec:
    """One table as the documentation lists it."""

    table: Table
    match: tuple[str, ...]
    """OpenFlow fields that its rules may match."""
    purpose: str
    miss: str
    """What happens to a packet that no rule matches."""


PIPELINE: tuple[TableSpec, ...] = (
    TableSpec(
        Table.EDGE,
        ("in_port", "eth_type", "ip_proto", "icmpv6_type", "vlan_vid", "metadata"),
        "edge ports that are watched: learn flows, count them in flows; demoted ones: meter, tag 61 into the packet;"
        " networks that Sluice did not make: learn senders into hosts, LLDP to the controller; networks with VLANs:"
        " header of the native VLAN, drop what the port does not carry",
        "all others: ingress",
    ),
    TableSpec(
        Table.INGRESS,
        ("in_port", "eth_type", "ip_dscp", "vlan_vid"),
        "edge port × tag: count; tag and group of the port into metadata; spent urgency and VLANs of others: no tag",
        "not IP: forward",
    ),
    TableSpec(
        Table.FORWARD,
        ("eth_dst", "metadata", "vlan_vid"),
        "destination → egress port into metadata; equal-cost ports and bonds by select group; broadcast on the spanning"
        " tree; networks with VLANs: within the VLAN, header off where the frame leaves without one",
        "unknown destination: flood, the switch's own forwarding, or drop",
    ),
    TableSpec(
        Table.COMPLETED,
        ("metadata", "eth_type", "ip_proto", "ip_frag", "tcp_flags"),
        "FIN: count it in ends; tagged IP packets that are neither TCP nor UDP, and later fragments: background",
        "not the end of a flow: map",
    ),
    TableSpec(
        Table.MAP,
        ("metadata", "vlan_vid", "in_port"),
        "egress port × tag → set_queue, 802.1p priority, output; only output where the policy does not act; nothing"
        " returns to another port of its bond",
        "port unknown: drop",
    ),
    TableSpec(Table.FLOWS, (), "learned from packets: edge port × 5-tuple × tag: count", "back to edge"),
    TableSpec(Table.HOSTS, (), "learned from packets: edge port × sender", "no packet comes here"),
    TableSpec(
        Table.ENDS, ("metadata",), "egress port × tag × group of ingress ports: count", "back to completed"
    ),
)

FAMILIES = (0x0800, 0x86DD)
"""EtherTypes of IPv4 and IPv6. A family is an index into this tuple."""
TCP, UDP, ICMPV6 = 6, 17, 58
VLAN_PRESENT = 0x1000
"""OFPVID_PRESENT: the frame has an 802.1Q tag."""
CONTROLLER, NORMAL, LOCAL = 0xFFFFFFFD, 0xFFFFFFFA, 0xFFFFFFFE
"""Reserved port numbers (1.3.5, section 4.5)."""


def port_number(port: int) -> int:
    """Return the OpenFlow number of a port. The switch's own port has a short one in metadata and cookies."""
    return LOCAL if port == OWN_PORT else port


# ── Metadata ───────────────────────────────────────────────────────────────────────────────────

PORT_BITS = 16
PORT_MASK = (1 << PORT_BITS) - 1
CODE_MASK = 0xFF << PORT_BITS
METADATA_BITS = 24
"""Bits of port and code. The group is above them."""
GROUP_MASK = 0x7 << METADATA_BITS
ADMITTED_BIT = 27
ADMITTED = 1 << ADMITTED_BIT
"""The frame has the header of a VLAN that its ingress port carries."""


def port_and_code(port: int, code: int) -> int:
    return code << PORT_BITS | port


def group_and_code(group: int, code: int) -> int:
    return group << METADATA_BITS | code << PORT_BITS


def match_on(**values: MatchValue) -> Match:
    return tuple(sorted(values.items()))


# ── Cookies ─────────────────────────────────────────────────────────────────────────────────────────


COOKIE_SPACE = 0x51CE
COOKIE_SPACE_MASK = 0xFFFF << 48
COOKIE_TABLE_MASK = COOKIE_SPACE_MASK | 0xFF << 40
NOT_IP = tags.TAG_COUNT
"""Code of packets that have no DSCP (ARP). They use queue 0."""
VLAN = NOT_IP + 1
"""Code of frames of the operator's VLANs at a switch whose rules name the queue in a priority tag. A frame of full
length has no room for a second tag, so these frames get none, and use the queue of untagged packets."""
NO_CODE = 0xFF
"""Code of rules that count no tag."""
GROUP_SPACE = 0x51CE << 16
"""Numbers of Sluice's groups begin here, so that others on the same switch can have theirs."""
MAX_GROUPS = 1 << 16
METER_SPACE = 0x51CE << 8
"""Number of the meter of edge port n: METER_SPACE + n."""
MAX_METERS = 1 << 16


def cookie(table: int, port: int = 0, code: int = NO_CODE, family: int = 0) -> int:
    return COOKIE_SPACE << 48 | table << 40 | port << 16 | family << 8 | code


def cookie_table(value: int) -> int:
    return value >> 40 & 0xFF


def cookie_port(value: int) -> int:
    return value >> 16 & 0xFFFF


def cookie_code(value: int) -> int:
    return value & 0xFF
