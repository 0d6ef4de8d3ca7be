# SPDX-License-Identifier: Apache-2.0
"""CPU time of a packet that leaves a host: through the tagger and the scheme's queues, or through one queue.

A device that drops what it sends stands for the link, so that only the way to it is measured. The module runs itself
again under `unshare --net` and measures there.
"""

from __future__ import annotations

import json
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from sluice.dataplane.link_queues import ROOT
from sluice.dataplane.tagger import Tagger, TagSettings
from sluice.hostagent.link import HostLink
from sluice.policy.errors import EnvironmentLacking
from sluice.policy.schema.desired import Policy, host_queue_map
from sluice.runtime.command import CommandFailed, run

ROUNDS = 9
PACKETS = 50_000
PAYLOAD_BYTES = 1400
_LINK = "link0"
_SINKS = ("dummy", "ifb")
"""Kinds of devices that drop what this host sends there."""
_ONE_QUEUE = f"qdisc replace dev {_LINK} root handle 1: pfifo limit 1000\n"


class LinkCost(NamedTuple):
    """Medians in ns of CPU time for a packet, from the program's call to the device."""

    qdisc: str
    """The kind of the queues."""
    queues: float
    """With tagger and queues."""
    tagger: float
    """With the tagger and one queue."""
    plain: float
    """With one queue alone."""


def measure_link() -> LinkCost:
    """Return the costs. Raises EnvironmentLacking if the kernel has no device for it."""
    argv = ["unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", __name__]
    try:
        return LinkCost(*json.loads(run(argv, timeout_s=300)))
    except CommandFailed as error:
        raise EnvironmentLacking(f"the cost of a host's own link: {error.output.strip()}") from error


def _measure_inside() -> LinkCost:
    _make_sink()
    costs: dict[str, list[float]] = {"queues": [], "tagger": [], "plain": []}
    kind = ""
    for _ in range(ROUNDS):
        with _plain():
            costs["plain"].append(_ns_per_packet())
        with _plain(), _tagged(TagSettings()):
            costs["tagger"].append(_ns_per_packet())
        link = HostLink(_LINK, ROOT)
        link.begin()
        kind = link.name
        settings = TagSettings(
            priorities=link.priorities(host_queue_map(Policy.from_document({"scheme": "sluice"})))
        )
        with _tagged(settings):
            costs["queues"].append(_ns_per_packet())
        link.end()
    return LinkCost(kind, *(statistics.median(costs[name]) for name in ("queues", "tagger", "plain")))


def _make_sink() -> None:
    for kind in _SINKS:
        try:
            run(["ip", "link", "add", _LINK, "type", kind])
        except CommandFailed:
            continue
        run(["ip", "link", "set", _LINK, "up"])
        run(["ip", "addr", "add", "10.9.0.1/24", "dev", _LINK])
        run(["ip", "neigh", "add", "10.9.0.2", "lladdr", "02:00:00:00:00:02", "dev", _LINK])
        return
    raise SystemExit(f"the kernel has no device of the kinds {' and '.join(_SINKS)}")


@contextmanager
def _plain() -> Iterator[None]:
    run(["tc", "-batch", "-"], stdin=_ONE_QUEUE)
    try:
        yield
    finally:
        run(["tc", "qdisc", "del", "dev", _LINK, "root"])


@contextmanager
def _tagged(settings: TagSettings) -> Iterator[None]:
    with Tagger(settings) as tagger:
        tagger.attach(_LINK)
        try:
            yield
        finally:
            tagger.detach(_LINK)


def _ns_per_packet() -> float:
    data = bytes(PAYLOAD_BYTES)
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.connect(("10.9.0.2", 9))
        send = sender.send
        began_ns = time.thread_time_ns()
        for _ in range(PACKETS):
            send(data)
        return (time.thread_time_ns() - began_ns) / PACKETS


if __name__ == "__main__":
    print(json.dumps(_measure_inside()))
