# SPDX-License-Identifier: Apache-2.0
"""How much payload really leaves under one tag, and what the agent reports of it."""

from __future__ import annotations

import socket

import pytest

from dataplane.tagger import Tagger
from hostagent.burst import tag_burst_bytes
from tests.kernel.capture import Capture
from tests.kernel.conftest import V4, Pair
from tests.kernel.lab import dial, listen, send_and_receive

SIZE_BYTES = 3_000_000
OFFLOADS = {
    "offload": (("tx", "on", "tso", "on", "gso", "on"), 65_535),
    "four segments": (("tx", "on", "tso", "on", "gso", "on"), 4),
    "no offload": (("tx", "off", "tso", "off", "gso", "off"), 1),
}
"""Features of the interface, and the most segments that a packet may have."""


@pytest.mark.parametrize("offload", OFFLOADS)
def test_the_most_payload_under_one_tag_is_what_the_agent_reports(pair: Pair, offload: str) -> None:
    features, segments = OFFLOADS[offload]
    pair.a.run("ethtool", "-K", "eth0", *features)
    pair.a.run("ip", "link", "set", "dev", "eth0", "gso_max_segs", str(segments))
    with pair.a:
        burst_bytes = tag_burst_bytes("eth0")
    with Tagger() as tagger, listen(pair.b, socket.AF_INET, V4["b"], "reno") as listener:
        with pair.a:
            tagger.attach("eth0")
        with Capture(pair.b, "eth0") as capture:
            client, server = dial(pair.a, listener, "reno")
            send_and_receive(client, server, SIZE_BYTES)
            client.close()
            server.close()
            packets = [packet for packet in capture.packets() if packet.dscp]
    largest_bytes = max(packet.data_bytes for packet in packets)
    assert 0.9 * burst_bytes <= largest_bytes <= burst_bytes
