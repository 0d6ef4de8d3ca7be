# SPDX-License-Identifier: Apache-2.0
"""What the control loop costs: decoding against os-ken's parser, and the whole loop against many switches.

The switches are one process (sluice/bench/switches.py), the controller is another, which has one core to itself.
A loop counts only when it has kept its pace and the switches' maps hold in the end what the controller says of them.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from os_ken.ofproto import ofproto_v1_3_parser as parser

import topologies
from controller import openflow
from controller.pipeline import completed_rules, map_rules
from policy.desired import Override, Policy
from policy.graph import Topology
from policy.queue_map import queue_map
from runtime.process import die_with_parent, spawn, stop
from runtime.wait import wait_until
from sluice.bench.switches import entry
from store import desired, observed
from store.engine import open_store

INTERVAL_MS = 100
HOSTS_A_LEAF, SPINES = 32, 4
PORTS_A_LEAF = HOSTS_A_LEAF + 2 * SPINES
"""Of the fabric: a leaf's ports, and those of the spines towards it."""
KEPT = 0.99
"""Of the polls that belong into the time, so many have to be made for the pace to count as kept."""
MEASURED_S = 10.0
LEAVES_OF_1000_PORTS = 25
TOO_MANY_LEAVES = 65
"""A topology has 64 at most; a machine that keeps the pace of them all has room for more ports than are told."""
SCHEMES = {"mlfq-adaptive": (50, TOO_MANY_LEAVES), "sluice": (15, TOO_MANY_LEAVES)}
"""Schemes whose thresholds follow counters (of completed flows; of everything), and where to look for the largest
fabric: the leaves to begin with, and those that are surely too many."""


# ── Decoding ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Decoding:
    """Entries of a flow statistics reply in a second, from bytes to counters by port and tag."""

    ours_per_s: float
    os_ken_per_s: float


def measure_decoding(ports: int = 100) -> dict[str, Decoding]:
    """The counters of completed flows, and those by tag; both parsers on the same bytes, in turns."""
    policy = Policy.from_document({"scheme": "mlfq-adaptive"})
    numbers = np.arange(1, ports + 1)
    queues = queue_map(policy, policy.thresholds)
    bodies = {
        "completed flows": (
            b"".join(map(entry, completed_rules(numbers.tolist()))),
            openflow.completed_counts,
        ),
        "counters by tag": (
            b"".join(map(entry, map_rules(dict.fromkeys(numbers.tolist(), queues)))),
            openflow.carried_counts,
        ),
    }
    return {name: _decoding(body, lambda b, c=count: c(b, numbers)) for name, (body, count) in bodies.items()}  # type: ignore[misc]


def _decoding(body: bytes, count: Callable[[bytes], object]) -> Decoding:
    entries = len(list(_by_os_ken(body)))
    ours, theirs = [], []
    for _ in range(5):
        ours.append(min(_seconds(lambda: count(body)) for _ in range(10)))
        theirs.append(_seconds(lambda: list(_by_os_ken(body))))
    return Decoding(entries / float(np.median(ours)), entries / float(np.median(theirs)))


def _by_os_ken(body: bytes) -> Any:
    at = 0
    while at < len(body):
        stats = parser.OFPFlowStats.parser(body, at)
        yield stats.cookie, stats.packet_count, stats.byte_count
        at += stats.length


def _seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


# ── The loop ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Loop:
    """A controller with so many ports."""

    ports: int
    switches: int
    kept: float
    """Part of the polls that belong into the time."""
    p99_gap_ms: float
    """Between two polls of one switch."""
    cpu: float
    """Share of one core that the controller took."""
    p50_ms: float
    p99_ms: float
    """From counters sent by a switch to its acknowledgement of the rules that followed."""
    entries_per_s: float
    rules_per_s: float

    @property
    def keeps_pace(self) -> bool:
        return self.kept >= KEPT and self.p99_gap_ms < 2 * INTERVAL_MS


def measure_loop(scheme: str, leaves: int, seconds: float = MEASURED_S, store_url: str | None = None) -> Loop:
    """A controller and its switches, each pinned to a core; with a store of its own, or an empty one of somebody's."""
    topology = topologies.build(
        "leaf-spine",
        leaves=leaves,
        spines=SPINES,
        hosts_per_leaf=HOSTS_A_LEAF,
        host_rate_bps=10 * 10**9,
        core_rate_bps=40 * 10**9,
    )
    policy = Policy.from_document(
        {"scheme": scheme, "interval_ms": INTERVAL_MS, "window_ms": 5 * INTERVAL_MS}
    )
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        url = store_url or f"sqlite:///{folder}/store.db"
        return _Run(topology, policy, Path(folder), seconds, url).measure()


class SwitchesEndedEarly(RuntimeError):
    """They have waited for polls in vain."""


