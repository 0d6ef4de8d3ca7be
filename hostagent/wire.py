# SPDX-License-Identifier: Apache-2.0
"""The messages of a flow's connection, and what their times say of the other machine's clock.

The messages are the sender's header before the payload, and the receiver's notice.

A flow of n bytes is n bytes of TCP payload: the header, then n - HEADER_BYTES arbitrary bytes. So a flow
is at least as long as its header, and a schedule with a shorter flow is refused. An endless flow ends
with its FIN; the header holds its least size. All integers are in network order.

    header  magic version flags - sequence:u64 size_bytes:u64 started_ns:u64 -:u64
    notice  magic version - sequence:u64 arrived_ns:u64 answered_ns:u64 machine:u64
"""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from sluice.runtime.identity import boot

VERSION = 3
PORT = 26735
"""The TCP port of the traffic endpoint. It is outside Linux's ephemeral ports (from 32768), IANA assigns it to no
service, and measuring tools such as iperf (5001) do not use it."""
DRIFT = 1e-3
"""Linux corrects a clock by at most 500 ppm, so two of them drift apart by at most this much."""

_HEADER = struct.Struct("!4sBBxxQQQ8x")
_NOTICE = struct.Struct("!4sBxxxQQQQ")
_HEADER_MAGIC, _NOTICE_MAGIC = b"SLCF", b"SLCN"

HEADER_BYTES = _HEADER.size
NOTICE_BYTES = _NOTICE.size

_ENDS_WITH_FIN = 1
_ENDLESS = 2


class BadMessage(Exception):
    """The peer does not speak this protocol, or speaks another version of it."""


@dataclass(frozen=True)
class Header:
    """The sender's message before the payload."""

    sequence: int
    """The flow's number in its sender's schedule."""
    size_bytes: int
    """TCP payload of the whole flow, including this header."""
    started_ns: int
    """CLOCK_REALTIME of the sender right before connect(); on an open connection, before the first send()."""
    ends_with_fin: bool
    """The connection carries only this flow: the FIN follows the last byte, and the notice follows the FIN."""
    endless: bool = False
    """`size_bytes` is the least size; the FIN marks the end."""

    def pack(self) -> bytes:
        """Return the message."""
        flags = (_ENDS_WITH_FIN if self.ends_with_fin else 0) | (_ENDLESS if self.endless else 0)
        return _HEADER.pack(_HEADER_MAGIC, VERSION, flags, self.sequence, self.size_bytes, self.started_ns)

    @classmethod
    def unpack(cls, data: bytes | bytearray) -> Header:
        """Return the header in a message of HEADER_BYTES. Raises BadMessage."""
        magic, version, flags, sequence, size_bytes, started_ns = _HEADER.unpack(data)
        _check(magic, _HEADER_MAGIC, version)
        if size_bytes < HEADER_BYTES:
            raise BadMessage(f"a flow of {size_bytes} bytes is shorter than its header of {HEADER_BYTES}")
        fin, endless = bool(flags & _ENDS_WITH_FIN), bool(flags & _ENDLESS)
        if endless and not fin:
            raise BadMessage("an endless flow must end with a FIN: without one it never ends")
        return cls(sequence, size_bytes, started_ns, fin, endless)


@dataclass(frozen=True)
class Notice:
    """The receiver's answer to a whole flow."""

    sequence: int
    arrived_ns: int
    """CLOCK_REALTIME at the arrival of the last byte."""
    answered_ns: int
    """CLOCK_REALTIME when the receiver sent this notice."""
    machine: int
    """Machine of the receiver, because two hosts of one machine have one clock: see `machine_number`."""

    def pack(self) -> bytes:
        """Return the message."""
        times_ns = self.arrived_ns, self.answered_ns
        return _NOTICE.pack(_NOTICE_MAGIC, VERSION, self.sequence, *times_ns, self.machine)

    @classmethod
    def unpack(cls, data: bytes | bytearray) -> Notice:
        """Return the notice in a message of NOTICE_BYTES. Raises BadMessage."""
        magic, version, *fields = _NOTICE.unpack(data)
        _check(magic, _NOTICE_MAGIC, version)
        return cls(*fields)


def machine_number(boot: str) -> int:
    """Return the number of a machine by the identity of its boot."""
    return int(boot.replace("-", "")[:16], 16)


def _check(magic: bytes, expected: bytes, version: int) -> None:
    if magic != expected:
        raise BadMessage(f"starts with {magic!r}, not {expected!r}")
    if version != VERSION:
        raise BadMessage(f"has version {version} of the protocol, not {VERSION}")


class Difference(NamedTuple):
    """The other machine's clock minus this one's. The true difference is within `error_ns` of `ns`."""

    ns: int
    error_ns: int


class PeerClock:
    """How far the clock of another machine is from this one's, as the flows to it show.

        theta = the other machine's clock - this machine's clock

        started  <= arrived - theta     a flow's last byte arrives after its start
        answered - theta <= read        the notice is read after it was sent

        so   answered - read <= theta <= arrived - started

    Each flow shows such an interval, which is as long as the flow and the way back of its notice took. The intervals of
    several flows overlap, so the shortest flows narrow it. Between two flows it becomes longer again, because clocks
    drift. A step of a clock is forgotten with the first flow that contradicts it.
    """

    def __init__(self) -> None:
        self._low_ns = self._high_ns = 0
        self._learned_ns: int | None = None

    def learn(self, *, started_ns: int, arrived_ns: int, answered_ns: int, read_ns: int) -> Difference:
        """Take the times of a flow, and return the difference that they and those of earlier flows leave open.

        `started_ns` and `read_ns` are of this machine's clock, the others of the other's (CLOCK_REALTIME).
        """
        low_ns, high_ns = sorted((answered_ns - read_ns, arrived_ns - started_ns))
        if self._learned_ns is not None:
            drift_ns = round(abs(read_ns - self._learned_ns) * DRIFT)
            both = max(low_ns, self._low_ns - drift_ns), min(high_ns, self._high_ns + drift_ns)
            if both[0] <= both[1]:
                low_ns, high_ns = both
        self._low_ns, self._high_ns, self._learned_ns = low_ns, high_ns, read_ns
        return Difference((low_ns + high_ns) // 2, (high_ns - low_ns + 1) // 2)


class PeerClocks:
    """The clocks of all hosts to which this one sends."""

    def __init__(self) -> None:
        self._machine = machine_number(boot())
        self._clocks: defaultdict[str, PeerClock] = defaultdict(PeerClock)

    def arrival(self, address: str, started_ns: int, notice: Notice) -> tuple[int, int | None]:
        """Return when a flow arrived by this machine's clock, and by how much that can be wrong (ns).

        The error is None if both hosts are on one machine, because they have one clock.
        """
        if notice.machine == self._machine:
            return notice.arrived_ns, None
        difference = self._clocks[address].learn(
            started_ns=started_ns,
            arrived_ns=notice.arrived_ns,
            answered_ns=notice.answered_ns,
            read_ns=time.time_ns(),
        )
        return notice.arrived_ns - difference.ns, difference.error_ns
