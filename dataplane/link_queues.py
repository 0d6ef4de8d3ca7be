# SPDX-License-Identifier: Apache-2.0
"""The queues of a scheme on a host's own link: one qdisc, at the root of an interface or below a class of a shaper.

The tagger chooses a packet's queue. It sets the packet's priority, which names a class of the qdisc (bpf/tag.bpf.c).
The qdisc has a handle of its own, so an agent recognises what a killed one has left. A qdisc of anyone else stays.
"""

import socket
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sluice.dataplane.rtnetlink import KIND, Kind, all_queues, attributes
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.policy.units import FRAME_BYTES
from sluice.runtime.command import CommandFailed, run

QUEUES = 8
ROOT = "root"
HANDLE = "5c1c:"
_HANDLE = 0x5C1C0000
_ROOT = 0xFFFFFFFF
CLASSES = tuple(_HANDLE | queue + 1 for queue in range(QUEUES))
"""The classes of the queues, the first queue first. A packet's priority names one."""

_UNSHAPED = "1tbit"
"""Above the rate of every link, so that HTB only chooses and never waits."""

_LEAF = "htb quantum 60000 rate 100bit"
KINDS = {
    "prio": (
        f"qdisc add dev {{dev}} {{at}} handle {HANDLE} prio bands {QUEUES} priomap {' '.join('0' * 16)}",
    ),
    "htb": (
        f"qdisc add dev {{dev}} {{at}} handle {HANDLE} htb default 1",
        f"class add dev {{dev}} parent {HANDLE} classid {HANDLE}ff htb rate {_UNSHAPED} quantum 60000",
        # HTB serves a class below its rate first, whatever its priority. So the rate is a frame in two minutes: with a
        # frame a second, packets of lower queues overtake earlier ones of their flow.
        *(
            f"class add dev {{dev}} parent {HANDLE}ff classid {HANDLE}{queue + 1} {_LEAF} ceil {_UNSHAPED} prio {queue}"
            for queue in range(QUEUES)
        ),
    ),
}
"""Qdiscs with eight strict queues, in the order in which they are tried: the cheaper one first. Each has the input of
`tc -batch`, with {dev} and {at}."""


class Qdisc(NamedTuple):
    """A qdisc of an interface. Numbers are tc's, 16 bits before the colon and 16 after it."""

    kind: str
    handle: int
    """0: the kernel's own, which anyone may replace."""
    parent: int


def make(interface: str, at: str, kinds: Iterable[str] = tuple(KINDS)) -> str:
    """Make the queues of an interface in the current network namespace, or keep those of an earlier agent. Idempotent.

    Returns the kind of the qdisc, the first of `kinds` that the kernel has.

    `at`: ROOT, or a class of a qdisc that exists ("1:1"). Raises SluiceError if another qdisc is there, and
    EnvironmentLacking if the kernel has none of the kinds.
    """
    where = "at its root" if at == ROOT else f"below its class {at}"
    present = qdisc_at(_qdiscs(interface), at)
    if present is None:
        return _make_first(interface, at, kinds, where)
    if present.handle == _HANDLE:
        return present.kind if present.kind in kinds else _make_first(interface, at, kinds, where)
    raise SluiceError(
        f"{interface} has a qdisc of another program {where}: {present.kind} {present.handle >> 16:x}:; remove it, or"
        " name one of its classes in queues_at"
    )


def _make_first(interface: str, at: str, kinds: Iterable[str], where: str) -> str:
    problems = []
    remove(interface)  # an earlier agent may have left them at another place
    for kind in kinds:
        try:
            run(["tc", "-batch", "-"], stdin=_commands(kind, interface, at))
        except CommandFailed as error:
            problems.append(f"{kind}: {error.output.strip().splitlines()[0]}")
            remove(interface)
        except FileNotFoundError as error:
            raise EnvironmentLacking("there is no tc: apt-get install iproute2") from error
        else:
            return kind
    raise EnvironmentLacking(f"no queues {where} of {interface}: {'; '.join(problems)}")


