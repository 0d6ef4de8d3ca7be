# SPDX-License-Identifier: Apache-2.0
"""The benchmark's parts: the cost of data plane, control loop, store and simulator, as values with
their baselines.

`sluice bench` (make bench) prints a table and writes bench.json: name → value, unit, baseline, ratio.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.table import Table

from sluice.bench.acks import measure_acks
from sluice.bench.connections import measure_connections
from sluice.bench.control_share import measure_control_share
from sluice.bench.forwarding import measure_forwarding
from sluice.bench.host_link import measure_link
from sluice.bench.results import Result
from sluice.bench.simulator_results import simulator_results
from sluice.bench.sockopt import measure_hook
from sluice.bench.tagger import measure_share
from sluice.bench.throughput import Measured, measure_throughput
from sluice.dataplane.bench import measure as packet_costs
from sluice.policy import tags
from sluice.policy.errors import SluiceError
from sluice.policy.schema.desired import Policy, queue_map
from sluice.policy.thresholds.adaptation import Adaptation, PortCounters
from sluice.policy.wire.records import FlowRecord
from sluice.runs.fabrics import need_root
from sluice.store.engine import open_store
from sluice.store.flows import add_flows
from sluice.terminal import console

ROUNDS = 5
THROUGHPUT_ROUNDS = 9


def run_benchmarks(out: Path, only: Sequence[str] = ()) -> int:
    """Measure all parts, or the named ones; print the table and write the file."""
    unknown = [name for name in only if name not in PARTS]
    if unknown:
        raise SluiceError(f"bench has no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    if not set(only or PARTS) <= WITHOUT_ROOT:
        need_root()
    results = []
    for name in only or PARTS:
        for result in PARTS[name]():
            results.append(result)
            console.print(f"{result.name}: {result.value:,.4g} {result.unit}", highlight=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    document = {r.name: {**asdict(r), "ratio": r.ratio} for r in results}
    out.write_text(json.dumps(document, indent=2) + "\n")
    console.print(_table(results))
    console.print(f"results: {out}")
    return 0


def _packet_results() -> Iterator[Result]:
    for cost in packet_costs():
        name = f"{cost.program} program"
        yield Result(name, cost.ns_per_packet, "ns/packet", cost.empty_ns_per_packet, "an empty program")


def _throughput_results() -> Iterator[Result]:
    """Throughput without marks: two namespaces, a virtual cable, one flow, the variants in turn."""
    measured = measure_throughput(THROUGHPUT_ROUNDS)
    for variant, rates in measured.items():
        yield _against_cubic(f"throughput {variant.label}", "Gb/s", rates.bps)
    for variant, rates in measured.items():
        yield _against_cubic(f"throughput per CPU {variant.label}", "Gb/CPU s", rates.bits_per_cpu_s)


def _tagger_results() -> Iterator[Result]:
    for link, share in measure_share().items():
        yield Result(f"tagger, share of a flow's CPU time, {link}", 100 * share, "%")


def _control_share_results() -> Iterator[Result]:
    for what, share in measure_control_share().items():
        yield Result(f"{what}, share of a flow's CPU time", 100 * share, "%")


def _ack_results() -> Iterator[Result]:
    for case, segments in measure_acks().items():
        yield Result(f"segments for each ACK, {case}", segments, "segments")


def _link_results() -> Iterator[Result]:
    """A packet from the program's call to the device, by what is at the host's own link."""
    cost = measure_link()
    what = "a packet to the host's own link"
    yield Result(f"{what}, tagger and {cost.qdisc}", cost.queues, "ns", cost.tagger, "tagger and one queue")
    yield Result(f"{what}, tagger and one queue", cost.tagger, "ns", cost.plain, "one queue")


def _forwarding_results() -> Iterator[Result]:
    """ovs-vswitchd at the demonstration's load and at a fifth of it, in turn with and without topologies.turns."""
    for cost in measure_forwarding().values():
        name = f"ovs-vswitchd, a packet-hop at {cost.hops_per_s:,.0f} a second"
        yield Result(name, cost.us, "us", cost.us_without, "without topologies.turns", cost.ratio)


def _against_cubic(name: str, unit: str, found: Measured) -> Result:
    cubic = statistics.median(found.baselines)
    return Result(name, found.median / 1e9, unit, cubic / 1e9, "cubic", found.ratio)


def _connection_results() -> Iterator[Result]:
    """Connections of 100 bytes over the loopback device, with both ends watched."""
    rates = measure_connections()
    name, without = "short connections + flow watch", rates.unwatched_per_cpu_s
    yield Result(name, rates.watched_per_cpu_s, "connections/CPU s", without, "without", rates.ratio)
    yield Result("flow watch, a record made and spooled", rates.us_per_record, "us")


def _hook_results() -> Iterator[Result]:
    """The extra cost of an ordinary socket option, for a program that does not use Sluice."""
    for cost in measure_hook():
        yield Result(f"{cost.call} + hook", cost.with_ns, "ns", cost.without_ns, "without")


