# SPDX-License-Identifier: Apache-2.0
"""Tell the kernel of a flow, from any Python program: size, deadline, importance, what to do when it is late.

    sock = socket.create_connection(server)
    with DeadlineSocket(sock) as flow:
        flow.tell(size_bytes=len(data), deadline_s=0.025, quench="kill", congestion_control="sluice_datcp")
        flow.sendall(data)                  # FlowQuenched when the kernel has given the flow up
        flow.wait_acknowledged()
        print(flow.state().urgency)

`DeadlineStream` is the same for asyncio streams; `tell` and `state` alone serve programs that send by themselves. Any
user may; a Sluice agent must run on the machine. What happens in the kernel: dataplane/include/sluice.h.
"""

from __future__ import annotations

import asyncio
import errno
import math
import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, Self, TypedDict, Unpack

from policy.errors import EnvironmentLacking, FieldError, SluiceError

SOL_SLUICE = 0x5C1C
SLUICE_FLOW, SLUICE_STATE = 1, 2
HAS_SIZE, HAS_DEADLINE, HAS_IMPORTANCE, HAS_QUENCH, HAS_CONTROL = 0x1, 0x2, 0x4, 0x8, 0x10
FLOW = struct.Struct("=IIQqQII16s")
"""struct sluice_flow: fields, quench, size_bytes, deadline_ns, elapsed_ns, importance_milli, its share, control."""
STATE = struct.Struct("=IIQQQIIIIIIII")
"""struct sluice_state, in the order of FlowState."""

IMPORTANCE_MAX = 8.0
LOOK_EVERY_S = 0.02
"""A sender that waits looks this often whether its flow was quenched."""

_ENDLESS = 2**64 - 1
_INT64_MAX = 2**63 - 1
_CONTROL_CHARACTERS_MAX = 15
_CHUNK_BYTES = 1 << 20

Quench = Literal["never", "kill", "suspend"]
_QUENCHES: tuple[Quench, ...] = ("never", "kill", "suspend")


class Phase(StrEnum):
    SENDING = "sending"
    SUSPENDED = "suspended"
    KILLED = "killed"


_PHASES = tuple(Phase)


class WrongField(FieldError, ValueError):
    """A field of a flow has a value that is not allowed; the socket is as it was."""


class NoAgent(EnvironmentLacking):
    """Nobody on this machine takes what programs tell."""


class FlowQuenched(SluiceError):
    """The kernel has given the flow up, because it cannot make its deadline: close the connection."""

    def __init__(self, state: FlowState) -> None:
        super().__init__(
            f"the flow was killed after {state.acked_bytes} bytes, since it cannot make its deadline: "
            "close the connection, or tell of another flow on it"
        )
        self.state = state