def limit(interface: str, rates_bps: Sequence[int], bursts_bytes: Sequence[int]) -> None:
    """Limit the first queues of an interface, which are HTB's, to these rates; the others have no limit.

    `bursts_bytes`: what each may send at once after a pause, whole frames. HTB sends a frame if its bucket is not below
    zero, so the bucket holds a frame less. Raises CommandFailed.
    """
    limits = [
        f"ceil {rate}bit cburst {burst - FRAME_BYTES + 1}"
        for rate, burst in zip(rates_bps, bursts_bytes, strict=True)
    ]
    limits += [f"ceil {_UNSHAPED}"] * (QUEUES - len(limits))
    lines = (
        f"class change dev {interface} parent {HANDLE}ff classid {HANDLE}{queue + 1} {_LEAF} {ceil} prio {queue}\n"
        for queue, ceil in enumerate(limits)
    )
    run(["tc", "-batch", "-"], stdin="".join(lines))


def qdisc_at(qdiscs: Sequence[Qdisc], at: str) -> Qdisc | None:
    """Return the qdisc that someone has made at a place (see `make`). None if there is none or the kernel's own."""
    major, _, minor = at.partition(":")
    parent = _ROOT if at == ROOT else int(major, 16) << 16 | int(minor, 16)
    return next((qdisc for qdisc in qdiscs if qdisc.parent == parent and qdisc.handle), None)


def remove(interface: str) -> bool:
    """Remove Sluice's queues, wherever they are on the interface. Return whether there were any."""
    own = [qdisc for qdisc in _qdiscs(interface) if qdisc.handle == _HANDLE]
    for qdisc in own:
        major, minor = divmod(qdisc.parent, 1 << 16)
        at = [ROOT] if qdisc.parent == _ROOT else ["parent", f"{major:x}:{minor:x}"]
        run(["tc", "qdisc", "del", "dev", interface, *at])
    return bool(own)


def first_kind() -> str | None:
    """Return the kind that this kernel would get, None without any. It tries them in a network namespace of its own."""
    for kind in KINDS:
        try:
            run(["unshare", "--net", "tc", "-batch", "-"], stdin=_commands(kind, "lo", ROOT))
        except (CommandFailed, OSError):
            continue
        return kind
    return None


def _commands(kind: str, interface: str, at: str) -> str:
    place = ROOT if at == ROOT else f"parent {at}"
    return "".join(f"{line}\n" for line in KINDS[kind]).format(dev=interface, at=place)


def _qdiscs(interface: str) -> list[Qdisc]:
    try:
        index = socket.if_nametoindex(interface)
        qdiscs = list(all_queues(Kind.QDISCS, index))
    except OSError as error:
        raise SluiceError(f"cannot read the qdiscs of {interface}: {error}") from error
    return [
        Qdisc(attributes(said)[KIND].rstrip(b"\0").decode(), handle, parent)
        for at, handle, parent, said in qdiscs
        if at == index
    ]


_STATS2, _STATS_BASIC, _STATS_QUEUE = 7, 1, 3
_BASIC, _QUEUE = struct.Struct("=Q"), struct.Struct("=III")


class QueueCounters(NamedTuple):
    """Counters of one qdisc or class."""

    handle: int
    parent: int
    sent_bytes: int
    waiting_bytes: int
    dropped: int


def queue_counters(kind: Kind, interface: int) -> list[QueueCounters]:
    """Return the counters of an interface of the current network namespace, by its index. Raises OSError."""
    rows = []
    for index, handle, parent, data in all_queues(kind, interface):
        if index != interface:
            continue
        statistics = attributes(attributes(data).get(_STATS2, b""))
        basic, queue = statistics.get(_STATS_BASIC), statistics.get(_STATS_QUEUE)
        sent_bytes = _BASIC.unpack_from(basic)[0] if basic else 0
        _, waiting_bytes, dropped = _QUEUE.unpack_from(queue) if queue else (0, 0, 0)
        rows.append(QueueCounters(handle, parent, sent_bytes, waiting_bytes, dropped))
    return rows
