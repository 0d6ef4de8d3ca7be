# SPDX-License-Identifier: Apache-2.0
"""What the hosts' TCP stacks did about loss during a run: a tail is only believed when these explain it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from topologies.testbed import Testbed

COUNTERS = {
    "TcpRetransSegs": "retransmitted_segments",
    "TcpExtTCPTimeouts": "retransmission_timeouts",
    "TcpExtTCPLossProbes": "tail_loss_probes",
    "TcpExtTCPFastRetrans": "fast_retransmissions",
    "TcpExtTCPDSACKRecv": "needless_retransmissions",
    "TcpExtTCPDeliveredCE": "packets_delivered_with_ce",
    "TcpExtTCPSynRetrans": "syn_retransmissions",
}
"""Kernel counter → what it counts. A needless retransmission is one that the receiver reported as a duplicate."""


def tcp_counters(bed: Testbed) -> dict[str, int]:
    """Sums over all hosts since the testbed started."""
    total = dict.fromkeys(COUNTERS.values(), 0)
    for host in bed.topology.hosts:
        kernel = json.loads(bed.exec(host.name, ["nstat", "-a", "-s", "-z", "-j"]))["kernel"]
        for counter, name in COUNTERS.items():
            total[name] += kernel.get(counter, 0)
    return total


def difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in after}
