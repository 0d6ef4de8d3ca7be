# SPDX-License-Identifier: Apache-2.0
"""The hosts' TCP counters about loss during a run. They show whether the network or the stack
caused a long tail."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sluice.topologies.testbed import Testbed

COUNTERS = {
    "TcpRetransSegs": "retransmitted_segments",
    "TcpExtTCPTimeouts": "retransmission_timeouts",
    "TcpExtTCPLossProbes": "tail_loss_probes",
    "TcpExtTCPFastRetrans": "fast_retransmissions",
    "TcpExtTCPDSACKRecv": "needless_retransmissions",
    "TcpExtTCPDeliveredCE": "packets_delivered_with_ce",
    "TcpExtTCPSynRetrans": "syn_retransmissions",
}
"""Kernel counter → its meaning. The receiver of an unnecessary retransmission reported it as a duplicate."""


def tcp_counters(bed: Testbed) -> dict[str, int]:
    """Return sums over all hosts since the testbed started."""
    total = dict.fromkeys(COUNTERS.values(), 0)
    for host in bed.topology.hosts:
        kernel = json.loads(bed.exec(host.name, ["nstat", "-a", "-s", "-z", "-j"]))["kernel"]
        for counter, name in COUNTERS.items():
            total[name] += kernel.get(counter, 0)
    return total


def difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in after}
