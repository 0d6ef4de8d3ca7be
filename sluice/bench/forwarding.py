# SPDX-License-Identifier: Apache-2.0
"""CPU time of ovs-vswitchd for each packet that one of its ports sends, with the cheaper turns and without.

The network is the demonstration's. Each host sends full and empty packets at random times to random other hosts.
`python -m sluice.bench.forwarding SECONDS RATE SEED ADDRESS …` is the program of a host.
"""

from __future__ import annotations

import random
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from sluice.runtime.wait import wait_until
from sluice.topologies import build
from sluice.topologies.static_flows import install
from sluice.topologies.testbed import Testbed

RATES = (75, 375)
"""Packets that each host sends in a second: a fifth of the demonstration's, and as many."""
RATE_BPS = 5_000_000
ROUNDS = 3
SECONDS = 6.0
_LEAST_PACKETS = 1000
_FULL, _EMPTY, _FULL_SHARE = bytes(1400), bytes(24), 0.45
_PORT = 9


class HopCost(NamedTuple):
    """Medians of the rounds."""

    hops_per_s: float
    us: float
    us_without: float
    ratio: float
    """Median of the ratios of the pairs."""


class _Used(NamedTuple):
    at_s: float
    cpu_s: float
    hops: int


def measure_forwarding() -> Mapping[int, HopCost]:
    """Return the cost by the rate of a host. Needs root and three minutes."""
    measured: dict[int, list[tuple[float, float, float]]] = {rate: [] for rate in RATES}
    for number in range(ROUNDS):
        with_turns, without = _measure(True, number), _measure(False, number)
        for rate in RATES:
            measured[rate].append((*with_turns[rate], without[rate][1]))
    return {rate: _cost(rounds) for rate, rounds in measured.items()}


def _cost(rounds: list[tuple[float, float, float]]) -> HopCost:
    hops, us, us_without = (statistics.median(values) for values in zip(*rounds, strict=True))
    return HopCost(hops, us, us_without, statistics.median(one[1] / one[2] for one in rounds))


def _measure(cheap_turns: bool, seed: int) -> dict[int, tuple[float, float]]:
    """Return packet-hops a second and the CPU time (us) of each, by rate."""
    network = build("leaf-spine", host_rate_bps=RATE_BPS, core_rate_bps=RATE_BPS)
    with (
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder,
        Testbed.start(network, Path(folder), controller=None, cheap_turns=cheap_turns) as bed,
    ):
        for command in install(network, lambda tag: tag % 8):
            bed.ovs(command.argv, stdin=command.stdin)
        return {rate: _at_rate(bed, rate, seed) for rate in RATES}


def _at_rate(bed: Testbed, rate: int, seed: int) -> tuple[float, float]:
    hosts = bed.topology.hosts
    idle = _used(bed)
    senders = []
    for number, host in enumerate(hosts):
        others = [other.ipv4 for other in hosts if other is not host]
        order = [str(2 * SECONDS), str(rate), f"{seed}.{number}", *others]
        senders.append(bed.spawn(host.name, [sys.executable, "-m", __name__, *order]))
    wait_until(lambda: _used(bed).hops > idle.hops + _LEAST_PACKETS, "the hosts send", timeout_s=60)
    before = _used(bed)
    time.sleep(SECONDS)
    after = _used(bed)
    for sender in senders:
        sender.wait()
    hops = after.hops - before.hops
    return hops / (after.at_s - before.at_s), (after.cpu_s - before.cpu_s) / hops * 1e6


def _used(bed: Testbed) -> _Used:
    """Return the CPU time of ovs-vswitchd so far, and the packets that the switches' ports have sent."""
    process = Path(f"/proc/{bed.pids['ovs-vswitchd']}")
    cpu_ns = sum(int(path.read_text().split()[0]) for path in process.glob("task/*/schedstat"))
    ports, hops = {port.interface for port in bed.topology.ports}, 0
    for line in (process / "net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() in ports:
            hops += int(counters.split()[9])
    return _Used(time.monotonic(), cpu_ns / 1e9, hops)


def _send(seconds: float, rate: float, seed: str, addresses: list[str]) -> None:
    chance, sockets = random.Random(seed), []
    for address in addresses:
        sender = socket.socket(type=socket.SOCK_DGRAM)
        sender.connect((address, _PORT))
        sockets.append(sender)
    due = time.monotonic()
    end = due + seconds
    while due < end:
        due += chance.expovariate(rate)
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            chance.choice(sockets).send(_FULL if chance.random() < _FULL_SHARE else _EMPTY)
        except ConnectionRefusedError:
            continue  # the other host has no receiver, and says so


if __name__ == "__main__":
    _send(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:])