class HasOptions(Protocol):
    """A socket, or what asyncio's get_extra_info("socket") gives."""

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...
    def setsockopt(self, level: int, optname: int, value: bytes, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Flow:
    """What the kernel has been told of a socket's flow; None: not told."""

    size_bytes: int | None
    deadline_s: float | None
    """What is left, below zero when it has passed."""
    elapsed_s: float | None
    """Since the flow began, for a flow with a deadline."""
    importance: float | None
    importance_share: float | None
    quench: Quench | None
    congestion_control: str
    """The one in force, told or not."""


@dataclass(frozen=True, slots=True)
class FlowState:
    """How a flow fares. Only acked_bytes counts under a congestion control that is not Sluice's."""

    phase: Phase
    windows: int
    """Windows of data since the flow began."""
    acked_bytes: int
    rate_bytes_per_s: int
    """Averaged."""
    wanted_bytes_per_s: float
    """What the deadline needs from now on; math.inf when no rate would do."""
    alpha: float
    """Share of marked packets, averaged."""
    urgency: float
    """1 for a flow without deadline, more when it is pressed."""
    precedence: float
    decrease: float
    """Share by which the next mark cuts the window."""
    cwnd_packets: int
    cuts: int
    quenches: int
    resumes: int


# -- telling and asking, on any TCP socket


class FlowFields(TypedDict, total=False):
    """What can be told; what is left out is not told."""

    size_bytes: int
    """Of the whole flow, 1 and more."""
    deadline_s: float
    """From now."""
    elapsed_s: float
    """With a deadline: how long ago the flow began, if it has waited in the program."""
    importance: float
    """1 as a standard flow; 0.001 … 8."""
    importance_share: float
    """With an importance: its weight, urgency has the rest; 0 … 1, a half when left out."""
    quench: Quench
    """When the deadline cannot be made."""
    congestion_control: str
    """To select for the socket: sluice_ucp, sluice_d2tcp, sluice_datcp, sluice_mcp …"""


def tell(sock: HasOptions, **flow: Unpack[FlowFields]) -> None:
    """A new flow begins with the next byte that is written; before connect(): with the connection.

    Raises WrongField, NoAgent, OSError (not a TCP socket); the socket is as it was then.
    """
    value = packed(**flow)
    try:
        sock.setsockopt(SOL_SLUICE, SLUICE_FLOW, value)
    except OSError as error:
        raise _meaning(error, flow.get("congestion_control")) from error


def told(sock: HasOptions) -> Flow:
    """What the kernel has been told. Raises NoAgent, OSError."""
    fields, quench, size_bytes, deadline_ns, elapsed_ns, importance, share, control = FLOW.unpack(
        _get(sock, SLUICE_FLOW, FLOW.size)
    )
    timed, matters = fields & HAS_DEADLINE, fields & HAS_IMPORTANCE
    return Flow(
        size_bytes=size_bytes if fields & HAS_SIZE else None,
        deadline_s=deadline_ns / 1e9 if timed else None,
        elapsed_s=elapsed_ns / 1e9 if timed else None,
        importance=importance / 1000 if matters else None,
        importance_share=share / 1000 if matters else None,
        quench=_QUENCHES[quench] if fields & HAS_QUENCH else None,
        congestion_control=control.split(b"\0")[0].decode(),
    )


def state(sock: HasOptions) -> FlowState:
    """How the socket's flow fares. Raises NoAgent, OSError."""
    phase, windows, acked_bytes, rate, wanted, alpha, urgency, precedence, decrease, *counts = STATE.unpack(
        _get(sock, SLUICE_STATE, STATE.size)
    )
    return FlowState(
        _PHASES[phase],
        windows,
        acked_bytes,
        rate,
        math.inf if wanted == _ENDLESS else wanted,
        alpha / 2**20,
        urgency / 2**16,
        precedence / 2**16,
        decrease / 2**16,
        *counts,
    )


# -- sending


class _Watch:
    """Looks at a flow now and then, and says what has happened to it."""

    def __init__(self, sock: HasOptions, on_phase: Callable[[FlowState], None] | None) -> None:
        self._sock = sock
        self._on_phase = on_phase
        self._phase = Phase.SENDING
        self.written_bytes: int | None = None
        """Of the flow that was told of; None before the first one."""

    def begin(self) -> None:
        self._phase = Phase.SENDING
        self.written_bytes = 0

    def wrote(self, size_bytes: int) -> None:
        if self.written_bytes is not None:
            self.written_bytes += size_bytes

    def look(self) -> FlowState:
        """Calls back when the phase is another one than at the last look; raises FlowQuenched."""
        now = state(self._sock)
        if now.phase != self._phase:
            self._phase = now.phase
            if self._on_phase is not None:
                self._on_phase(now)
        if now.phase == Phase.KILLED:
            raise FlowQuenched(now)
        return now

    def is_acknowledged(self) -> bool:
        if self.written_bytes is None:
            raise SluiceError("there is no flow to wait for: tell of it before its first byte is written")
        return self.look().acked_bytes >= self.written_bytes


class DeadlineSocket:
    """A connected TCP socket whose flows have deadlines; a context manager that closes it.

    on_phase is called, in the thread that sends or waits, when the flow is suspended, goes on, or is killed.
    """

    def __init__(self, sock: socket.socket, on_phase: Callable[[FlowState], None] | None = None) -> None:
        self.sock = sock
        self._watch = _Watch(sock, on_phase)

    def tell(self, **flow: Unpack[FlowFields]) -> None:
        """As the function `tell`."""
        tell(self.sock, **flow)
        self._watch.begin()

    def told(self) -> Flow:
        return told(self.sock)

    def state(self) -> FlowState:
        return state(self.sock)

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """Hand all of it to the kernel, within the socket's timeout if it has one.

        Raises FlowQuenched, at the latest some 20 ms after the kernel killed the flow, also while it blocks.
        """
        remaining, clock = memoryview(data).cast("B"), _Clock(self.sock.gettimeout())
        writable = select.poll()
        writable.register(self.sock, select.POLLOUT)
        while remaining:
            self._watch.look()
            if writable.poll(clock.wait_ms()):
                # Writable now, so that this does not block: also not a socket with a timeout, for which Python waits.
                sent = self.sock.send(remaining[:_CHUNK_BYTES], socket.MSG_DONTWAIT)
                remaining = remaining[sent:]
                self._watch.wrote(sent)
            else:
                clock.check()

    def wait_acknowledged(self) -> None:
        """Until the receiver's kernel has all that was sent of this flow, within the socket's timeout if it has one.

        Raises FlowQuenched, TimeoutError, ConnectionError.
        """
        clock, broken = _Clock(self.sock.gettimeout()), select.poll()
        broken.register(self.sock, 0)
        while not self._watch.is_acknowledged():
            if broken.poll(clock.wait_ms()):
                _raise_broken(self.sock)
            clock.check()

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DeadlineStream:
    """The same for an asyncio stream. on_phase is called by the event loop's thread."""

    def __init__(
        self, writer: asyncio.StreamWriter, on_phase: Callable[[FlowState], None] | None = None
    ) -> None:
        self.writer = writer
        self._sock: HasOptions = writer.get_extra_info("socket")
        self._watch = _Watch(self._sock, on_phase)

    def tell(self, **flow: Unpack[FlowFields]) -> None:
        """As the function `tell`. What the writer still holds of an earlier flow counts to this one: drain first."""
        tell(self._sock, **flow)
        self._watch.begin()

    def told(self) -> Flow:
        return told(self._sock)

    def state(self) -> FlowState:
        return state(self._sock)

    async def send(self, data: bytes | bytearray | memoryview) -> None:
        """write() and drain(). Raises FlowQuenched soon after the flow was killed, also while it waits.

        What the writer holds then has no use any more: `writer.transport.abort()`.
        """
        self._look()
        self.writer.write(data)
        self._watch.wrote(len(memoryview(data).cast("B")))
        drained = asyncio.ensure_future(self.writer.drain())
        try:
            while not (await asyncio.wait({drained}, timeout=LOOK_EVERY_S))[0]:
                self._look()
            drained.result()
        finally:
            drained.cancel()

    def _look(self) -> None:
        """Not at a socket that asyncio has closed: what has become of the connection, the writer says."""
        if not self._is_closed():
            self._watch.look()

    def _is_closed(self) -> bool:
        return int(self.writer.get_extra_info("socket").fileno()) < 0

    async def wait_acknowledged(self) -> None:
        """Until the receiver's kernel has all that was sent of this flow. Raises FlowQuenched, ConnectionError."""
        while self._is_closed() or not self._watch.is_acknowledged():
            if self.writer.transport.is_closing():
                raise ConnectionResetError(
                    errno.ECONNRESET, "the connection was closed before all had arrived"
                )
            await asyncio.sleep(LOOK_EVERY_S)


class _Clock:
    """How long a call may still wait: until the next look, and as a whole."""

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._end = None if timeout_s is None else time.monotonic() + timeout_s

    def wait_ms(self) -> float:
        left_s = LOOK_EVERY_S if self._end is None else self._end - time.monotonic()
        return 1000 * min(LOOK_EVERY_S, max(0.0, left_s))

    def check(self) -> None:
        if self._timeout_s == 0:
            raise BlockingIOError(errno.EAGAIN, "the socket does not block, and would have to")
        if self._end is not None and time.monotonic() >= self._end:
            raise TimeoutError("timed out")


def _raise_broken(sock: socket.socket) -> None:
    number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    raise OSError(number or errno.ECONNRESET, "the connection broke before all had arrived")


# -- a flow in the kernel's layout


def packed(
    *,
    size_bytes: int | None = None,
    deadline_s: float | None = None,
    elapsed_s: float | None = None,
    importance: float | None = None,
    importance_share: float | None = None,
    quench: Quench | None = None,
    congestion_control: str | None = None,
) -> bytes:
    """The struct sluice_flow of FlowFields. Raises WrongField."""
    return FLOW.pack(
        _fields(size_bytes, deadline_s, importance, quench, congestion_control),
        _quench_number(quench),
        _size(size_bytes),
        _deadline_ns(deadline_s),
        _elapsed_ns(elapsed_s, deadline_s),
        *_importance_milli(importance, importance_share),
        _control_name(congestion_control),
    )


def _fields(
    size_bytes: int | None,
    deadline_s: float | None,
    importance: float | None,
    quench: str | None,
    congestion_control: str | None,
) -> int:
    told_or_not = (
        (size_bytes, HAS_SIZE),
        (deadline_s, HAS_DEADLINE),
        (importance, HAS_IMPORTANCE),
        (quench, HAS_QUENCH),
        (congestion_control, HAS_CONTROL),
    )
    return sum(bit for value, bit in told_or_not if value is not None)


def _size(size_bytes: int | None) -> int:
    if size_bytes is None:
        return 0
    if not 1 <= size_bytes < 2**64:
        raise WrongField("size_bytes", f"must be 1 or more, not {size_bytes}")
    return size_bytes


def _deadline_ns(deadline_s: float | None) -> int:
    if deadline_s is None:
        return 0
    if not 0 < deadline_s * 1e9 <= _INT64_MAX or not round(deadline_s * 1e9):
        raise WrongField("deadline_s", f"must be in the future, not {deadline_s} s from now")
    return min(round(deadline_s * 1e9), _INT64_MAX)


def _elapsed_ns(elapsed_s: float | None, deadline_s: float | None) -> int:
    if elapsed_s is None:
        return 0
    if deadline_s is None:
        raise WrongField("elapsed_s", "counts only with deadline_s")
    if not 0 <= elapsed_s < time.monotonic():
        raise WrongField("elapsed_s", f"must be 0 or more, and since this machine started, not {elapsed_s}")
    return round(elapsed_s * 1e9)


def _importance_milli(importance: float | None, share: float | None) -> tuple[int, int]:
    """Importance and its share, in thousandths."""
    if importance is None:
        if share is not None:
            raise WrongField("importance_share", "counts only with importance")
        return 0, 0
    if not 1 <= importance * 1000 <= IMPORTANCE_MAX * 1000:
        raise WrongField("importance", f"must be 0.001 … {IMPORTANCE_MAX:g}, not {importance}")
    share = 0.5 if share is None else share
    if not 0 <= share <= 1:
        raise WrongField("importance_share", f"must be 0 … 1, not {share}")
    return round(importance * 1000), round(share * 1000)


def _quench_number(quench: str | None) -> int:
    if quench is None:
        return 0
    if quench not in _QUENCHES:
        raise WrongField("quench", f"must be one of {', '.join(_QUENCHES)}, not {quench!r}")
    return _QUENCHES.index(quench)


def _control_name(congestion_control: str | None) -> bytes:
    name = (congestion_control or "").encode()
    if congestion_control is not None and (not 1 <= len(name) <= _CONTROL_CHARACTERS_MAX or b"\0" in name):
        raise WrongField("congestion_control", f"must have 1 … 15 characters, not {congestion_control!r}")
    return name


# -- the system calls, and what their refusals mean


def _get(sock: HasOptions, option: int, size_bytes: int) -> bytes:
    try:
        return sock.getsockopt(SOL_SLUICE, option, size_bytes)
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP and _is_tcp(sock):  # so says IPv4 when nobody answers
            raise _no_agent() from error
        raise _meaning(error, None) from error


def _meaning(error: OSError, congestion_control: str | None) -> Exception:
    if error.errno == errno.ENOPROTOOPT:
        return _no_agent()
    if error.errno == errno.EINVAL and congestion_control is not None:  # all else has been looked at before
        return WrongField(
            "congestion_control",
            f"{congestion_control} is not registered on this machine: "
            "cat /proc/sys/net/ipv4/tcp_available_congestion_control",
        )
    if error.errno == errno.EPERM and congestion_control is not None:
        return WrongField(
            "congestion_control",
            f"{congestion_control} is only for root here: see net.ipv4.tcp_allowed_congestion_control",
        )
    if error.errno == errno.EOPNOTSUPP:
        return OSError(error.errno, "only a TCP socket that does not listen can carry a flow with a deadline")
    return error


def _no_agent() -> NoAgent:
    return NoAgent(
        "no Sluice agent runs on this machine, so nobody would see the deadline: start one as root "
        "(python -m hostagent), and `sluice doctor` says what may be missing"
    )


def _is_tcp(sock: HasOptions) -> bool:
    try:
        protocol = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL, 4)
        listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN, 4)
    except OSError:
        return False
    return struct.unpack("=i", protocol)[0] == socket.IPPROTO_TCP and not any(listens)
