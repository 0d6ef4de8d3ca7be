# SPDX-License-Identifier: Apache-2.0
"""Small networks built directly on `sluice.simulator._fabric`: numbers in, arrays out. Times are picoseconds.

net = single(3)                     # hosts 0, 1, 2 on one switch, 10 Gb/s
net.flow(0, 2, 1_000_000)           # flows are numbered from 0
result = net.finish()               # columns in the order of the flows' numbers
net.port(net.towards[2]).most_bytes
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sluice.dataplane.windows import Window
from sluice.policy.tags import URGENCY_FIRST
from sluice.simulator import _fabric as core

Array = npt.NDArray[Any]
Columns = dict[str, Array]
"""The outcomes of flows: a value for each."""
ColumnsLike = dict[str, Any]
"""Columns of `Net.add`: any values that numpy can turn into an array."""

NS, US, MS, S = 10**3, 10**6, 10**9, 10**12
GBIT = 10**9
NO_BOUND = 2**40
"""Bytes of a buffer that never fills."""
PAYLOAD, HEADER = 1448, 66
FRAME = PAYLOAD + HEADER
FINISHED, KILLED, ENDED, UNFINISHED = range(4)
TAGS = 62
_RECORD = struct.Struct("=7Q18I")
"""struct sl_window_record, the fields of Window."""

_U64, _I64, _U32, _U16, _U8 = np.uint64, np.int64, np.uint32, np.uint16, np.uint8
_COLUMNS = {
    "id": _U64,
    "bytes": _U64,
    "start_ps": _I64,
    "began_ps": _I64,
    "deadline_ps": _I64,
    "until_ps": _I64,
    "source": _U16,
    "sink": _U16,
    "size_known": _U8,
    "on_quench": _U8,
    "importance_milli": _U32,
    "importance_share_milli": _U32,
    "transport": _U8,
}


class PortNumbers(NamedTuple):
    """The counters of a port."""

    packets: int
    bytes: int
    marked: int
    dropped: int
    most_bytes: int
    waiting_bytes: int


def serialisation(frame_bytes: int, bps: int) -> int:
    """Return ceil(8 L / R), in picoseconds."""
    return -(-frame_bytes * 8 * S // bps)


def packets_of(size_bytes: int) -> list[int]:
    """Return the frames of a flow: full ones, then the rest."""
    full, rest = divmod(size_bytes, PAYLOAD)
    return [FRAME] * full + ([rest + HEADER] if rest else [])


def transport(**settings: Any) -> core.TransportSettings:
    """Return settings without a handshake, and with a retransmission timeout that no test reaches
    by accident."""
    made = core.TransportSettings()
    given = {"handshake": False, "rto_min_ps": 10 * MS, "rto_initial_ps": 10 * MS, **settings}
    for name, value in given.items():
        setattr(made, name, value)
    return made


def discipline(**settings: Any) -> core.Discipline:
    made = core.Discipline()
    for name, value in settings.items():
        setattr(made, name, value)
    return made


def shares(of_each: Sequence[float], burst_bytes: int = 2 * FRAME) -> core.Discipline:
    return discipline(
        scheduler=core.Scheduler.shares,
        shares=[*of_each, *[0.0] * (8 - len(of_each))],
        burst_bytes=burst_bytes,
    )


@dataclass
class Link:
    """One direction of a link and the port before it. `more`: further fields of PortSettings."""

    bps: int = 10 * GBIT
    delay_ps: int = US
    discipline: core.Discipline = field(default_factory=core.Discipline)
    buffer_bytes: int = NO_BOUND
    more: dict[str, Any] = field(default_factory=dict)

    def settings(self) -> core.PortSettings:
        made = core.PortSettings()
        made.bps, made.delay_ps, made.buffer_bytes = self.bps, self.delay_ps, self.buffer_bytes
        for name, value in self.more.items():
            setattr(made, name, value)
        return made


class Net:
    """A fabric: first under construction, then running."""

    def __init__(
        self,
        hosts: int,
        switches: int,
        settings: core.TransportSettings | None = None,
        *,
        seed: int = 1,
        spray: bool = False,
        near_ps: int = MS,
        parts: int = 1,
        threads: int = 1,
        stages: Sequence[int] = (),
    ) -> None:
        made = settings or transport()
        near = [near_ps] * parts
        self.fabric = core.Fabric(hosts, switches, made, near, seed, spray, threads, stages)
        self.towards: dict[int, int] = {}
        """Host → the number of the last port before it."""
        self.flows = 0

    def add_port(self, link: Link, peer: int, *, to_host: bool = False, parts: Sequence[int] = (0,)) -> int:
        """Add a port and return its number. `parts`: of the port, then those at the far end of its link."""
        part, *far = parts
        number = self.fabric.add_port(link.settings(), link.discipline, peer, to_host, part, far)
        if to_host:
            self.towards[peer] = number
        return number

    def route(self, switch: int, hosts: Iterable[int], ports: Sequence[int]) -> None:
        """Route these hosts by equal-cost ports of a switch."""
        group = self.fabric.add_group(list(ports))
        for host in hosts:
            self.fabric.set_route(switch, host, group)

    def flow(self, source: int, sink: int, size_bytes: int, start_ps: int = 0, **more: int) -> int:
        """Add a flow and return its number. Starts must not decrease. `more`: further columns of Fabric.add_flows."""
        self.add(
            source=[source],
            sink=[sink],
            bytes=[size_bytes],
            start_ps=[start_ps],
            **{k: [v] for k, v in more.items()},
        )
        return self.flows - 1

    def add(self, **columns: Any) -> None:
        """Add many flows at once. Columns that are left out are 0; numbers continue those of earlier flows."""
        count = len(columns["bytes"])
        columns.setdefault("id", np.arange(self.flows, self.flows + count))
        columns.setdefault("importance_milli", np.full(count, 1000))
        columns.setdefault("began_ps", columns["start_ps"])
        self.flows += count
        self.fabric.add_flows(
            **{
                name: np.ascontiguousarray(columns.get(name, np.zeros(count)), dtype=kind)
                for name, kind in _COLUMNS.items()
            }
        )

    def run(self, until_ps: int, events: int = 2**62) -> bool:
        return self.fabric.run(until_ps, events)

    def finish(self, until_ps: int = 10**6 * S) -> Columns:
        """Run until no event is left. Return the results in the order of the flows' numbers."""
        assert self.run(until_ps)
        return self.results()

    def fct_ps(self) -> list[int]:
        """Run until no event is left and all flows have finished. Return their completion times."""
        result = self.finish()
        assert set(result["outcome"]) == {FINISHED}
        self.assert_nothing_left()
        return [int(took_ps) for took_ps in result["fct_ps"]]

    def results(self) -> Columns:
        """Return the results of the flows that ended since the last call, in the order of their numbers."""
        columns = self.fabric.take_results()
        order = np.argsort(columns["id"], kind="stable")
        return {name: column[order] for name, column in columns.items()}

    def port(self, number: int) -> PortNumbers:
        return PortNumbers(*(int(v) for v in self.fabric.port_statistics()[number]))

    def sender(self, number: int = 0) -> dict[str, int]:
        """Return the state of an active flow's connection."""
        columns = self.fabric.senders()
        (at,) = np.flatnonzero(columns["id"] == number)
        return {name: int(column[at]) for name, column in columns.items()}

    def windows(self) -> dict[int, Window]:
        """Return flow → the record of its last window of data, for flows of which a window has ended."""
        columns = self.fabric.windows()
        records = [Window(*_RECORD.unpack(record.tobytes())) for record in columns["record"]]
        return {int(i): w for i, w in zip(columns["id"], records, strict=True) if w.acked or w.at_ns}

    def trace(self, until_ps: int, step_ps: int) -> dict[int, list[Window]]:
        """Run until a time. Return the windows of each flow that end in this run. A window must
        last longer than `step_ps`."""
        found: dict[int, list[Window]] = {}
        for now in range(self.fabric.now_ps + step_ps, until_ps + 1, step_ps):
            self.run(now)
            for flow, window in self.windows().items():
                known = found.setdefault(flow, [])
                if not known or known[-1].at_ns != window.at_ns:
                    known.append(window)
        return found

    def assert_nothing_left(self) -> None:
        """Check that no packet and no flow is left."""
        self.fabric.audit()
        assert self.fabric.packets_under_way == 0
        assert self.fabric.flows_under_way == 0
        assert self.fabric.flows_waiting == 0


