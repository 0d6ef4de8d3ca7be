# SPDX-License-Identifier: Apache-2.0
"""Throughput of one flow without marks: a virtual cable between two namespaces, no switch, no shaper.

The module runs itself again under `unshare --net` and measures there with iperf, so that no
interfaces remain.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sluice.dataplane.congestion import ours, register_congestion_control
from sluice.dataplane.tagger import Tagger
from sluice.dataplane.watch import Watch
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until

SECONDS = 1
Figures = tuple[float, float]
"""Bits per second, and bits per second of CPU time."""

NEAR, FAR = "10.9.0.1", "10.9.0.2"


@dataclass(frozen=True)
class Throughput:
    """A variant: a congestion control, with or without the tagger and its flow watch on the
    sender's interface."""

    control: str
    tagged: bool = False
    watched: bool = False

    @property
    def label(self) -> str:
        return " + ".join([self.control, *["tagger"] * self.tagged, *["flow watch"] * self.watched])


BASELINE = Throughput("cubic")


def variants() -> list[Throughput]:
    """Return the variants, the baseline first."""
    cubic = [Throughput("cubic", tagged, watched) for watched in (False, True) for tagged in (False, True)]
    return cubic + [Throughput(control) for control in ours()]


@dataclass(frozen=True)
class Measured:
    """A figure of a variant in each round, and that of the baseline right before it."""

    values: Sequence[float]
    baselines: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def ratio(self) -> float:
        """The ratio to the baseline that was measured right before. Other load on the machine slows both."""
        pairs = zip(self.values, self.baselines, strict=True)
        return statistics.median(value / baseline for value, baseline in pairs)


@dataclass(frozen=True)
class Rates:
    """The figures of one variant."""

    bps: Measured
    """As iperf reports it. It falls if others use the machine."""
    bits_per_cpu_s: Measured
    """The same per CPU time of both ends. It does not depend on what else uses the machine."""


def measure_throughput(rounds: int) -> Mapping[Throughput, Rates]:
    """Measure all variants in each round, and the baseline right before each of them. Rounds start
    with different variants.

    The baseline is a variant, too: its ratio to itself shows the noise.
    """
    argv = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", __name__, str(rounds)]
    found = json.loads(run(argv, timeout_s=120 + rounds * 2 * len(variants()) * (SECONDS + 10)))

    def measured(variant: Throughput, figure: int) -> Measured:
        pairs = found[variant.label]
        return Measured([own[figure] for _, own in pairs], [baseline[figure] for baseline, _ in pairs])

    return {variant: Rates(measured(variant, 0), measured(variant, 1)) for variant in variants()}


def _measure_inside(rounds: int) -> dict[str, list[tuple[Figures, Figures]]]:
    turns = variants()
    rates: dict[str, list[tuple[Figures, Figures]]] = {variant.label: [] for variant in turns}
    with far_end() as enter, ExitStack() as registered:
        for control in ours():
            registered.enter_context(register_congestion_control(control))
        for number in range(rounds):
            for variant in turns[number % len(turns) :] + turns[: number % len(turns)]:
                rates[variant.label].append((transfer(BASELINE, enter), transfer(variant, enter)))
    return rates


@contextmanager
def far_end() -> Iterator[list[str]]:
    """Make a second namespace at the end of a cable from `near0`. Yields the prefix of commands
    that run in it."""
    far = spawn(["unshare", "--net", "sleep", "infinity"])
    enter = ["nsenter", f"--net=/proc/{far.pid}/ns/net"]
    own = Path("/proc/self/ns/net").readlink()
    wait_until(lambda: Path(f"/proc/{far.pid}/ns/net").readlink() != own, "the far namespace is there")
    _connect(far.pid, enter)
    try:
        yield enter
    finally:
        stop(far)


def _connect(far_pid: int, enter: list[str]) -> None:
    run(["ip", "link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", str(far_pid)])
    for prefix, name, address in (([], "near0", NEAR), (enter, "far0", FAR)):
        run([*prefix, "ip", "link", "set", name, "up"])
        run([*prefix, "ip", "addr", "add", f"{address}/24", "dev", name])
        run([*prefix, "sysctl", "-qw", "net.ipv4.tcp_ecn=1"])


@contextmanager
def _measures(variant: Throughput) -> Iterator[None]:
    with ExitStack() as taken:
        if variant.watched:
            taken.enter_context(Watch())
        if variant.tagged:
            tagger = taken.enter_context(Tagger())
            tagger.attach("near0")
            taken.callback(tagger.detach, "near0")
        yield


def transfer(variant: Throughput, enter: list[str]) -> Figures:
    """Run one transfer. Returns bits per second, and bits per second of CPU time."""
    began_s = children_cpu_s()
    server = spawn([*enter, "iperf", "-s", "-Z", variant.control], log_file=Path("/dev/null"))
    client = ["iperf", "-c", FAR, "-Z", variant.control, "-t", str(SECONDS), "-y", "C"]
    try:
        with _measures(variant):
            wait_until(lambda: _listens(enter), "the iperf server listens")
            csv = run(client, timeout_s=SECONDS + 20)
    finally:
        stop(server)
    fields = csv.strip().splitlines()[-1].split(",")
    return float(fields[8]), 8 * float(fields[7]) / (children_cpu_s() - began_s)


def children_cpu_s() -> float:
    """Return the CPU time of ended children. The kernel does most work for a packet in the process
    that sends or reads it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _listens(enter: list[str]) -> bool:
    try:
        return ":5001" in run([*enter, "ss", "-Hltn"])
    except CommandFailed:
        return False


if __name__ == "__main__":
    print(json.dumps(_measure_inside(int(sys.argv[1]))))
