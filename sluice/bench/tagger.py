# SPDX-License-Identifier: Apache-2.0
"""The tagger's share of the CPU time of a flow at full speed, by the kernel's own clock for BPF programs.

The difference in throughput with and without the tagger is smaller than the difference between two
runs. This figure is steady, also on a busy machine. The module runs itself again under `unshare
--net` and measures there.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sluice.bench.throughput import BASELINE, children_cpu_s, far_end, transfer
from sluice.dataplane.tagger import Tagger
from sluice.runtime.command import run

ROUNDS = 5
STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
LINKS = {"segmentation offload": [], "a packet at a time": ["gso_max_segs", "1"]}
"""Name of the link → settings of the sender's interface."""


def measure_share() -> Mapping[str, float]:
    """Return the tagger's median share (0 … 1) of the CPU time that both ends of a flow use, by
    kind of link."""
    argv = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", __name__]
    found = json.loads(run(argv, timeout_s=300))
    return {link: statistics.median(shares) for link, shares in found.items()}


def _measure_inside() -> dict[str, list[float]]:
    shares: dict[str, list[float]] = {}
    with kernel_statistics(), far_end() as enter, Tagger() as tagger:
        tagger.attach("near0")
        for link, settings in LINKS.items():
            if settings:
                run(["ip", "link", "set", "near0", *settings])
            shares[link] = [_share(tagger, enter) for _ in range(ROUNDS)]
    return shares


def _share(tagger: Tagger, enter: list[str]) -> float:
    ran_before_s, cpu_before_s = _ran_s(tagger), children_cpu_s()
    transfer(BASELINE, enter)
    return (_ran_s(tagger) - ran_before_s) / (children_cpu_s() - cpu_before_s)


def _ran_s(tagger: Tagger) -> float:
    info = Path(f"/proc/self/fdinfo/{tagger.program_fd}").read_text()
    found = re.search(r"run_time_ns:\s*(\d+)", info)
    return int(found.group(1)) / 1e9 if found else 0.0


@contextmanager
def kernel_statistics() -> Iterator[None]:
    """Let the kernel measure the time of every run of a BPF program, which adds about 10 ns to each."""
    before = STATISTICS.read_text()
    STATISTICS.write_text("1")
    try:
        yield
    finally:
        STATISTICS.write_text(before)


if __name__ == "__main__":
    print(json.dumps(_measure_inside()))
