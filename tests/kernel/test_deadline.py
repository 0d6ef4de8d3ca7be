# SPDX-License-Identifier: Apache-2.0
"""The Python API and the examples on real connections, with the hook attached."""

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import pytest

from sluice.dataplane.congestion import ControlSettings, HostEntry, register_congestion_control
from sluice.dataplane.loader import Map
from sluice.dataplane.sockopt import Attachment
from sluice.hostagent import sockets
from sluice.hostagent.sockets import FlowState, Phase, declare, declared, undeclare
from sluice.runtime.wait import wait_until
from tests.kernel.bottleneck import SERVER, bottleneck
from tests.kernel.conftest import V4, Pair
from tests.kernel.controls import control as control_of
from tests.kernel.controls import fill, later, private_build, private_name, reading
from tests.kernel.lab import Namespace, dial, listen

DECLARED_BYTES = 48
"""Size of struct declared_flow in bpf/flow.bpf.h. The phase follows it."""
KILLED, SUSPENDED, SENDING = 2, 1, 0


@pytest.fixture
def ends(flows: Map, pair: Pair) -> Iterator[list[socket.socket]]:
    with pair.connection() as both:
        yield list(both)


def set_phase(flows: Map, sock: socket.socket, phase: int) -> None:
    value = bytearray(flows.lookup(sock.fileno()) or b"")
    struct.pack_into("=I", value, DECLARED_BYTES, phase)
    flows.update(sock.fileno(), bytes(value))


def test_declare__every_field_reaches_the_kernel_and_comes_back(ends: list[socket.socket]) -> None:
    sender = ends[0]
    declare(
        sender,
        size_bytes=5000,
        deadline_s=2.5,
        elapsed_s=0.25,
        importance=1.5,
        importance_share=0.25,
        quench="suspend",
        congestion_control="reno",
    )
    flow = declared(sender)
    assert (flow.size_bytes, flow.importance, flow.importance_share) == (5000, 1.5, 0.25)
    assert (flow.quench, flow.congestion_control) == ("suspend", "reno")
    assert flow.deadline_s is not None
    assert flow.elapsed_s is not None
    assert 2.4 < flow.deadline_s <= 2.5
    assert flow.deadline_s + flow.elapsed_s == pytest.approx(2.75)
    undeclare(sender)
    flow = declared(sender)
    assert {flow.size_bytes, flow.deadline_s, flow.elapsed_s, flow.importance, flow.quench} == {None}


def test_sendall__delivers_and_waits_for_the_receiver(ends: list[socket.socket]) -> None:
    sender, receiver = ends
    with sockets.DeadlineSocket(sender) as flow, reading(receiver) as counts:
        for size_bytes in (3_000_000, 10):
            flow.declare(size_bytes=size_bytes, deadline_s=10)
            flow.sendall(bytes(size_bytes))
            flow.wait_acknowledged()
            assert flow.state().acked_bytes == size_bytes
        sender.shutdown(socket.SHUT_WR)
    assert counts == [3_000_010]


@pytest.mark.parametrize("timeout_s", [None, 200.0])
def test_sendall__a_kill_ends_it_while_it_blocks(
    ends: list[socket.socket], flows: Map, timeout_s: float | None
) -> None:
    sender = ends[0]
    sender.settimeout(timeout_s)
    seen: list[FlowState] = []
    flow = sockets.DeadlineSocket(sender, seen.append)
    flow.declare(size_bytes=10**9, deadline_s=1, quench="kill")
    with later(lambda: set_phase(flows, sender, KILLED)), pytest.raises(sockets.FlowQuenched) as raised:
        flow.sendall(bytes(50_000_000))
    assert raised.value.state.phase == Phase.KILLED
    assert [s.phase for s in seen] == [Phase.KILLED]
    with pytest.raises(sockets.FlowQuenched):
        flow.sendall(b"more")
    flow.declare(size_bytes=5)
    assert flow.state().phase == Phase.SENDING, "another flow starts"


def test_sendall__reports_a_suspension_and_continues(ends: list[socket.socket], flows: Map) -> None:
    sender = ends[0]
    seen: list[Phase] = []
    flow = sockets.DeadlineSocket(sender, lambda now: seen.append(now.phase))
    flow.declare(size_bytes=10**9, deadline_s=1, quench="suspend")
    phases = [lambda phase=phase: set_phase(flows, sender, phase) for phase in (SUSPENDED, SENDING, KILLED)]
    with later(*phases), pytest.raises(sockets.FlowQuenched):
        flow.sendall(bytes(50_000_000))
    assert seen == [Phase.SUSPENDED, Phase.SENDING, Phase.KILLED]


