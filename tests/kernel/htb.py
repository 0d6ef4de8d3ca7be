# SPDX-License-Identifier: Apache-2.0
"""The queues of a switch port like those of OVS's linux-htb: classes 1:(q+1) under 1:fffe, queue 0 first."""

from __future__ import annotations

import re

from sluice.policy.schemes.ports import port_burst_bytes
from tests.kernel.lab import Namespace

QUEUES = 8


def make_queues(ns: Namespace, ifname: str, rate_bps: int) -> None:
    ns.run("tc", "qdisc", "add", "dev", ifname, "root", "handle", "1:", "htb", "default", "1")
    tree = ("tc", "class", "add", "dev", ifname, "parent")
    rate, credit = f"{rate_bps}bit", str(port_burst_bytes(rate_bps))
    burst = ("burst", credit, "cburst", credit)
    ns.run(*tree, "1:", "classid", "1:fffe", "htb", "rate", rate, *burst)
    for q in range(QUEUES):
        ns.run(
            *tree, "1:fffe", "classid", f"1:{q + 1}", "htb", "rate", "12kbit", "ceil", rate, "prio", str(q),
            *burst,
        )  # fmt: skip
        ns.run("tc", "qdisc", "add", "dev", ifname, "parent", f"1:{q + 1}", "pfifo", "limit", "10000")


def packets_by_queue(ns: Namespace, ifname: str) -> list[int]:
    """Return the packets that each class has sent."""
    text = ns.run("tc", "-s", "class", "show", "dev", ifname)
    sent = {
        int(c, 16): int(n)
        for c, n in re.findall(r"class htb 1:([0-9a-f]+) .*?Sent \d+ bytes (\d+) pkt", text, re.S)
    }
    return [sent[q + 1] for q in range(QUEUES)]


def sent_and_backlog_bytes(ns: Namespace, ifname: str) -> tuple[int, int]:
    """Return the sent bytes and the waiting bytes of the whole port."""
    text = ns.run("tc", "-s", "qdisc", "show", "dev", ifname)
    root = text[text.index("qdisc htb 1:") :]
    sent = re.search(r"Sent (\d+) bytes", root)
    backlog = re.search(r"backlog (\d+)([KM]?)b", root)
    assert sent is not None
    assert backlog is not None
    return int(sent[1]), int(backlog[1]) * {"": 1, "K": 1024, "M": 1024**2}[backlog[2]]
