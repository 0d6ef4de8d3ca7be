# SPDX-License-Identifier: Apache-2.0
"""Throughput of one flow over an unmarked fat path: a virtual cable between two namespaces, no switch, no shaper.

The module runs itself once more under `unshare --net` and measures there with iperf, so that nothing is left behind.
"""

from __future__ import annotations

import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from dataplane.congestion import register_congestion_control
from dataplane.tagger import Tagger
from runtime.command import CommandFailed, run
from runtime.process import spawn, stop
from runtime.wait import wait_until

SECONDS = 2
NEAR, FAR = "10.9.0.1", "10.9.0.2"


@dataclass(frozen=True)
class Throughput:
    """A variant: congestion control, with the tagger on the sender's interface or without."""

    control: str
    tagged: bool

    @property
    def label(self) -> str:
        return f"{self.control} + tagger" if self.tagged else self.control


VARIANTS = tuple(
    Throughput(control, tagged) for control in ("cubic", "sluice_dctcp") for tagged in (False, True)
)


def measure_throughput(rounds: int) -> dict[Throughput, float]:
    """Median bits per second of each variant; the variants take turns within a round."""
    argv = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", __name__, str(rounds)]
    rates = json.loads(run(argv, timeout_s=120 + rounds * len(VARIANTS) * (SECONDS + 5)))
    return {variant: statistics.median(rates[variant.label]) for variant in VARIANTS}


def _measure_inside(rounds: int) -> dict[str, list[float]]:
    far = spawn(["unshare", "--net", "sleep", "infinity"])
    enter = ["nsenter", f"--net=/proc/{far.pid}/ns/net"]
    own = Path("/proc/self/ns/net").readlink()
    wait_until(lambda: Path(f"/proc/{far.pid}/ns/net").readlink() != own, "the far namespace is there")
    _connect(far.pid, enter)
    rates: dict[str, list[float]] = {variant.label: [] for variant in VARIANTS}
    with register_congestion_control("sluice_dctcp"):
        for _ in range(rounds):
            for variant in VARIANTS:
                rates[variant.label].append(_one(variant, enter))
    stop(far)
    return rates


def _connect(far_pid: int, enter: list[str]) -> None:
    run(["ip", "link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", str(far_pid)])
    for prefix, name, address in (([], "near0", NEAR), (enter, "far0", FAR)):
        run([*prefix, "ip", "link", "set", name, "up"])
        run([*prefix, "ip", "addr", "add", f"{address}/24", "dev", name])
        run([*prefix, "sysctl", "-qw", "net.ipv4.tcp_ecn=1"])


def _one(variant: Throughput, enter: list[str]) -> float:
    tagger = Tagger() if variant.tagged else None
    if tagger:
        tagger.attach("near0")
    server = spawn([*enter, "iperf", "-s", "-Z", variant.control], log_file=Path("/dev/null"))
    try:
        wait_until(lambda: _listens(enter), "the iperf server listens")
        csv = run(
            ["iperf", "-c", FAR, "-Z", variant.control, "-t", str(SECONDS), "-y", "C"], timeout_s=SECONDS + 20
        )
    finally:
        stop(server)
        if tagger:
            tagger.detach("near0")
            tagger.close()
    return float(csv.strip().splitlines()[-1].split(",")[8])


def _listens(enter: list[str]) -> bool:
    try:
        return ":5001" in run([*enter, "ss", "-Hltn"])
    except CommandFailed:
        return False


if __name__ == "__main__":
    print(json.dumps(_measure_inside(int(sys.argv[1]))))
