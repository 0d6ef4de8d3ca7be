# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

from os_ken.ofproto import ofproto_v1_3 as ofp

from sluice.controller.openflow import PortDescription, PortReason, PortStatus
from sluice.controller.openflow.answers import AnswerReader, read_description
from sluice.controller.openflow.frames import Frame, MessageType, StatsType, message
from sluice.controller.tables import LOCAL
from sluice.policy.network.description import OWN_PORT, SeenPort


def port(number: int, name: str, *, config: int = 0, state: int = 0, kbps: int = 0) -> bytes:
    """Return a port's description in os-ken's layout."""
    speeds = (0, 0, 0, 0, kbps, kbps)
    return struct.pack(ofp.OFP_PORT_PACK_STR, number, bytes(6), name.encode(), config, state, *speeds)


def read(kind: int, body: bytes) -> object:
    return AnswerReader().read(Frame(4, kind, 7, message(kind, body, 7)))


DOWN = {"config": 1}


def test_description__the_bridge_and_its_ports_in_order() -> None:
    body = port(LOCAL, "br-front", **DOWN) + port(2, "eth2", kbps=10**7) + port(1, "eth1", kbps=10**6)
    found = read(MessageType.MULTIPART_REPLY, struct.pack("!HHxxxx", StatsType.PORT_DESC, 0) + body)
    ports = (SeenPort(1, "eth1", 10**9, True), SeenPort(2, "eth2", 10**10, True))
    assert found == PortDescription("br-front", ports)


def test_description__the_switch_s_own_port_is_a_port_while_it_is_up() -> None:
    found = read_description(port(LOCAL, "br-front") + port(1, "eth1"))
    assert [(p.number, p.name) for p in found.ports] == [(1, "eth1"), (OWN_PORT, "br-front")]


def test_description__the_speed_of_a_tap_interface_means_nothing() -> None:
    assert read_description(port(1, "vnet0", kbps=10_000)).ports[0].rate_bps == 0


def test_description__a_port_is_down_by_its_link_or_by_its_configuration() -> None:
    body = port(1, "link", state=1) + port(2, "admin", config=1) + port(3, "up", config=4, state=4)
    assert [p.up for p in read_description(body).ports] == [False, False, True]


def test_status__of_one_port() -> None:
    body = struct.pack("!B7x", PortReason.DELETE) + port(3, "eth3")
    assert read(MessageType.PORT_STATUS, body) == PortStatus(PortReason.DELETE, SeenPort(3, "eth3", 0, True))


def test_status__of_the_switch_s_own_port() -> None:
    up = read(MessageType.PORT_STATUS, struct.pack("!B7x", 2) + port(LOCAL, "br-front"))
    assert up == PortStatus(PortReason.MODIFY, SeenPort(OWN_PORT, "br-front", 0, True))
    down = read(MessageType.PORT_STATUS, struct.pack("!B7x", 2) + port(LOCAL, "br-front", **DOWN))
    assert isinstance(down, PortStatus)
    assert down.reason is PortReason.DELETE


def test_status__of_a_reserved_port_is_ignored() -> None:
    assert read(MessageType.PORT_STATUS, struct.pack("!B7x", 2) + port(LOCAL - 1, "x")) is None
