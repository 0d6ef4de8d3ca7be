# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import socket
from dataclasses import asdict

import pytest

from sluice.topologies import probe
from sluice.topologies.probe import Received


def test_received__survives_its_json() -> None:
    seen = Received(3, 2000, 10, 20, {40: 2, 41: 1})
    assert Received.from_json(json.dumps(asdict(seen))) == seen


def test_rate__of_the_bytes_after_the_first_packet() -> None:
    assert Received(packets=2, frame_bytes=1250, first_ns=0, last_ns=1_000_000).rate_bps == pytest.approx(
        10_000_000
    )


def test_set_tos__both_families() -> None:
    for family, level, option in (
        (socket.AF_INET, socket.IPPROTO_IP, socket.IP_TOS),
        (socket.AF_INET6, socket.IPPROTO_IPV6, socket.IPV6_TCLASS),
    ):
        with socket.socket(family, socket.SOCK_DGRAM) as out:
            probe.set_tos(out, 61 << 2 | 2)
            assert out.getsockopt(level, option) == 61 << 2 | 2
