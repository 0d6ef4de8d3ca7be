# SPDX-License-Identifier: Apache-2.0
"""The kernel tier: BPF programs in the running kernel, and namespaces that the tests make."""

import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluice.dataplane.build import KERNEL_BTF
from sluice.dataplane.congestion import DEFAULT_CONTROL, HostEntry
from sluice.dataplane.loader import Map, load
from sluice.dataplane.port import PortProgram
from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.watch import Watch
from sluice.runtime.command import CommandFailed, run
from sluice.topologies.commands import shaper
from tests.kernel.capture import Capture
from tests.kernel.lab import Namespace, address, connect, connected
from tests.kernel.port_frames import OPEN, PORT, Port
from tests.kernel.watching import NEVER_NS, Cgroup, WatchOf, make_queues

HERE = Path(__file__).parent
V4 = {"a": "10.9.0.1", "b": "10.9.0.2"}
V6 = {"a": "fd09::1", "b": "fd09::2"}
FAMILIES = {socket.AF_INET: V4, socket.AF_INET6: V6}


def _lacking() -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    if not KERNEL_BTF.exists():
        return f"needs a kernel with BTF ({KERNEL_BTF})"
    try:
        run(["unshare", "--net", "true"])
    except CommandFailed as error:
        return f"cannot make namespaces here: {error.output.strip()}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _lacking()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kernel)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(frozen=True)
class Pair:
    """Two hosts whose interfaces eth0 are connected."""

    a: Namespace
    b: Namespace

    def connection(
        self, host: str = V4["b"], control: str | None = None
    ) -> AbstractContextManager[tuple[socket.socket, socket.socket]]:
        """A connection from a to an address of b: both ends."""
        return connected(self.a, self.b, host, control)


@pytest.fixture
def namespaces() -> Iterator[list[Namespace]]:
    """A list of namespaces that are closed after the test."""
    made: list[Namespace] = []
    yield made
    for ns in made:
        ns.close()


@pytest.fixture(scope="session")
def entries() -> Iterator[HostEntry]:
    """What agents write, so that programs in their namespaces may declare flows."""
    with HostEntry() as entry:
        yield entry


@pytest.fixture
def served(namespaces: list[Namespace], entries: HostEntry) -> Namespace:
    """A namespace with an agent's entry."""
    place = Namespace()
    namespaces.append(place)
    with place:
        entries.set(DEFAULT_CONTROL)
    return place


@pytest.fixture
def pair(namespaces: list[Namespace], entries: HostEntry) -> Pair:
    a, b = Namespace(), Namespace()
    namespaces += [a, b]
    connect(a, "eth0", b, "eth0")
    for name, ns in (("a", a), ("b", b)):
        address(ns, "eth0", f"{V4[name]}/24", f"{V6[name]}/64")
        ns.sysctl("net.ipv4.tcp_ecn", 1)
        with ns:
            entries.set(DEFAULT_CONTROL)
    return Pair(a, b)


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    with Cgroup() as own:
        yield own


@pytest.fixture
def hook(cgroup: Cgroup) -> Iterator[Attachment]:
    """The test's own setsockopt hook, for this process and its children."""
    attachment = Attachment(cgroup=cgroup.folder)
    yield attachment
    attachment.close()


@pytest.fixture
def sock(hook: Attachment, served: Namespace) -> Iterator[socket.socket]:
    with served:
        one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with one:
        yield one


@pytest.fixture(params=FAMILIES, ids=["ipv4", "ipv6"])
def ends(hook: Attachment, pair: Pair, request: pytest.FixtureRequest) -> Iterator[list[socket.socket]]:
    """Both ends of a connection: the connecting one, the accepting one."""
    with pair.connection(FAMILIES[request.param]["b"]) as both:
        yield list(both)


@pytest.fixture
def link_bps() -> int:
    """The rate at which HTB sends."""
    return 10**9


@pytest.fixture(scope="session")
def port_program() -> Iterator[PortProgram]:
    """One load for all tests that need no process of their own: the verifier takes a tenth of a second for each."""
    with PortProgram() as program:
        yield program


@pytest.fixture
def port(pair: Pair, link_bps: int, port_program: PortProgram) -> Iterator[Port]:
    """The program on a's eth0, a packet socket that sends there like OVS, and a capture at b.

    Without IPv6, the kernel sends no packets of its own there.
    """
    pair.a.sysctl(f"net.ipv6.conf.{PORT}.disable_ipv6", 1)
    make_queues(pair.a, PORT, link_bps)
    with pair.a:
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sender.bind((PORT, 0))
    with sender, Capture(pair.b, "eth0") as capture, pair.a:
        port_program.attach(PORT, OPEN)
        yield port_program, sender, capture
        port_program.detach(PORT)


@pytest.fixture
def watch(pair: Pair) -> Iterator[Watch]:
    """A watch of host a. A pause of the machine begins no flow."""
    made = WatchOf(pair.a)
    made.set_idle_gap(NEVER_NS)
    yield made
    made.close()


@pytest.fixture
def flows(hook: Attachment) -> Iterator[Map]:
    """The kernel's socket storage, in which the tests write like a congestion control."""
    with load("sockopt") as same:
        yield same.map("sluice_flow_2")


@pytest.fixture
def shaped(pair: Pair, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """A pair whose host a has a link of the module's rate, and a receiver at b. This thread is in host a."""
    with pair.b:
        receiver = socket.socket(type=socket.SOCK_DGRAM)
    receiver.bind((V4["b"], request.module.PORT))
    with receiver, pair.a:
        run(["tc", "-batch", "-"], stdin=shaper("eth0", request.module.LINK_BPS))
        yield pair