def single(
    hosts: int,
    settings: core.TransportSettings | None = None,
    *,
    up: Link | None = None,
    down: Link | None = None,
    **more: Any,
) -> Net:
    """Hosts on one switch. `up`: the link from each host; `down`: the link to each host."""
    net = Net(hosts, 1, settings, **more)
    for _ in range(hosts):
        net.add_port(up or Link(), 0)
    for host in range(hosts):
        net.route(0, [host], [net.add_port(down or Link(), host, to_host=True)])
    return net


def chain(links: Sequence[Link], settings: core.TransportSettings | None = None, **more: Any) -> Net:
    """Hosts 0 and 1, connected by these links in both directions, with a switch between any two links."""
    between = len(links) - 1
    net = Net(2, max(between, 1), settings, **more)
    if not between:
        net.add_port(links[0], 1, to_host=True)
        net.add_port(links[0], 0, to_host=True)
        return net
    net.add_port(links[0], 0)
    net.add_port(links[-1], between - 1)
    for switch in range(between):
        on, back = switch == between - 1, switch == 0
        net.route(switch, [1], [net.add_port(links[switch + 1], 1 if on else switch + 1, to_host=on)])
        net.route(switch, [0], [net.add_port(links[switch], 0 if back else switch - 1, to_host=back)])
    return net