def test_wait_acknowledged__a_kill_ends_it(ends: list[socket.socket], flows: Map) -> None:
    sender = ends[0]
    flow = sockets.DeadlineSocket(sender)
    flow.declare(size_bytes=10**9)
    fill(sender)
    flow._add_written(10**9)  # as if all data were in a buffer that no one reads
    with later(lambda: set_phase(flows, sender, KILLED)), pytest.raises(sockets.FlowQuenched):
        flow.wait_acknowledged()


def test_timeouts__hold_for_the_whole_call(ends: list[socket.socket]) -> None:
    sender = ends[0]
    flow = sockets.DeadlineSocket(sender)
    flow.declare(size_bytes=10**9)
    sender.settimeout(0.3)
    actions: tuple[Callable[[], object], ...] = (
        partial(flow.sendall, bytes(50_000_000)),
        flow.wait_acknowledged,
    )
    for action in actions:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            action()
        assert time.monotonic() - began >= 0.3
    sender.setblocking(False)
    with pytest.raises(BlockingIOError):
        flow.sendall(b"no room")


def test_wait_acknowledged__the_receiver_has_gone(ends: list[socket.socket]) -> None:
    sender, receiver = ends
    flow = sockets.DeadlineSocket(sender)
    flow.declare(size_bytes=10**9)
    fill(sender)
    flow._add_written(10**9)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
    receiver.close()
    with pytest.raises(ConnectionResetError):
        flow.wait_acknowledged()


# -- asyncio


def on_stream(
    pair: Pair,
    use: Callable[[sockets.DeadlineStream, socket.socket], Awaitable[None]],
    **options: Callable[[FlowState], None],
) -> None:
    """Run `use` with a stream to a listener and with the accepted end."""

    async def run() -> None:
        client, server = dial(pair.a, listener)
        _, writer = await asyncio.open_connection(sock=client)
        with server:
            await use(sockets.DeadlineStream(writer, **options), server)
        writer.transport.abort()

    with listen(pair.b, V4["b"]) as listener:
        asyncio.run(run())


def test_stream__delivers_and_waits_for_the_receiver(flows: Map, pair: Pair) -> None:
    async def use(flow: sockets.DeadlineStream, server: socket.socket) -> None:
        server.setblocking(False)
        loop = asyncio.get_running_loop()

        async def read(size_bytes: int) -> None:
            while size_bytes:
                size_bytes -= len(await loop.sock_recv(server, 1 << 18))

        for size_bytes in (3_000_000, 10):
            flow.declare(size_bytes=size_bytes, deadline_s=5.0)
            assert flow.declared().size_bytes == size_bytes
            await asyncio.gather(flow.send(bytes(size_bytes)), read(size_bytes))
            await flow.wait_acknowledged()
            assert flow.state().acked_bytes == size_bytes

    on_stream(pair, use)


@pytest.mark.parametrize("waits", ["send", "wait_acknowledged"])
def test_stream__a_kill_ends_the_waiting_call(flows: Map, pair: Pair, waits: str) -> None:
    seen: list[Phase] = []

    async def use(flow: sockets.DeadlineStream, server: socket.socket) -> None:
        sock = flow.writer.get_extra_info("socket")
        flow.declare(size_bytes=10**9, deadline_s=1, quench="kill")
        if waits == "send":
            waiting = asyncio.ensure_future(flow.send(bytes(50_000_000)))
        else:
            flow._add_written(10**9)
            waiting = asyncio.ensure_future(flow.wait_acknowledged())
        for phase in (SUSPENDED, KILLED):
            await asyncio.sleep(0.2)
            assert not waiting.done()
            set_phase(flows, sock, phase)
        with pytest.raises(sockets.FlowQuenched):
            await waiting

    on_stream(pair, use, on_phase=lambda now: seen.append(now.phase))
    assert seen == [Phase.SUSPENDED, Phase.KILLED]


def test_stream__the_receiver_has_gone(flows: Map, pair: Pair) -> None:
    async def use(flow: sockets.DeadlineStream, server: socket.socket) -> None:
        flow.declare(size_bytes=10**9)
        waiting = asyncio.ensure_future(flow.send(bytes(50_000_000)))
        await asyncio.sleep(0.1)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("=ii", 1, 0))
        server.close()
        with pytest.raises(ConnectionError):
            await waiting

    on_stream(pair, use)


# -- with the congestion controls


@pytest.fixture
def registered() -> Iterator[Callable[[str], str]]:
    """Register the control of a program (cc_datcp) under a name of this process."""
    with contextlib.ExitStack() as stack:

        def register(program: str) -> str:
            name = private_name(program)
            stack.enter_context(register_congestion_control(name, private_build(program)))
            return name

        yield register


