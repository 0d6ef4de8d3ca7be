# SPDX-License-Identifier: Apache-2.0
"""One link that several flows fill: the network, and measurements of its queue and goodput."""

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from sluice.simulator import _fabric as core
from tests.sim import kit
from tests.sim.kit import FRAME, GBIT, HEADER, MS, US, Link, S, serialisation

RATE = 10 * GBIT
FULL = serialisation(FRAME, RATE)
TRIP = 100 * US
TRIP_IN_ALL = TRIP + FULL + serialisation(HEADER, RATE)


def bottleneck(flows: int, trip_ps: int, settings: core.TransportSettings, **port: Any) -> kit.Net:
    """Hosts 0 to flows-1 send to the last host, and fill only the port before it. `trip_ps`: the
    round trip without serialisation."""
    up = Link(100 * GBIT, trip_ps // 4)
    return kit.single(flows + 1, settings, up=up, down=Link(RATE, trip_ps // 4, **port))


def forever(net: kit.Net, source: int, sink: int, start_ps: int = 0, **more: Any) -> int:
    """Add an endless flow and return its number."""
    return net.flow(source, sink, 1, start_ps, until_ps=10**3 * S, **more)


def queue_samples(net: kit.Net, until_ps: int, step_ps: int, sink: int) -> kit.Array:
    """Return the queue before the sink in packets, sampled at every step from now on."""
    found = []
    for now in range(net.fabric.now_ps, until_ps, step_ps):
        net.run(now)
        found.append(net.port(net.towards[sink]).waiting_bytes / FRAME)
    return np.array(found)


def goodput_bps(net: kit.Net, flows: int, over_ps: int) -> kit.Array:
    """Return the goodput of each flow over a time from now on."""

    def acked() -> kit.Array:
        columns = net.fabric.senders()
        acked_bytes: kit.Array = columns["acked_bytes"][np.argsort(columns["id"])].astype(float)
        return acked_bytes

    before = acked()
    net.run(net.fabric.now_ps + over_ps)
    after = acked()
    assert len(after) == flows
    return (after - before) * 8 * S / over_ps


def blocked(timeouts: int, **settings: Any) -> kit.Net:
    """Return a network with a Reno flow with a window of 64, six round trips after it was blocked.

    Three flows of a higher priority take the whole link for some milliseconds. In that time the Reno flow has
    `timeouts` timeouts by RFC 6298.
    """
    given = {"initial_window": 64, "max_window": 64, "rto_min_ps": MS, "tags_deadlines": True}
    net = kit.single(
        5,
        kit.transport(control=core.Control.reno, **given, **settings),
        up=Link(100 * GBIT, 25 * US),
        down=Link(10 * GBIT, 25 * US),
    )
    net.fabric.set_queue_of(net.towards[4], kit.priority_map())
    begin, trip = MS, 100 * US
    end = begin + (2**timeouts - 1) * MS + MS // 2
    net.flow(0, 4, 10**9, **kit.as_priority(7, 0))
    for source in (1, 2, 3):
        net.flow(source, 4, 1, begin, until_ps=end, **kit.as_priority(0, begin))
    net.run(end + 6 * trip)
    return net


CORE = Path(__file__).parents[2] / "simulator" / "core"


def compiled(source: Path, folder: Path, *before: Path) -> ctypes.CDLL:
    """Compile C++ that belongs to a test into a library, with the checks for undefined behaviour. Headers come from
    `before` if they are there."""
    library = folder / source.with_suffix(".so").name
    flags = [
        *(f"-I{root}" for root in (*before, CORE)),
        "-std=c++20",
        "-O1",
        "-Wall",
        "-Wextra",
        "-fsanitize=undefined",
        "-fno-sanitize-recover=all",
    ]
    subprocess.run(["c++", *flags, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))
