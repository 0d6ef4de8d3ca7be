# SPDX-License-Identifier: Apache-2.0
"""/metrics for Prometheus: the store's totals as counters and histograms, and its state as gauges.

Each request reads all of it from the store. So every web worker gives the same answer. It includes
the controller, which serves no requests itself.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from flask import Blueprint, Response
from prometheus_client import CollectorRegistry, core, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from sqlalchemy import Engine

from sluice.policy.version import VERSION
from sluice.policy.wire.agents import HostHeartbeat, PortHeartbeat, QueueCounters, SimulatorHeartbeat
from sluice.store import observed
from sluice.store.desired import current_topology, policy_in_force
from sluice.store.totals import METRICS, Metric, Total, all_totals, bound_text, flush
from sluice.webui.flows import living_hosts, open_connections
from sluice.webui.network import controller_document
from sluice.webui.ports import capacities_bps
from sluice.webui.problems import validity_document
from sluice.webui.services import services

metrics = Blueprint("metrics", __name__)

MOST_PORTS = 4096
"""The most ports with counters of port programs in an answer."""
MOST_CONTAINERS, OTHER = 64, "other"
"""The most containers in an answer, and the name of all others together."""
Sample: TypeAlias = tuple[Sequence[str], float]
"""The values of the labels, and the value."""
Samples: TypeAlias = Iterable[Sample]


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
        agents = observed.all_agents(self._engine)
        yield from _agent_families(agents)
        yield from _container_families(self._engine, agents)
        demoted = (((each.host, each.port), 1) for each in observed.all_sanctions(self._engine))
        yield _gauge("sluice_host_demoted", "1 for a host that is demoted now", "host port", demoted)
        valid = validity_document(self._engine, agents)["valid"]
        text = "1 if the figures show the network and not the machine; absent if unknown"
        yield _gauge("sluice_figures_valid", text, "", () if valid is None else [((), valid)])


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


def _gauge(name: str, text: str, labels: str, samples: Samples) -> Family:
    return _filled(core.GaugeMetricFamily(name, text, labels=labels.split()), samples)


def _counter(name: str, text: str, samples: Samples) -> Family:
    """Return a counter of each queue of each port."""
    return _filled(core.CounterMetricFamily(name, text, labels=["port", "queue"]), samples)


def _filled(family: Any, samples: Samples) -> Family:
    for labels, value in samples:
        family.add_metric(labels, value)
    return family  # type: ignore[no-any-return]


def _numbered(values: Iterable[tuple[str, Sequence[float]]]) -> Samples:
    """Yield the values of each port's queues or levels, with the labels of each."""
    for port, of_port in values:
        for number, value in enumerate(of_port):
            yield (port, str(number)), value


def _network_families(engine: Engine) -> Iterator[Family]:
    def single(name: str, text: str, value: float) -> Family:
        return _gauge(name, text, "", [((), value)])

    controller = controller_document(engine, current_topology(engine))
    connected, expected, version = (
        controller["connected"],
        controller["expected"],
        (VERSION, engine.dialect.name),
    )
    yield single(
        "sluice_controller_up", "1 if the controller wrote to the store within 5 s", controller["alive"]
    )
    yield single("sluice_switches_connected", "Switches that are connected to the controller", connected)
    yield single("sluice_switches_expected", "Switches of the topology", expected)
    yield _gauge("sluice_build_info", "Always 1", "version store", [(version, 1)])
    current = policy_in_force(engine)
    schemes = [((current.policy.scheme,), 1)] if current else []
    yield _gauge("sluice_policy_scheme", "1 for the scheme of the newest policy", "scheme", schemes)
    applied = current is not None and current.applied_at is not None
    yield single("sluice_policy_version", "Number of the newest policy", current.version if current else 0)
    yield single("sluice_policy_applied", "1 if every switch has applied the newest policy", applied)


def _port_families(engine: Engine) -> Iterator[Family]:
    samples = observed.newest_port_samples(engine)
    sent = _numbered((sample.port, sample.queue_bytes) for sample in samples)
    yield _counter("sluice_queue_bytes", "Bytes that a port's queue has sent", sent)
    packets = _numbered((sample.port, sample.queue_packets) for sample in samples)
    yield _counter("sluice_queue_packets", "Packets that a port's queue has sent", packets)
    latest = sorted(observed.latest_thresholds(engine).items())
    edges = _numbered((port, change.thresholds_bytes) for port, change in latest)
    yield _gauge("sluice_threshold_bytes", "Demotion thresholds in force", "port level", edges)
    rates = sorted(capacities_bps(current_topology(engine)).items())
    capacities = (((port,), rate_bps / 8) for port, rate_bps in rates)
    yield _gauge("sluice_port_capacity_bytes_per_second", "Rate of a port's link", "port", capacities)


def _agent_families(agents: Iterable[observed.AgentRow]) -> Iterator[Family]:
    up, spool, dilation = list[Sample](), list[Sample](), list[Sample]()
    counters: dict[str, Sequence[QueueCounters]] = {}
    for agent in agents:
        up.append(((agent.name, agent.kind), agent.is_alive))
        match agent.heartbeat:
            case HostHeartbeat(spool_depth=depth):
                spool.append(((agent.name,), depth))
            case PortHeartbeat(ports=ports):
                counters = {**ports, **counters}
            case SimulatorHeartbeat(dilation=factor):
                dilation.append(((), factor))
    # Each port is added once: two samples with the same labels would make the whole answer invalid.
    queues = list(islice(counters.items(), MOST_PORTS))
    marked = _numbered((port, [queue.marked for queue in of_port]) for port, of_port in queues)
    dropped = _numbered((port, [queue.dropped for queue in of_port]) for port, of_port in queues)
    yield _gauge("sluice_agent_up", "1 if the agent reported within 5 s", "agent kind", up)
    yield _gauge("sluice_spool_records", "Flow records that wait for delivery", "agent", spool)
    yield _counter("sluice_queue_marked_packets", "Packets that the port program has marked (ECN)", marked)
    text = "Packets that the port program has dropped (buffer full)"
    yield _counter("sluice_queue_dropped_packets", text, dropped)
    text = "Seconds of the wall clock for each simulated second; absent if the network is real"
    yield _gauge("sluice_simulator_dilation", text, "", dilation)


def _container_families(engine: Engine, agents: Iterable[observed.AgentRow]) -> Iterator[Family]:
    reported = open_connections(living_hosts(agents), current_topology(engine))
    living = [connection for connection in reported if connection.label]
    most = dict(Counter(connection.label for connection in living).most_common(MOST_CONTAINERS))
    count, rate = Counter[str](), Counter[str]()
    for connection in living:
        name = connection.label if connection.label in most else OTHER
        count[name] += 1
        rate[name] += connection.rate_bps
    which = (
        f"open connections of a container among its host's fastest, as its agent last reported; "
        f"'{OTHER}' is all beyond {MOST_CONTAINERS} containers"
    )
    counts = (((name,), value) for name, value in count.items())
    yield _gauge("sluice_container_connections", f"Number of {which}", "container", counts)
    rates = (((name,), value / 8) for name, value in rate.items())
    yield _gauge("sluice_container_bytes_per_second", f"Rate of {which}", "container", rates)