def test_control__without_ecn_is_that_of_the_host_before(
    hook: Attachment, pair: Pair, registered: Callable[[str], str]
) -> None:
    """By a declaration, by TCP_CONGESTION and as the default: a control that needs ECN falls back if the peer refused.

    The host's entry names the control. A namespace without an entry, as of a container, has the machine's.
    """
    control = registered("cc_ucp")
    with HostEntry() as entry:
        for place, without_ecn in ((pair.a, "reno"), (pair.a, "cubic"), (contextlib.nullcontext(), "cubic")):
            settings = ControlSettings(without_ecn=without_ecn)
            with place:
                entry.set(settings, settings)
            for agrees, expected in ((0, without_ecn), (1, control)):
                pair.b.sysctl("net.ipv4.tcp_ecn", agrees)
                with pair.a:
                    assert controls_of(pair, control, control if agrees else "reno") == [expected] * 3
            with place:
                entry.forget()


def test_a_listener_from_before_the_policy__accepts_the_control_and_gets_it(
    hook: Attachment, pair: Pair, registered: Callable[[str], str]
) -> None:
    """One that has chosen another control than the host's former one keeps it. ECN is agreed on all the same."""
    control = registered("cc_dctcp")
    with pair.b, HostEntry() as entry, contextlib.ExitStack() as stack:
        former = pair.b.run("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
        older = stack.enter_context(listen(pair.b, V4["b"]))
        chosen = stack.enter_context(listen(pair.b, V4["b"], "reno"))
        assert both_controls(pair, older, control)[1] == former
        entry.set(ControlSettings(control=control, without_ecn=former))
        assert both_controls(pair, older, control) == (control, control)
        assert both_controls(pair, chosen, control) == (control, control if former == "reno" else "reno")
        entry.forget()
        assert both_controls(pair, older, control)[1] == former


def both_controls(pair: Pair, listener: socket.socket, control: str) -> tuple[str, str]:
    """Return the controls of a connection's ends: of the one that selects `control` and connects, and of the other."""
    client, server = dial(pair.a, listener, control)
    with client, server:
        return control_of(client).decode(), control_of(server).decode()


def controls_of(pair: Pair, control: str, of_listener: str) -> list[str]:
    """Return the control of three connections: declared after the handshake, selected before it, by default."""
    found = []
    default = pair.a.run("sysctl", "-n", "net.ipv4.tcp_congestion_control").strip()
    for selected in ("declared", "selected", "default"):
        if selected == "default":
            pair.a.sysctl("net.ipv4.tcp_congestion_control", control)
        with listen(pair.b, V4["b"], of_listener) as listener:
            client, server = dial(pair.a, listener, control if selected == "selected" else None)
        with client, server:
            if selected == "declared":
                declare(client, size_bytes=1000, deadline_s=1, congestion_control=control)
                assert declared(client).size_bytes == 1000
            found.append(control_of(client).decode())
    pair.a.sysctl("net.ipv4.tcp_congestion_control", default)
    return found


def test_sendall__the_kernel_kills_flows_that_cannot_meet_their_deadlines(
    hook: Attachment, namespaces: list[Namespace], registered: Callable[[str], str]
) -> None:
    """Four flows of 100 MB in 3 s over 100 Mb/s. None can meet its deadline."""
    control = registered("cc_datcp")
    quenched: list[FlowState] = []

    def send(client: socket.socket) -> None:
        # OSError: the test ends the flows that continue.
        with sockets.DeadlineSocket(client) as flow, contextlib.suppress(OSError):
            flow.declare(size_bytes=10**8, deadline_s=3, quench="kill", congestion_control=control)
            try:
                flow.sendall(bytes(10**8))
            except sockets.FlowQuenched as reason:
                quenched.append(reason.state)

    with bottleneck(namespaces, control) as bell, contextlib.ExitStack() as stack:
        with listen(bell.b, SERVER) as listener:
            pairs = [dial(bell.a, listener) for _ in range(4)]
        for _, server in pairs:
            stack.enter_context(server)
            stack.enter_context(reading(server))
        senders = [threading.Thread(target=send, args=(client,)) for client, _ in pairs]
        for sender in senders:
            sender.start()
        wait_until(lambda: len(quenched) >= 2, "two flows are killed")
        for client, _ in pairs:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for sender in senders:
            sender.join()
    for state_ in quenched:
        assert state_.phase == Phase.KILLED
        assert state_.quenches == 1
        assert 0 < state_.acked_bytes < 10**8
        assert state_.urgency > 1
