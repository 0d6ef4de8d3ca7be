# SPDX-License-Identifier: Apache-2.0
"""/metrics for Prometheus: the store's totals as counters and histograms, and its state as gauges.

Each request reads all of it from the store. So every web worker gives the same answer. It includes
the controller, which serves no requests itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from flask import Blueprint, Response
from prometheus_client import CollectorRegistry, core, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from sqlalchemy import Engine

from sluice.policy.wire.agents import HostHeartbeat, PortHeartbeat, QueueCounters, SimulatorHeartbeat
from sluice.store import ages, observed
from sluice.store.desired import current_topology, policy_in_force
from sluice.store.totals import METRICS, Metric, Total, all_totals, bound_text, flush
from sluice.webui import __version__
from sluice.webui.network import controller_document
from sluice.webui.ports import capacities_bps
from sluice.webui.problems import is_alive, validity_document
from sluice.webui.services import services

metrics = Blueprint("metrics", __name__)

MOST_PORTS = 4096
"""The most ports with counters of port programs in an answer."""


@metrics.get("/metrics")
def exposition() -> Response:
    shared = services()
    with shared.ingestion.alone():
        flush(shared.engine, shared.tally)  # so that the answer includes what this worker has counted
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StoreCollector(shared.engine))
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


class StoreCollector(Collector):
    """The store's totals and state as Prometheus families."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Family]:
        yield from total_families(all_totals(self._engine))
        yield from _network_families(self._engine)
        yield from _port_families(self._engine)
        yield from _agent_families(observed.all_agents(self._engine), ages.age_s(self._engine))
        yield _sanction_family(observed.all_sanctions(self._engine))
        yield _validity_family(self._engine)


def total_families(totals: Mapping[str, list[Total]]) -> Iterator[Family]:
    """Yield a family for each metric, also for a metric without any count."""
    for metric in METRICS:
        rows = totals.get(metric.name, [])
        if not rows and not metric.labels:
            rows = [Total((), 0.0, {}, 0.0)]
        if metric.buckets:
            histogram = core.HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
            for row in rows:
                histogram.add_metric(row.labels, _cumulative(metric, row.buckets), row.sum)
            yield histogram
        else:
            counter = core.CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for row in rows:
                counter.add_metric(row.labels, row.value)
            yield counter