class _Run:
    def __init__(
        self, topology: Topology, policy: Policy, folder: Path, seconds: float, store_url: str
    ) -> None:
        self._topology, self._policy, self._folder, self._seconds = topology, policy, folder, seconds
        self._store_url = store_url
        self._engine = open_store(self._store_url)
        desired.put_topology(self._engine, topology)
        self._version = desired.put_policy(self._engine, policy, "bench")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]

    def measure(self) -> Loop:
        cores = sorted(os.sched_getaffinity(0))
        switches = self._start_switches(cores[-1])
        controller = self._start_controller(cores[0])
        try:
            said = switches.stdout
            assert said is not None
            self._hear(said, "measuring")
            before = cpu_seconds(controller.pid)
            self._hear(said, "measured")
            cpu = (cpu_seconds(controller.pid) - before) / self._seconds
            self._freeze()
            stop(controller)
            record = json.loads(said.readline())
        except (OSError, ValueError) as error:
            raise SwitchesEndedEarly(
                f"the switches ended early; the controller says: {self._log[-2000:]}"
            ) from error
        finally:
            stop(controller)
            stop(switches)
        self._check_maps(record["queues"])
        return self._evaluate(record, cpu)

    @property
    def _log(self) -> str:
        return (self._folder / "controller.log").read_text()

    def _start_controller(self, core: int) -> subprocess.Popen[bytes]:
        argv = ["taskset", "--cpu-list", str(core), sys.executable, "-m", "controller"]
        argv += ["--store", self._store_url, "--listen", f"127.0.0.1:{self._port}"]
        return spawn(argv, log_file=self._folder / "controller.log")

    def _start_switches(self, core: int) -> subprocess.Popen[bytes]:
        """They wait until the controller listens, and then until it has been polling for a while."""
        order = {
            "topology": self._topology.to_document(),
            "policy": self._policy.to_document(),
            "port": self._port,
            "seconds": self._seconds,
            "warm_polls": 30,
            "limit_s": 120.0,
        }
        path = self._folder / "order.json"
        path.write_text(json.dumps(order) + "\n")
        argv = ["taskset", "--cpu-list", str(core), sys.executable, "-m", "sluice.bench.switches"]
        with path.open("rb") as ordered:
            return subprocess.Popen(argv, stdin=ordered, stdout=subprocess.PIPE, preexec_fn=die_with_parent)

    def _hear(self, said: Any, word: str) -> None:
        line = said.readline().decode().strip()
        if line != word:
            raise ValueError(f"waited for {word!r}, heard {line!r}")

    def _freeze(self) -> None:
        """Come to rest: what is under way when a controller ends is on the switch and in no row yet."""
        frozen = replace(self._policy, overrides=(Override(("*",), None, True),))
        version = desired.put_policy(self._engine, frozen, "bench")

        def applied() -> bool:
            newest = desired.policy_version(self._engine, version)
            return newest is not None and newest.applied_at is not None

        wait_until(applied, "the ports are frozen", timeout_s=60)

    def _check_maps(self, queues: dict[str, list[list[int]]]) -> None:
        """What the switches hold in the end is what the controller says that it has installed."""
        said = observed.latest_thresholds(self._engine)
        for name, ports in self._topology.ports_of.items():
            for port, held in zip(ports, queues[name], strict=True):
                wanted = queue_map(self._policy, said[port.id].thresholds_bytes)
                if tuple(held) != wanted:
                    raise RuntimeError(f"{port.id} does not hold what its thresholds say")

    def _evaluate(self, record: dict[str, Any], cpu: float) -> Loop:
        polls = record["polls_at"]
        expected = len(polls) * self._seconds * 1000 / INTERVAL_MS
        gaps = np.concatenate([np.diff(at) for at in polls])
        took = record["took_s"] or [float("nan")]
        return Loop(
            ports=len(self._topology.ports),
            switches=len(self._topology.switches),
            kept=sum(map(len, polls)) / expected,
            p99_gap_ms=float(np.quantile(gaps, 0.99)) * 1000,
            cpu=cpu,
            p50_ms=float(np.quantile(took, 0.5)) * 1000,
            p99_ms=float(np.quantile(took, 0.99)) * 1000,
            entries_per_s=record["entries"] / self._seconds,
            rules_per_s=record["modified"] / self._seconds,
        )


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has taken, all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def most_leaves(scheme: str, start: int, most: int, seconds: float = MEASURED_S) -> Loop | None:
    """The largest fabric whose pace is kept, to a tenth, beginning with one that is thought to be; None: none is."""
    best: Loop | None = None
    low, high, middle = 0, most, start
    while high - low > max(1, low // 10):
        loop = _kept_loop(scheme, middle, seconds)
        low, high = (middle, high) if loop else (low, middle)
        best, middle = loop or best, (low + high + 1) // 2
    return best


def _kept_loop(scheme: str, leaves: int, seconds: float) -> Loop | None:
    """A loop that keeps its pace; None where it does not, or does not even come to polling."""
    try:
        loop = measure_loop(scheme, leaves, seconds)
    except SwitchesEndedEarly:
        return None
    return loop if loop.keeps_pace else None