def leaf_spine(
    leaves: int,
    spines: int,
    hosts_per_leaf: int,
    settings: core.TransportSettings | None = None,
    *,
    edge: Link | None = None,
    core_link: Link | None = None,
    **more: Any,
) -> Net:
    """Leaves are the first switches, spines the others. Hosts are numbered leaf by leaf."""
    edge, core_link = edge or Link(), core_link or Link(40 * GBIT)
    net = Net(leaves * hosts_per_leaf, leaves + spines, settings, **more)
    hosts = [range(leaf * hosts_per_leaf, (leaf + 1) * hosts_per_leaf) for leaf in range(leaves)]
    for leaf in range(leaves):
        for _ in hosts[leaf]:
            net.add_port(edge, leaf)
    for leaf in range(leaves):
        for host in hosts[leaf]:
            net.route(leaf, [host], [net.add_port(edge, host, to_host=True)])
        up = [net.add_port(core_link, leaves + spine) for spine in range(spines)]
        net.route(leaf, [host for other in range(leaves) if other != leaf for host in hosts[other]], up)
    for spine in range(spines):
        for leaf in range(leaves):
            net.route(leaves + spine, hosts[leaf], [net.add_port(core_link, leaf)])
    return net


def as_priority(priority: int, start_ps: int) -> dict[str, int]:
    """Return columns of a flow whose packets, sent at its start, carry the tag of one of eight
    priorities (`priority_map`).

    They are deadlines: the urgency s = elapsed / left is in the middle of every second step of the
    tag.
    """
    urgency = 2.0 ** (7 - priority - 3.75)
    return {"began_ps": start_ps - S, "deadline_ps": start_ps + round(S / urgency)}


def priority_map() -> list[int]:
    """Return the queue map for `as_priority`: queue 0 is the most urgent. All other tags have queue 0."""
    queue_of = [0] * TAGS
    for step in range(16):
        queue_of[URGENCY_FIRST + step] = 7 - step // 2
    return queue_of
