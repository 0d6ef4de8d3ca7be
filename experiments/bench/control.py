# SPDX-License-Identifier: Apache-2.0
"""The cost of the control loop: decoding compared with os-ken's parser, and the whole loop with many switches.

One process plays all switches (experiments/bench/switches.py). The controller is another process, with
a core to itself. A loop counts only if it kept its pace, and if the switches' maps in the end
match the controller's thresholds.
"""

import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from os_ken.ofproto import ofproto_v1_3_parser as parser
from sqlalchemy import Engine

from experiments.bench import switches
from experiments.bench.measuring import Result, cpu_seconds, in_turn, median_s, peak_kib
from sluice import topologies
from sluice.controller.openflow import counters
from sluice.controller.pipeline import ends_rules, map_rules
from sluice.policy import tags
from sluice.policy.network.graph import INGRESS_GROUPS, TRUNKS, Topology
from sluice.policy.schema.desired import Override, Policy, queue_map
from sluice.policy.thresholds.adaptation import Adaptation, PortCounters
from sluice.runs.services import service_argv
from sluice.runtime.process import spawn, stop
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


def measure_decoding(ports: int = 100) -> dict[str, tuple[float, float]]:
    """Decode the counters of completed flows, and those by tag. Both parsers read the same bytes, in turns.

    Returns entries of a flow statistics reply per second, from bytes to counters by port and tag: ours and os-ken's.
    """
    policy = Policy.from_document({"scheme": "mlfq-adaptive"})
    numbers = np.arange(1, ports + 1)
    queues = queue_map(policy, policy.thresholds)
    ends = ends_rules(numbers.tolist(), range(INGRESS_GROUPS))
    carried = map_rules(dict.fromkeys(numbers.tolist(), queues))
    speeds = {}
    for name, rules, count in (
        ("completed flows", ends, counters.completed_counts),
        ("counters by tag", carried, counters.carried_counts),
    ):
        body = b"".join(map(switches.entry, rules))
        speeds[name] = _decoding(body, lambda body, count=count: count(body, numbers))  # type: ignore[misc]
    return speeds


def _decoding(body: bytes, count: Callable[[bytes], object]) -> tuple[float, float]:
    entries = len(list(_by_os_ken(body)))
    ours, theirs = in_turn(
        5,
        lambda: min(_seconds(lambda: count(body)) for _ in range(10)),
        lambda: _seconds(lambda: list(_by_os_ken(body))),
    )
    return entries / float(np.median(ours)), entries / float(np.median(theirs))


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
    peak_kib: float
    """The most resident memory that the controller has used."""
    p50_ms: float
    p99_ms: float
    """From the moment a switch sends counters to its acknowledgement of the rules that follow from them."""
    entries_per_s: float
    rules_per_s: float

    @property
    def keeps_pace(self) -> bool:
        return self.kept >= KEPT and self.p99_gap_ms < 2 * INTERVAL_MS


class SwitchesEndedEarly(RuntimeError):
    """The switches waited too long for polls."""


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
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        url, log = store_url or f"sqlite:///{folder}/store.db", Path(folder) / "controller.log"
        engine = open_store(url)
        desired.put_topology(engine, topology)
        desired.put_policy(engine, policy, "bench")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        context = multiprocessing.get_context("spawn")
        told, tells = context.Pipe(duplex=False)
        played = context.Process(
            target=switches.play, args=(topology, policy, port, seconds, cores[-1], tells)
        )
        played.start()
        tells.close()
        on_first_core = ["taskset", "--cpu-list", str(cores[0]), *service_argv("controller")]
        controller = spawn([*on_first_core, "--store", url, "--listen", f"127.0.0.1:{port}"], log_file=log)
        try:
            told.recv()  # the measurement begins
            before_s = cpu_seconds(controller.pid)
            told.recv()  # it has ended
            cpu = (cpu_seconds(controller.pid) - before_s) / seconds
            _freeze(engine, policy)
            most_kib = peak_kib(controller.pid)
            stop(controller)
            record: Mapping[str, Any] = told.recv()
        except (EOFError, OSError) as error:
            raise SwitchesEndedEarly(
                f"the switches ended early; the controller's log ends with: {log.read_text()[-2000:]}"
            ) from error
        finally:
            stop(controller)
            played.kill()
            played.join()
        _check_maps(engine, topology, policy, record["queues"])
    polls, took_s = record["polls_at"], record["took_s"] or [float("nan")]
    gaps_s = np.concatenate([np.diff(at) for at in polls])
    return Loop(
        ports=len(topology.ports),
        switches=len(topology.switches),
        kept=sum(map(len, polls)) / (len(polls) * seconds * 1000 / INTERVAL_MS),
        p99_gap_ms=float(np.quantile(gaps_s, 0.99)) * 1000,
        cpu=cpu,
        peak_kib=most_kib,
        p50_ms=float(np.quantile(took_s, 0.5)) * 1000,
        p99_ms=float(np.quantile(took_s, 0.99)) * 1000,
        entries_per_s=record["entries"] / seconds,
        rules_per_s=record["modified"] / seconds,
    )