def _median_s(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def _policy_results() -> Iterator[Result]:
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

        yield Result(what, _median_s(adjust) / len(steps) / ports * 1e6, "us")


def _control_results() -> Iterator[Result]:
    """The decoder compared with os-ken's, and a controller that has one core and 100 ms intervals."""
    from sluice.bench.control import (
        INTERVAL_MS,
        LEAVES_OF_1000_PORTS,
        SCHEMES,
        measure_decoding,
        measure_loop,
        most_leaves,
    )

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


def _store_results() -> Iterator[Result]:
    """Flow records into SQLite, in batches of the size that agents deliver."""
    batch = 200

    def records(base: int) -> list[FlowRecord]:
        made = FlowRecord(
            "", "h1", "h2", 10_000, "small", 1.0, 2e3, 1e3, None, None, 0, "cubic", "tcp", "finished"
        )
        return [replace(made, id=f"b/{base + i}") for i in range(batch)]

    with tempfile.TemporaryDirectory() as folder:
        engine = open_store(f"sqlite:///{folder}/store.db")
        batches = iter(range(0, 10**9, batch))

        def ingest() -> None:
            for _ in range(20):
                add_flows(engine, records(next(batches)))

        yield Result("flow records kept", 20 * batch / _median_s(ingest), "records/s")
        engine.dispose()


def _ingest_results() -> Iterator[Result]:
    """Flow records to a real web process for a minute, while dashboards watch, on each kind of store."""
    from sluice.bench.ingest import DASHBOARDS, LOOP_LEAVES, measure_ingestion
    from sluice.bench.stores import STORES

    for store in STORES:
        found = measure_ingestion(store, leaves=LOOP_LEAVES)
        what = f"ingestion, {store}"
        yield Result(what, found.accepted_per_s, "records/s", found.asked_per_s, "asked")
        yield Result(f"{what}, latency p50", found.p50_ms, "ms")
        yield Result(f"{what}, latency p99", found.p99_ms, "ms")
        yield Result(f"{what}, lost or doubled", found.kept - found.delivered, "records")
        yield Result(f"{what}, each of {DASHBOARDS} dashboards", found.snapshots_per_s, "snapshots/s")
        yield Result(f"{what}, CPU of the web process", found.server_cpu, "cores")
        if found.loop is not None:
            beside = f"{what}, control loop on the same store, {found.loop.ports} ports"
            yield Result(f"{beside}, polls in time", found.loop.kept, "of all")
            yield Result(f"{beside}, p99 from counters to rules", found.loop.p99_ms, "ms")


def _record_results() -> Iterator[Result]:
    """Flow records into PostgreSQL beside a plain table, and the heartbeats of a thousand agents."""
    from sluice.bench.records import measure_records
    from sluice.bench.thousand_agents import measure_heartbeats

    found = measure_records()
    new, old, what, plain = found.store, found.plain, "flow records into PostgreSQL", "a plain table"
    yield Result(what, new.per_s, "records/s", old.per_s, plain)
    yield Result(f"{what}, CPU of the server", new.server_us, "us/record", old.server_us, plain)
    yield Result(f"{what}, a batch, p50", new.p50_ms, "ms", old.p50_ms, plain)
    yield Result(f"{what}, a batch, p99", new.p99_ms, "ms", old.p99_ms, plain, found.p99_ratio)
    yield Result("100,000 of them removed", found.forgotten_s, "s", found.plain_forgotten_s, plain)
    for workers in (1, 2):
        beats, name = measure_heartbeats(workers=workers), f"heartbeats, PostgreSQL, web processes: {workers}"
        yield Result(name, beats.per_s, "a second", beats.asked_per_s, "agents")
        yield Result(f"{name}, p99", beats.p99_ms, "ms", beats.p50_ms, "median")


def _durability_results() -> Iterator[Result]:
    """Deliveries into SQLite and records into a spool, written to the device or not, on the disk of temporary files."""
    from sluice.bench.durability import BATCH, measure_spool, measure_store

    for name, synced, unsynced in (
        (f"a delivery of {BATCH} records into SQLite", measure_store(True), measure_store(False)),
        ("a record into a spool, synced twice a second", measure_spool(True), measure_spool(False)),
    ):
        yield Result(f"{name}, median", synced.p50_us, "us", unsynced.p50_us, "without fsync")
        yield Result(f"{name}, p99", synced.p99_us, "us", unsynced.p99_us, "without fsync")


def _unit_results() -> Iterator[Result]:
    """What one more port, heartbeat, record and packet-hop cost, for the plan of a large network."""
    from sluice.bench.control import SCHEMES
    from sluice.bench.units import measure_packet_hop, measure_ports, measure_web

    for scheme in SCHEMES:
        port = measure_ports(scheme)
        yield Result(f"controller, {scheme}, a port and interval", port.us_an_interval, "us")
        yield Result(f"controller, {scheme}, memory of a port", port.kib, "KiB")
    web = measure_web()
    yield Result("web process, a heartbeat", web.us_a_heartbeat, "us")
    yield Result("web process, a flow record into SQLite", web.us_a_record, "us")
    yield Result("simulator, a packet-hop at 1,024 hosts", measure_packet_hop(), "ns")


PARTS: Mapping[str, Callable[[], Iterator[Result]]] = {
    "packets": _packet_results,
    "throughput": _throughput_results,
    "tagger": _tagger_results,
    "controls": _control_share_results,
    "link": _link_results,
    "forwarding": _forwarding_results,
    "acks": _ack_results,
    "connections": _connection_results,
    "hook": _hook_results,
    "policy": _policy_results,
    "control": _control_results,
    "store": _store_results,
    "records": _record_results,
    "durability": _durability_results,
    "ingest": _ingest_results,
    "simulator": simulator_results,
    "units": _unit_results,
}


WITHOUT_ROOT = {
    "policy",
    "control",
    "store",
    "records",
    "durability",
    "ingest",
    "simulator",
    "units",
}


def _table(results: list[Result]) -> Table:
    table = Table(title="sluice bench", title_justify="left")
    for heading in ("what", "value", "unit", "baseline", "ratio"):
        table.add_column(heading, justify="right" if heading in ("value", "ratio") else "left")
    for r in results:
        baseline = f"{r.baseline:,.4g} ({r.baseline_name})" if r.baseline is not None else "–"
        table.add_row(r.name, f"{r.value:,.4g}", r.unit, baseline, f"{r.ratio:.3f}" if r.ratio else "–")
    return table
