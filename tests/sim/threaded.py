# SPDX-License-Identifier: Apache-2.0
"""Small fabrics whose runs use several threads, and digests of everything that a run hands out."""

import hashlib
from collections import defaultdict
from typing import Any

from sluice.runs.files import scenario_with
from sluice.simulator.run import Simulation
from sluice.simulator.taps import Columns, Taps, ThresholdsMoved
from sluice.topologies import build_topology

LINKS = {
    "host_rate": "10Gbit",
    "core_rate": "40Gbit",
    "link_delay": "0.2us",
    "host_delay": "20us",
    "buffer": "60KB",
}
RACKS = {**LINKS, "topology": "leaf-spine", "leaves": 3, "spines": 2, "hosts_per_leaf": 6}
FABRICS: dict[str, dict[str, Any]] = {
    "leaf-spine": RACKS,
    "fat-tree": {**LINKS, "topology": "fat-tree", "core_rate": "10Gbit"},
    "long links": {**RACKS, "link_delay": "20us", "host_delay": "5us"},
}
DOCUMENT: dict[str, Any] = {
    "name": "threads",
    "fabric": RACKS,
    "scheme": {"name": "pias"},
    "transport": {"rto_min": "1ms"},
    "workload": {"sizes": "web-search", "pattern": "all-to-all", "load": 0.8, "flows": 80},
    "deadlines": {"share": 0.4, "distribution": "uniform", "min": "3ms", "max": "60ms"},
    "sample": "10ms",
}


def simulation(taps: Taps, threads: int | None, **changes: Any) -> Simulation:
    more = {} if threads is None else {"threads": threads}
    changes["simulator"] = {**changes.get("simulator", {}), **more}
    scenario, *_ = scenario_with({**DOCUMENT, "fabric": changes.pop("fabric", RACKS)}, **changes)
    return Simulation(scenario, build_topology(scenario), taps)


def digest(threads: int, **changes: Any) -> dict[str, str]:
    """Digests of everything that a run hands out. Checks that no packet and no flow is left over."""
    digests: dict[str, Any] = defaultdict(hashlib.sha256)

    def take(columns: Columns) -> None:
        for name in columns:
            digests[name].update(columns[name].tobytes())

    def moved(thresholds: ThresholdsMoved) -> None:
        digests["thresholds"].update(repr(thresholds).encode())

    run = simulation(Taps(take, moved, lambda at_s, columns: take(columns)), threads, **changes)
    assert len(run.division.shares) > 2
    run.run()
    run.fabric.audit()
    assert run.fabric.flows_under_way == run.fabric.packets_under_way == 0
    digests["ports"].update(run.fabric.port_statistics().tobytes() + repr(run.totals()).encode())
    return {name: digest.hexdigest() for name, digest in digests.items()}
