# SPDX-License-Identifier: Apache-2.0
"""One process that plays many switches to a controller: OpenFlow over real sockets, counters that grow.

    python -m sluice.bench.switches < order.json        # a topology, a policy, ports, how long to run

Each switch connects to one controller at each port, and answers each on its own connection. In the end the process
reports the controller's requests, their times, and the queue maps.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from sluice.bench.played_switch import Switch
from sluice.bench.switch_lines import Serving
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy


def run(order: Mapping[str, Any]) -> dict[str, Any]:
    """Serve a controller until it closes the connections. Returns what it requested during the measurement."""
    topology = Topology.from_document(order["topology"])
    policy = Policy.from_document(order["policy"])
    switches = [
        Switch(topology, switch.name, switch.dpid, policy, seed)
        for seed, switch in enumerate(topology.switches)
    ]
    serving = Serving(switches, order["ports"])
    serving.until(
        lambda: all(len(s.record.polls_at) >= order["warm_polls"] for s in switches), order["limit_s"]
    )
    records = serving.measure(order["seconds"])
    serving.until(lambda: not serving.connected, order["limit_s"])
    return {
        "polls_at": [record.polls_at for record in records],
        "took_s": [took for record in records for took in record.took_s],
        "modified": sum(record.modified for record in records),
        "entries": sum(record.entries for record in records),
        "queues": {switch.name: switch.queues.tolist() for switch in switches},
    }


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.stdin.readline()))))