def _cumulative(metric: Metric, counts: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the metric's buckets with cumulative counts.

    Counts of a bucket that only an earlier version had are in the next bucket.
    """
    total, buckets = 0.0, []
    for bound in sorted({*metric.buckets, *map(float, counts), float("inf")}):
        total += counts.get(bound_text(bound), 0.0)
        if bound in metric.buckets or bound == float("inf"):
            buckets.append((bound_text(bound), total))
    return buckets


def _gauge(name: str, text: str, value: float) -> core.GaugeMetricFamily:
    return core.GaugeMetricFamily(name, text, value=value)


def _network_families(engine: Engine) -> Iterator[Family]:
    topology = current_topology(engine)
    controller = controller_document(engine, ages.age_s(engine), topology)
    yield _gauge(
        "sluice_controller_up", "1 if the controller wrote to the store within 5 s", controller["alive"]
    )
    yield _gauge(
        "sluice_switches_connected", "Switches that are connected to the controller", controller["connected"]
    )
    yield _gauge("sluice_switches_expected", "Switches of the topology", controller["expected"])
    info = core.GaugeMetricFamily("sluice_build_info", "Always 1", labels=["version", "store"])
    info.add_metric([__version__, engine.dialect.name], 1)
    yield info
    current = policy_in_force(engine)
    scheme = core.GaugeMetricFamily(
        "sluice_policy_scheme", "1 for the scheme of the newest policy", labels=["scheme"]
    )
    if current:
        scheme.add_metric([current.policy.scheme], 1)
    applied = current is not None and current.applied_at is not None
    yield scheme
    yield _gauge("sluice_policy_version", "Number of the newest policy", current.version if current else 0)
    yield _gauge("sluice_policy_applied", "1 if every switch has applied the newest policy", applied)


def _port_families(engine: Engine) -> Iterator[Family]:
    labels = ["port", "queue"]
    sent = core.CounterMetricFamily("sluice_queue_bytes", "Bytes that a port's queue has sent", labels=labels)
    packets = core.CounterMetricFamily(
        "sluice_queue_packets", "Packets that a port's queue has sent", labels=labels
    )
    for sample in observed.newest_port_samples(engine):
        for queue, (octets, count) in enumerate(zip(sample.queue_bytes, sample.queue_packets, strict=False)):
            sent.add_metric([sample.port, str(queue)], octets)
            packets.add_metric([sample.port, str(queue)], count)
    thresholds = core.GaugeMetricFamily(
        "sluice_threshold_bytes", "Demotion thresholds in force", labels=["port", "level"]
    )
    for port, change in sorted(observed.latest_thresholds(engine).items()):
        for level, edge in enumerate(change.thresholds_bytes):
            thresholds.add_metric([port, str(level)], edge)
    capacity = core.GaugeMetricFamily(
        "sluice_port_capacity_bytes_per_second", "Rate of a port's link", labels=["port"]
    )
    for port, rate_bps in sorted(capacities_bps(current_topology(engine)).items()):
        capacity.add_metric([port], rate_bps / 8)
    yield from (sent, packets, thresholds, capacity)


def _agent_families(agents: Iterable[observed.AgentRow], age_s: float) -> Iterator[Family]:
    up = core.GaugeMetricFamily(
        "sluice_agent_up", "1 if the agent reported within 5 s", labels=["agent", "kind"]
    )
    spool = core.GaugeMetricFamily(
        "sluice_spool_records", "Flow records that wait for delivery", labels=["agent"]
    )
    labels = ["port", "queue"]
    marked = core.CounterMetricFamily(
        "sluice_queue_marked_packets", "Packets that the port program has marked (ECN)", labels=labels
    )
    dropped = core.CounterMetricFamily(
        "sluice_queue_dropped_packets",
        "Packets that the port program has dropped (buffer full)",
        labels=labels,
    )
    dilation = core.GaugeMetricFamily(
        "sluice_simulator_dilation",
        "Seconds of the wall clock for each simulated second; absent if the network is real",
        labels=[],
    )
    counters: dict[str, Sequence[QueueCounters]] = {}
    for agent in agents:
        up.add_metric([agent.name, agent.kind], is_alive(agent, age_s))
        match agent.heartbeat:
            case HostHeartbeat(spool_depth=depth):
                spool.add_metric([agent.name], depth)
            case PortHeartbeat(ports=ports):
                counters = {**ports, **counters}
            case SimulatorHeartbeat(dilation=factor):
                dilation.add_metric([], factor)
    # Each port is added once: two samples with the same labels would make the whole answer invalid.
    for port, queues in islice(counters.items(), MOST_PORTS):
        for queue, of_queue in enumerate(queues):
            marked.add_metric([port, str(queue)], of_queue.marked)
            dropped.add_metric([port, str(queue)], of_queue.dropped)
    yield from (up, spool, marked, dropped, dilation)


def _sanction_family(sanctions: Iterable[observed.Sanction]) -> Family:
    demoted = core.GaugeMetricFamily(
        "sluice_host_demoted", "1 for a host that is demoted now", labels=["host", "port"]
    )
    for sanction in sanctions:
        demoted.add_metric([sanction.host, sanction.port], 1)
    return demoted


def _validity_family(engine: Engine) -> Family:
    validity = validity_document(engine)
    valid = core.GaugeMetricFamily(
        "sluice_figures_valid",
        "1 if the figures show the network and not the machine; absent if unknown",
        labels=[],
    )
    if validity["valid"] is not None:
        valid.add_metric([], validity["valid"])
    return valid
