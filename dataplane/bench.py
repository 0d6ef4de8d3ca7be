# SPDX-License-Identifier: Apache-2.0
"""CPU time of the tagger and the port program for a packet: `python -m sluice.dataplane.bench`.

The kernel runs a loaded program many times on one packet (BPF_PROG_TEST_RUN) and reports the mean. Only the first run
changes the packet: the program writes the DSCP and removes the priority tag. Every run reads the headers, updates the
flow's state or the port's virtual queue under its lock, and counts. An empty program shows the cost of the measurement.
"""

import socket
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from sluice.dataplane import build
from sluice.dataplane.libbpf import failure, ffi, lib
from sluice.dataplane.link_queues import HTB
from sluice.dataplane.loader import Program, load, open_object
from sluice.dataplane.port_settings import PortSettings
from sluice.policy.tags import TAG_COUNT

REPEAT = 200_000
ROUNDS = 5
LOOPBACK_IFINDEX = 1
"""The packet of a test run belongs to the namespace's loopback device."""

_EMPTY = """
#include "packet.bpf.h"
SEC("tc") int sluice_empty(struct __sk_buff *skb) { return TC_ACT_UNSPEC; }
char LICENSE[] SEC("license") = "GPL";
"""


@dataclass(frozen=True)
class PacketCost:
    """Median over ROUNDS of the mean over REPEAT runs."""

    program: str
    ns_per_packet: int
    empty_ns_per_packet: int
    """The same for an empty program."""


def measure() -> list[PacketCost]:
    """Return the cost of each program. Raises EnvironmentLacking if BPF cannot be used here."""
    with tempfile.TemporaryDirectory() as directory:
        path = build.compile_source("empty", _EMPTY, Path(directory))
        with open_object(path) as empty:
            baseline_ns = _ns_per_packet(empty.program("sluice_empty"), _datagram(None))
    return [
        PacketCost("tag", _tagger_ns(()), baseline_ns),
        PacketCost("tag and queue", _tagger_ns(HTB.priorities), baseline_ns),
        PacketCost("port", _port_ns(), baseline_ns),
    ]


def _tagger_ns(priorities: Sequence[int]) -> int:
    with load("tag") as tag:
        for dscp in range(TAG_COUNT if priorities else 0):
            tag.map("priorities").update(dscp, struct.pack("=I", priorities[dscp % len(priorities)]))
        return _ns_per_packet(tag.program("sluice_tag"), _datagram(None))


def _port_ns() -> int:
    # This rate is higher than the packets' rate, so that the queue stays short and every packet passes.
    settings = PortSettings(400 * 10**9, mark_bytes=97_500, buffer_bytes=360_000, urgent_first=True)
    with load("port") as port:
        port.map("settings").update(LOOPBACK_IFINDEX, settings.pack())
        for name in ("states", "counters"):
            port.map(name).update(LOOPBACK_IFINDEX, bytes(port.map(name).value_size))
        return _ns_per_packet(port.program("sluice_port"), _datagram(3 << 13))


def _datagram(vlan_tci: int | None) -> bytes:
    """Return a full-sized UDP/IPv4 packet, with or without an 802.1Q tag."""
    data = bytes(1472)
    vlan = b"" if vlan_tci is None else struct.pack("!HH", 0x8100, vlan_tci)
    addresses = socket.inet_aton("10.0.0.1") + socket.inet_aton("10.0.0.2")
    ip = struct.pack("!BBHHHBBH", 0x45, 2, 28 + len(data), 0, 0, 64, socket.IPPROTO_UDP, 0) + addresses
    return (
        bytes(12)
        + vlan
        + struct.pack("!H", 0x0800)
        + ip
        + struct.pack("!HHHH", 1, 2, 8 + len(data), 0)
        + data
    )


def _ns_per_packet(program: Program, packet: bytes) -> int:
    data = ffi.from_buffer(packet)
    means_ns = []
    for _ in range(ROUNDS):
        options: Any = ffi.new("struct bpf_test_run_opts *")
        options.sz = ffi.sizeof("struct bpf_test_run_opts")
        options.data_in, options.data_size_in, options.repeat = data, len(packet), REPEAT
        code = lib().bpf_prog_test_run_opts(program.fd, options)
        if code < 0:
            raise failure(f"cannot run {program.name} on a test packet", code)
        means_ns.append(int(options.duration))
    return int(median(means_ns))


def main() -> None:
    for cost in measure():
        print(
            f"{cost.program:20} {cost.ns_per_packet:6d} ns/packet  (an empty program: {cost.empty_ns_per_packet} ns)"
        )


if __name__ == "__main__":
    main()
