# SPDX-License-Identifier: Apache-2.0
"""CPU time of the tagger and the port program for a packet (`make bench ARGS="--only packets"`).

The tagger runs on a TCP transfer over this network namespace's loopback device, and the kernel's statistics say how
long it took, also for sockets that carry their tags themselves. The port program runs many times on one packet
(BPF_PROG_TEST_RUN), because a switch sends its packets. Only the first run takes the priority tag off. Each stands
beside an empty program, which shows the cost of measuring.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from sluice.dataplane import build, congestion
from sluice.dataplane.clsact import attach_clsact, detach_clsact
from sluice.dataplane.libbpf import failure, ffi, lib
from sluice.dataplane.link_queues import CLASSES
from sluice.dataplane.loader import Program, load, open_object
from sluice.dataplane.port_settings import PortSettings
from sluice.dataplane.tagger import Tagger, TagSettings
from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.command import run

REPEAT = 200_000
TRANSFER_BYTES = 100_000_000
ROUNDS = 5
LOOPBACK_IFINDEX = 1
"""The packet of a test run belongs to the namespace's loopback device."""

_CONTROL, _CHOICE = "sluice_dctcp", "cc_min_tso_segs"
_STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
_EMPTY = """
#include "packet.bpf.h"
SEC("tc") int sluice_empty(struct __sk_buff *skb) { return TC_ACT_UNSPEC; }
char LICENSE[] SEC("license") = "GPL";
"""


class PacketCost(NamedTuple):
    """Medians over ROUNDS."""

    program: str
    ns_per_packet: int
    empty_ns_per_packet: int
    """The same for an empty program; for a socket's tag, without tags."""


def measure() -> list[PacketCost]:
    """Return the cost of each program. Raises EnvironmentLacking if BPF cannot be used here.

    It changes the loopback device, so it refuses the machine's first network namespace.
    """
    if congestion.in_first_namespace():
        raise EnvironmentLacking("it changes the loopback device: run it under `unshare --net`")
    run(["ip", "link", "set", "lo", "mtu", "1500", "up"])
    run(["ethtool", "-K", "lo", "tso", "off", "gso", "off"])
    with tempfile.TemporaryDirectory() as directory:
        path = build.compile_source("empty", _EMPTY, Path(directory))
        with open_object(path) as empty:
            program = empty.program("sluice_empty")
            sent_ns, run_ns = _ns_per_segment(program), _ns_per_packet(program, _datagram(None))
    return [
        PacketCost("tag", _tagger_ns(TagSettings()), sent_ns),
        PacketCost("tag and queue", _tagger_ns(TagSettings(priorities=CLASSES * 8)), sent_ns),
        PacketCost("tag of a guest", _guest_ns(), sent_ns),
        *_socket_costs(sent_ns),
        PacketCost("port", _port_ns(), run_ns),
    ]


def _tagger_ns(settings: TagSettings) -> int:
    with Tagger(settings) as tagger:
        return _ns_per_segment(tagger.program)


def _guest_ns() -> int:
    """As of a virtual machine, whose packets have no socket here."""
    with Tagger() as tagger:
        return _ns_per_segment(tagger.of_guests["ingress"])


def _socket_costs(empty_ns: int) -> Iterator[PacketCost]:
    """Yield the tagger's cost for packets of sockets that carry their tags, and what a tag costs the socket each time
    that it builds packets."""
    settings = Path("/proc/sys/net/ipv4")
    (settings / "tcp_ecn").write_text("1")
    with congestion.register_congestion_control(_CONTROL), congestion.HostEntry() as host:
        (settings / "tcp_congestion_control").write_text(_CONTROL)
        costs_ns = []
        for tags in (congestion.NO_TAGS, TagSettings()):
            host.set(congestion.ControlSettings(control=_CONTROL, tags=tags))
            costs_ns.append(_median_ns(_choices))
        yield PacketCost("tag, left to sockets", _tagger_ns(TagSettings()), empty_ns)
        yield PacketCost("a socket's tag", costs_ns[1], costs_ns[0])


def _choices() -> Ran:
    """Of the programs of controls that the kernel runs before it builds packets."""
    found = json.loads(run(["bpftool", "--json", "prog", "show", "name", _CHOICE]) or "[]")
    found = found if isinstance(found, list) else [found]
    return Ran(*(sum(item.get(key, 0) for item in found) for key in ("run_time_ns", "run_cnt")))


def _median_ns(ran: Callable[[], Ran]) -> int:
    """Return the median over ROUNDS transfers of the mean time of a program's runs."""
    with kernel_statistics():
        return int(median(_mean_ns(ran) for _ in range(ROUNDS)))


def _mean_ns(ran: Callable[[], Ran]) -> float:
    """Return the mean time of a program's runs during a transfer."""
    began = ran()
    _transfer()
    ended = ran()
    return (ended.ns - began.ns) / (ended.times - began.times)


@contextmanager
def kernel_statistics() -> Iterator[None]:
    """Let the kernel measure the time of every run of a BPF program, which adds some 50 ns to each."""
    before = _STATISTICS.read_text()
    _STATISTICS.write_text("1")
    try:
        yield
    finally:
        _STATISTICS.write_text(before)


class Ran(NamedTuple):
    """What the kernel has measured of a program."""

    ns: int
    times: int

    @classmethod
    def of(cls, program: Program) -> Ran:
        info = Path(f"/proc/self/fdinfo/{program.fd}").read_text()
        by_name = dict(re.findall(r"^run_(\w+):\s*(\d+)", info, re.MULTILINE))
        return cls(int(by_name["time_ns"]), int(by_name["cnt"]))


def _ns_per_segment(program: Program) -> int:
    """As `_median_ns`, for data and acknowledgements."""
    attach_clsact("lo", program)
    try:
        return _median_ns(partial(Ran.of, program))
    finally:
        detach_clsact("lo", program)


def _transfer() -> None:
    left_bytes = TRANSFER_BYTES
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as sender,
    ):
        receiver, _ = listener.accept()
        sending = threading.Thread(target=sender.sendall, args=(bytes(TRANSFER_BYTES),))
        sending.start()
        while left_bytes:
            left_bytes -= len(receiver.recv(1 << 20))
        sending.join()
        receiver.close()


def _port_ns() -> int:
    # This rate is higher than the packets' rate, so that the queue stays short and every packet passes.
    settings = PortSettings(mark_bytes=97_500, buffer_bytes=360_000, urgent_first=True, rate_bps=400 * 10**9)
    with load("port") as port:
        port.map("settings").update(LOOPBACK_IFINDEX, settings.pack(place=0))
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