def _freeze(engine: Engine, policy: Policy) -> None:
    """Freeze the thresholds. Otherwise a last change may reach a switch but not yet the store."""
    frozen = replace(policy, overrides=(Override(("*",), None),))
    version = desired.put_policy(engine, frozen, "bench")

    def applied() -> bool:
        newest = desired.policy_version(engine, version)
        return newest is not None and newest.applied_at is not None

    wait_until(applied, "the ports are frozen", timeout_s=60)


def _check_maps(
    engine: Engine, topology: Topology, policy: Policy, queues: Mapping[str, npt.NDArray[np.int64]]
) -> None:
    """Raise RuntimeError unless the switches' queue maps match the thresholds that the
    controller recorded."""
    recorded = observed.latest_thresholds(engine)
    for name, ports in topology.ports_of.items():
        for port, held in zip(ports, queues[name], strict=True):
            if tuple(held) != queue_map(policy, recorded[port.id].thresholds_bytes):
                raise RuntimeError(f"the queue map of {port.id} does not match its thresholds")


def most_leaves(scheme: str, start: int, most: int) -> Loop | None:
    """Return the loop of the largest fabric that keeps its pace, to a tenth, or None. `start` is
    the first guess."""
    best: Loop | None = None
    low, high, middle = 0, most, start
    while high - low > max(1, low // 10):
        try:
            loop = measure_loop(scheme, middle)
        except SwitchesEndedEarly:  # the controller polled too late
            loop = None
        loop = loop if loop and loop.keeps_pace else None
        low, high = (middle, high) if loop else (low, middle)
        best, middle = loop or best, (low + high + 1) // 2
    return best


def policy_results() -> Iterator[Result]:
    """One adjustment, from counters to thresholds and queue map, for one port and for a thousand at once."""
    policy = Policy.from_document({"scheme": "mlfq-adaptive", "queues": 8})
    for ports, what in ((1, "adjustment of one port"), (1000, "adjustment of 1,000 ports, each")):
        rng = np.random.default_rng(1)
        steps = rng.integers(0, 5, (100, ports, tags.ATTAINED_BUCKETS)).cumsum(axis=0)

        def adjust(steps: npt.NDArray[np.int64] = steps, ports: int = ports) -> None:
            adaptation = Adaptation(policy, [None] * ports)
            for i, counted in enumerate(steps):
                carried = np.full((ports, tags.TAG_COUNT), i * 10**9)
                completed = np.zeros((ports, INGRESS_GROUPS, tags.ATTAINED_BUCKETS), np.int64)
                completed[:, TRUNKS] = counted
                adaptation.observe(i * 100_000_000, PortCounters(carried // 1000, carried, completed))
                for row in np.flatnonzero(adaptation.adjust()):
                    queue_map(policy, adaptation.thresholds(int(row)))

        yield Result(what, median_s(adjust) / len(steps) / ports * 1e6, "us")


def control_results() -> Iterator[Result]:
    """The decoder compared with os-ken's, and a controller that has one core and 100 ms intervals."""
    for what, (ours_per_s, os_ken_per_s) in measure_decoding().items():
        yield Result(f"decoding {what}", ours_per_s, "entries/s", os_ken_per_s, "os-ken")
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
