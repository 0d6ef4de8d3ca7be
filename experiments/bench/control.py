# SPDX-License-Identifier: Apache-2.0
"""The cost of the control loop: decoding compared with os-ken's parser, and the whole loop with many switches.

One process plays all switches (experiments/bench/switches.py). The controller is another process, with
a core to itself. A loop counts only if it kept its pace, and if the switches' maps in the end
match the controller's thresholds.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from os_ken.ofproto import ofproto_v1_3_parser as parser

from experiments.bench.measuring import Result, median_s
from experiments.bench.switches import entry
from sluice import topologies
from sluice.controller import openflow
from sluice.controller.pipeline import ends_rules, map_rules
from sluice.policy import tags
from sluice.policy.network.graph import INGRESS_GROUPS, Topology
from sluice.policy.schema.desired import Override, Policy, queue_map
from sluice.policy.thresholds.adaptation import Adaptation, PortCounters
from sluice.runs.services import service_argv
from sluice.runtime.process import die_with_parent, spawn, stop
from sluice.runtime.wait import wait_until
from sluice.store import desired, observed
from sluice.store.engine import open_store

INTERVAL_MS = 100
HOSTS_A_LEAF, SPINES = 32, 4
KEPT = 0.99
"""The least share of the due polls that the controller must make. With fewer it did not keep its pace."""
MEASURED_S = 10.0
LEAVES_OF_1000_PORTS = 25
TOO_MANY_LEAVES = 65
"""A topology has 64 leaves at most. With all of them in pace, the true limit is above the largest fabric."""
SCHEMES = {"mlfq-adaptive": (50, TOO_MANY_LEAVES), "sluice": (15, TOO_MANY_LEAVES)}
"""Scheme → (leaves to start with, leaves that are surely too many), for the search for the largest
fabric. One scheme's thresholds follow the counters of completed flows, the other's follow all
counters."""


# ── Decoding ───────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Decoding:
    """Entries of a flow statistics reply per second, from bytes to counters by port and tag."""

    ours_per_s: float
    os_ken_per_s: float


def measure_decoding(ports: int = 100) -> dict[str, Decoding]:
    """Decode the counters of completed flows, and those by tag. Both parsers read the same bytes, in turns."""
    policy = Policy.from_document({"scheme": "mlfq-adaptive"})
    numbers = np.arange(1, ports + 1)
    queues = queue_map(policy, policy.thresholds)
    bodies = {
        "completed flows": (
            b"".join(map(entry, ends_rules(numbers.tolist(), range(INGRESS_GROUPS)))),
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
    """What a controller with that many ports achieved."""

    ports: int
    switches: int
    kept: float
    """Share of the due polls that it made."""
    p99_gap_ms: float
    """99th percentile of the time between two polls of one switch."""
    cpu: float
    """Share of one core that the controller used."""
    switches_cpu: float
    """Share of one core that the switches used."""
    p50_ms: float
    p99_ms: float
    """From the moment a switch sends counters to its acknowledgement of the rules that follow from them."""
    entries_per_s: float
    rules_per_s: float

    @property
    def keeps_pace(self) -> bool:
        return self.kept >= KEPT and self.p99_gap_ms < 2 * INTERVAL_MS


def measure_loop(scheme: str, leaves: int, seconds: float = MEASURED_S, store_url: str | None = None) -> Loop:
    """Run a controller and its switches, each pinned to a core. Without `store_url` the store is a new file."""
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
    """The switches waited too long for polls."""


class _Run:
    def __init__(
        self,
        topology: Topology,
        policy: Policy,
        folder: Path,
        seconds: float,
        store_url: str,
    ) -> None:
        self._topology, self._policy, self._folder, self._seconds = topology, policy, folder, seconds
        self._store_url = store_url
        self._engine = open_store(self._store_url)
        desired.put_topology(self._engine, topology)
        self._version = desired.put_policy(self._engine, policy, "bench")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]

    def measure(self) -> Loop:
        cores = sorted(os.sched_getaffinity(0))
        switches = self._start_switches(cores[-1])
        on_first_core = ["taskset", "--cpu-list", str(cores[0]), *service_argv("controller")]
        controller = spawn(
            [*on_first_core, "--store", self._store_url, "--listen", f"127.0.0.1:{self._port}"],
            log_file=self._log,
        )
        try:
            said = switches.stdout
            assert said is not None
            self._hear(said, "measuring")
            before = cpu_seconds(controller.pid), cpu_seconds(switches.pid)
            self._hear(said, "measured")
            after = cpu_seconds(controller.pid), cpu_seconds(switches.pid)
            self._freeze()
            stop(controller)
            record = json.loads(said.readline())
        except (OSError, ValueError) as error:
            raise SwitchesEndedEarly(
                f"the switches ended early; the controller's log ends with: {self._log.read_text()[-2000:]}"
            ) from error
        finally:
            for process in (controller, switches):
                stop(process)
        self._check_maps(record["queues"])
        cpu, switches_cpu = ((end - begin) / self._seconds for begin, end in zip(before, after, strict=True))
        return self._evaluate(record, cpu, switches_cpu)

    @property
    def _log(self) -> Path:
        return self._folder / "controller.log"

    def _start_switches(self, core: int) -> subprocess.Popen[bytes]:
        """Start the process of switches. It waits for the controller to listen, then for its first polls."""
        order = {
            "topology": self._topology.to_document(),
            "policy": self._policy.to_document(),
            "port": self._port,
            "seconds": self._seconds,
            "warm_polls": 30,
            "limit_s": 240.0,
        }
        path = self._folder / "order.json"
        path.write_text(json.dumps(order) + "\n")
        argv = ["taskset", "--cpu-list", str(core), sys.executable, "-m", "experiments.bench.switches"]
        with path.open("rb") as ordered:
            return subprocess.Popen(argv, stdin=ordered, stdout=subprocess.PIPE, preexec_fn=die_with_parent)

    def _hear(self, said: Any, word: str) -> None:
        line = said.readline().decode().strip()
        if line != word:
            raise ValueError(f"the switches reported {line!r} instead of {word!r}")

    def _freeze(self) -> None:
        """Freeze the thresholds. Otherwise a last change may reach a switch but not yet the store."""
        frozen = replace(self._policy, overrides=(Override(("*",), None, True),))
        version = desired.put_policy(self._engine, frozen, "bench")

        def applied() -> bool:
            newest = desired.policy_version(self._engine, version)
            return newest is not None and newest.applied_at is not None

        wait_until(applied, "the ports are frozen", timeout_s=60)

    def _check_maps(self, queues: dict[str, list[list[int]]]) -> None:
        """Raise RuntimeError unless the switches' queue maps match the thresholds that the
        controller recorded."""
        said = observed.latest_thresholds(self._engine)
        for name, ports in self._topology.ports_of.items():
            for port, held in zip(ports, queues[name], strict=True):
                wanted = queue_map(self._policy, said[port.id].thresholds_bytes)
                if tuple(held) != wanted:
                    raise RuntimeError(f"the queue map of {port.id} does not match its thresholds")

    def _evaluate(self, record: dict[str, Any], cpu: float, switches_cpu: float) -> Loop:
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
            switches_cpu=switches_cpu,
            p50_ms=float(np.quantile(took, 0.5)) * 1000,
            p99_ms=float(np.quantile(took, 0.99)) * 1000,
            entries_per_s=record["entries"] / self._seconds,
            rules_per_s=record["modified"] / self._seconds,
        )


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, over all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def most_leaves(scheme: str, start: int, most: int, seconds: float = MEASURED_S) -> Loop | None:
    """Return the loop of the largest fabric that keeps its pace, to a tenth, or None. `start` is
    the first guess."""
    best: Loop | None = None
    low, high, middle = 0, most, start
    while high - low > max(1, low // 10):
        loop = _kept_loop(scheme, middle, seconds)
        low, high = (middle, high) if loop else (low, middle)
        best, middle = loop or best, (low + high + 1) // 2
    return best


def _kept_loop(scheme: str, leaves: int, seconds: float) -> Loop | None:
    """Return a loop that keeps its pace; None if it does not, or if the controller polls too late."""
    try:
        loop = measure_loop(scheme, leaves, seconds)
    except SwitchesEndedEarly:
        return None
    return loop if loop.keeps_pace else None


def policy_results() -> Iterator[Result]:
    """One adjustment, from counters to thresholds and queue map, for one port and for a thousand at once."""
    policy = Policy.from_document({"scheme": "mlfq-adaptive", "queues": 8})
    for ports, what in ((1, "adjustment of one port"), (1000, "adjustment of 1,000 ports, each")):
        rng = np.random.default_rng(1)
        steps = rng.integers(0, 5, (100, ports, tags.ATTAINED_BUCKETS)).cumsum(axis=0)

        def adjust(steps: npt.NDArray[np.int64] = steps, ports: int = ports) -> None:
            adaptation = Adaptation(policy, [None] * ports)
            for i, counters in enumerate(steps):
                adaptation.observe(i * 100_000_000, PortCounters.of_completed(counters))
                for row in np.flatnonzero(adaptation.adjust()):
                    queue_map(policy, adaptation.thresholds(int(row)))

        yield Result(what, median_s(adjust) / len(steps) / ports * 1e6, "us")


def control_results() -> Iterator[Result]:
    """The decoder compared with os-ken's, and a controller that has one core and 100 ms intervals."""
    for what, speed in measure_decoding().items():
        yield Result(f"decoding {what}", speed.ours_per_s, "entries/s", speed.os_ken_per_s, "os-ken")
    for scheme, (start, most) in SCHEMES.items():
        loop = measure_loop(scheme, LEAVES_OF_1000_PORTS)
        of = f"control loop, {scheme}, {loop.ports:,} ports"
        yield Result(f"{of}, {INTERVAL_MS} ms intervals kept", 100 * loop.kept, "%")
        yield Result(f"{of}, CPU", 100 * loop.cpu, "% of a core")
        yield Result(f"{of}, counters", loop.entries_per_s, "entries/s")
        yield Result(f"{of}, rules changed", loop.rules_per_s, "rules/s")
        yield Result(f"{of}, counters to rules, p99", loop.p99_ms, "ms", loop.p50_ms, "median")
        best = most_leaves(scheme, start, most)
        most_ports = best.ports if best else 0
        yield Result(f"control loop, {scheme}, most ports that keep the pace", most_ports, "ports")
