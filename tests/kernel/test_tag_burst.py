# SPDX-License-Identifier: Apache-2.0
"""How much payload really leaves under one tag, and what the agent reports of it."""

from __future__ import annotations

import socket
import time

import pytest

from sluice.dataplane.tagger import Tagger, TagSettings
from sluice.hostagent.link import tag_burst_bytes
from sluice.policy.tags import ATTAINED_FIRST
from tests.kernel.capture import Capture
from tests.kernel.conftest import V4, Pair
from tests.kernel.lab import dial, listen, send_and_receive

SIZE_BYTES = 500_000
GAP_S = 0.02
FIRST_WINDOW = 100
"""Packets. So the first packet that TCP builds is as long as it can be."""
ALL = 65_535
ON, OFF = ("tx", "on", "tso", "on", "gso", "on"), ("tx", "off", "tso", "off", "gso", "off")


@pytest.mark.parametrize(
    ("features", "segments"), [(ON, ALL), (ON, 4), (OFF, ALL), (OFF, 1)], ids=["on", "on-4", "off", "off-1"]
)
def test_the_payload_under_the_first_tag_is_what_the_agent_reports(
    pair: Pair, features: tuple[str, ...], segments: int
) -> None:
    """The first tag means at most 1 KB sent before, so only the first packet that TCP builds has it."""
    pair.a.run("ethtool", "-K", "eth0", *features)
    pair.a.run("ip", "link", "set", "dev", "eth0", "gso_max_segs", str(segments))
    pair.a.run("ip", "route", "add", V4["b"], "dev", "eth0", "initcwnd", str(FIRST_WINDOW))
    with pair.a:
        burst_bytes = tag_burst_bytes("eth0")
    with (
        Tagger(TagSettings(round(GAP_S * 1e9))) as tagger,
        listen(pair.b, socket.AF_INET, V4["b"], "reno") as listener,
    ):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
        with pair.a:
            tagger.attach("eth0")
        client, server = dial(pair.a, listener, "reno")
        send_and_receive(
            client, server, SIZE_BYTES
        )  # TCP builds no packet above half of the largest window so far
        time.sleep(3 * GAP_S)
        with Capture(pair.b, "eth0") as capture:
            send_and_receive(client, server, SIZE_BYTES)
            client.close()
            server.close()
            packets = capture.packets()
    under_first_bytes = sum(packet.data_bytes for packet in packets if packet.dscp == ATTAINED_FIRST)
    assert 0.9 * burst_bytes <= under_first_bytes <= burst_bytes
