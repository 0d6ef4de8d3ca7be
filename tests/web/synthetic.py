# SPDX-License-Identifier: Apache-2.0
"""Writes the rows of a network that does not exist, to look at the dashboard and to test it.

`python -m tests.web.synthetic --store URL` writes some minutes of history, then one second of rows each second.
All random numbers come from one seeded generator.
"""

import argparse
import math
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, insert, update

from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy
from sluice.policy.tags import snap_to_edge
from sluice.policy.wire.records import FlowRecord, size_class
from sluice.store import observed
from sluice.store.desired import current_policy, mark_applied, put_policy, put_topology
from sluice.store.engine import open_store
from sluice.store.schema import applied, flows, policies
from sluice.topologies import build
from tests.kit.heartbeats import host_heartbeat, port_heartbeat

LEAVES, SPINES, HOSTS_PER_LEAF = 4, 2, 4
RATE_BPS = 20_000_000
FLOWS_PER_S = 60
# Mean FCT of a small flow by scheme, in microseconds. The values are invented; they make a change
# visible.
SMALL_US = {"tcp": 42_000, "dctcp": 15_000, "pias": 9_000, "mlfq-adaptive": 6_500}


def leaf_spine(leaves: int = LEAVES, spines: int = SPINES, hosts_per_leaf: int = HOSTS_PER_LEAF) -> Topology:
    """Return the network of that many leaves, spines, and hosts for each leaf."""
    size = {"leaves": leaves, "spines": spines, "hosts_per_leaf": hosts_per_leaf}
    return build("leaf-spine", **size, host_rate_bps=RATE_BPS, core_rate_bps=2 * RATE_BPS)


class Network:
    """Writes the rows of one second."""

    def __init__(self, engine: Engine, topology: Topology | None = None) -> None:
        self.engine = engine
        self.random = random.Random(1)
        self.topology = topology or leaf_spine()
        self.number = 0
        self.queue_bytes = {port.id: [0] * 8 for port in self.topology.ports}
        self.queue_packets = {port.id: [0] * 8 for port in self.topology.ports}
        self.last: dict[str, tuple[int, ...]] = {}
        put_topology(engine, self.topology)

    def second(self, at: float, policy: Policy, version: int) -> None:
        """Write flows, samples and thresholds of the second before `at`."""
        records = [self.flow(at - self.random.random(), policy) for _ in range(self.poisson(FLOWS_PER_S, at))]
        rows = [{**record.to_document(), "received_at": at} for record in records]
        with self.engine.begin() as connection:
            connection.execute(insert(flows), rows)
        observed.add_port_samples(self.engine, list(self.samples(at, policy)))
        observed.add_thresholds(self.engine, list(self.thresholds(at, policy, version)))

    def poisson(self, mean: float, at: float) -> int:
        return max(1, round(self.random.gauss(mean * (1 + 0.25 * math.sin(at / 23)), math.sqrt(mean))))

    def flow(self, finished_at: float, policy: Policy) -> FlowRecord:
        self.number += 1
        source, target = self.random.sample(self.topology.hosts, 2)
        size = int(min(2e7, 2_000 * self.random.paretovariate(0.55)))
        ideal = 400 + size * 8 / RATE_BPS * 1e6
        small = SMALL_US[policy.scheme] * self.random.lognormvariate(-0.2, 0.75)
        fct = ideal + (small if size <= 100_000 else small * self.random.uniform(2, 12))
        deadline = self.random.uniform(5e3, 25e3) + ideal if self.random.random() < 0.3 else None
        return FlowRecord(
            id=f"synthetic-{finished_at:.3f}-{self.number}",
            src=source.name,
            dst=target.name,
            bytes=size,
            size_class=size_class(size),
            started_at=finished_at - fct / 1e6,
            fct_us=fct,
            ideal_us=ideal,
            deadline_us=deadline,
            met=None if deadline is None else fct <= deadline,
            retransmissions=int(self.random.random() < 0.02),
            congestion_control=policy.definition.congestion_control,
            scheme=policy.scheme,
            status="finished",
        )

    def samples(self, at: float, policy: Policy) -> Iterator[observed.PortSample]:
        for index, port in enumerate(self.topology.ports):
            load = min(
                0.98, max(0.02, 0.5 + 0.38 * math.sin(at / 31 + index * 1.7) + self.random.gauss(0, 0.06))
            )
            weights = [0.6 ** abs(q - policy.queues * 0.4) for q in range(policy.queues)]
            for queue, weight in enumerate(weights):
                gained = load * port.rate_bps / 8 * weight / sum(weights)
                self.queue_bytes[port.id][queue] += int(gained)
                self.queue_packets[port.id][queue] += int(gained / 1100)
            yield observed.PortSample(
                at, port.id, tuple(self.queue_bytes[port.id]), tuple(self.queue_packets[port.id])
            )

    def thresholds(self, at: float, policy: Policy, version: int) -> Iterator[observed.ThresholdChange]:
        for index, port in enumerate(self.topology.ports):
            wanted = policy.thresholds
            if policy.scheme == "mlfq-adaptive":
                drift = 1 + 0.5 * math.sin(at / 40 + index)
                wanted = tuple(snap_to_edge(int(9_000 * drift * 6**i)) for i in range(policy.queues - 1))
            if self.last.get(port.id) != wanted and wanted:
                yield observed.ThresholdChange(at, port.id, version, wanted, self.random.randint(5, 60))
            self.last[port.id] = wanted

    def heartbeats(self, version: int, without: str | None = None) -> None:
        for known in self.topology.switches:
            observed.put_switch(self.engine, known.dpid, known.name, connected=True, policy_version=version)
        beat = host_heartbeat(policy_version=version, flows_received=self.number)
        beats = {node.name: beat for node in self.topology.hosts if node.name != without}
        observed.put_agents(self.engine, {**beats, "ports": port_heartbeat(policy_version=version)})


