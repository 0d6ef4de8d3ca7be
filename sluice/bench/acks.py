# SPDX-License-Identifier: Apache-2.0
"""How many segments a Linux receiver acknowledges with one ACK, by what is on the way and on the receiver.

A virtual cable between two namespaces carries one flow. Both ends count their segments in /proc/net/snmp: the sender's
are data, the receiver's are ACKs. The module runs itself again under `unshare --net` and measures there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sluice.bench.throughput import BASELINE, FAR, far_end, transfer
from sluice.runtime.command import run

_SHAPED = "qdisc replace dev near0 root handle 1: htb default 1\n"
_CLASS = "class replace dev near0 parent 1: classid 1:1 htb rate 100mbit burst 3100 cburst 3100\n"
_SHORT = "qdisc replace dev near0 parent 1:1 pfifo limit 20\n"


@dataclass(frozen=True)
class Case:
    """One receiver and its link."""

    name: str
    bursts: bool = False
    """The receiver gets bursts as the sender made them, as from a card that joins packets by itself (LRO)."""
    gro: bool = False
    """The receiver joins the packets that wait together (GRO)."""
    shaped: bool = False
    """The link has 100 Mb/s, so that packets come one by one."""
    lossy: bool = False
    """The queue of the link is short, so that packets are lost."""
    quick: bool = False
    """The route has quickack, which switches delayed ACKs off."""
    compressed: bool = True
    """ACKs of packets after a lost one are compressed (tcp_comp_sack_nr, on by default)."""


CASES = (
    Case("packets one by one", shaped=True),
    Case("packets one by one, GRO", gro=True, shaped=True),
    Case("packets one by one, quickack", shaped=True, quick=True),
    Case("packets one by one, with losses", shaped=True, lossy=True),
    Case("packets one by one, with losses, tcp_comp_sack_nr = 0", shaped=True, lossy=True, compressed=False),
    Case("full speed"),
    Case("full speed, GRO", gro=True),
    Case("full speed, bursts of 64 KB", bursts=True),
)


def measure_acks() -> Mapping[str, float]:
    """Return the segments for each ACK, by case."""
    argv = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", __name__]
    found: dict[str, float] = json.loads(run(argv, timeout_s=300))
    return found


def _measure_inside() -> dict[str, float]:
    found = {}
    for case in CASES:
        with far_end() as enter:
            _arrange(case, enter)
            sent, acked = _segments([]), _segments(enter)
            transfer(BASELINE, enter)
            found[case.name] = (_segments([]) - sent) / (_segments(enter) - acked)
            run(["ip", "link", "del", "near0"])
    return found


def _arrange(case: Case, enter: list[str]) -> None:
    bursts = "on" if case.bursts else "off"
    for prefix, name in (([], "near0"), (enter, "far0")):
        run([*prefix, "ethtool", "-K", name, "tso", bursts, "gso", bursts, "tx", bursts, "gro", "off"])
    if not case.bursts:
        run(["ip", "link", "set", "near0", "gso_max_segs", "1"])
    if case.gro:
        run([*enter, "ethtool", "-K", "far0", "gro", "on"])
    if case.quick:
        network = ".".join(FAR.split(".")[:3]) + ".0/24"
        run([*enter, "ip", "route", "replace", network, "dev", "far0", "quickack", "1"])
    if not case.compressed:
        run([*enter, "sysctl", "-qw", "net.ipv4.tcp_comp_sack_nr=0"])
    if case.shaped:
        run(["tc", "-batch", "-"], stdin=_SHAPED + _CLASS + (_SHORT if case.lossy else ""))


def _segments(enter: list[str]) -> int:
    """Return how many segments a namespace has sent, without retransmissions."""
    text = run([*enter, "cat", "/proc/net/snmp"]) if enter else Path("/proc/net/snmp").read_text()
    names, values = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
    return int(values[names.index("OutSegs")])


if __name__ == "__main__":
    print(json.dumps(_measure_inside()))