def demotion() -> observed.Sanction:
    """Return the demotion of h2, which begins now."""
    flow = "TCP 10.0.0.2:40000 > 10.0.0.1:80"
    return observed.Sanction("s1:2", "h2", flow, 1, 1_200_000, 475_000, 0.95, 2, 10.0, since=time.time())


HISTORY: tuple[dict[str, Any], ...] = (
    {"scheme": "tcp"},
    {"scheme": "dctcp"},
    {"scheme": "pias"},
    {"scheme": "mlfq-adaptive", "queues": 4},
)


def fill(network: Network, now: float, seconds: int) -> None:
    """Write the history up to `now`, in which the schemes take turns."""
    share = seconds / len(HISTORY)
    for turn, document in enumerate(HISTORY):
        policy = Policy.from_document(document)
        version = put_policy(network.engine, policy, "synthetic")
        began = now - seconds + turn * share
        with network.engine.begin() as connection:
            connection.execute(update(policies).where(policies.c.version == version).values(created_at=began))
            connection.execute(insert(applied).values(version=version, applied_at=began + 0.4))
        observed.add_event(network.engine, "policy-applied", version=version, scheme=policy.scheme)
        for second in range(int(share)):
            network.second(began + second + 1, policy, version)


def go_on(network: Network, ended: threading.Event) -> None:
    """Write one second of rows each second, and apply new policies as a controller does, until `ended` is set."""
    before = current_policy(network.engine)
    seen = before.version if before else 0
    at = 0.0
    while not ended.wait(max(0.0, at + 1 - time.time())):
        at = time.time()
        current = current_policy(network.engine)
        if current is not None:
            if current.applied_at is None:
                mark_applied(network.engine, current.version)
            if current.version != seen:
                seen = current.version
                observed.add_event(
                    network.engine, "policy-applied", version=seen, scheme=current.policy.scheme
                )
            network.second(at, current.policy, current.version)
            network.heartbeats(current.version)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True)
    network = Network(open_store(parser.parse_args().store))
    fill(network, time.time(), 280)
    go_on(network, threading.Event())


if __name__ == "__main__":
    main()
