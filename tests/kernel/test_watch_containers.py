# SPDX-License-Identifier: Apache-2.0
"""The watch of a whole machine: connections of namespaces that no agent serves, as containers have."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from sluice.dataplane.congestion import DEFAULT_CONTROL, HostEntry
from sluice.dataplane.loader import BpfObject, load
from sluice.dataplane.watch import Connection, Watch
from sluice.hostagent.watch import Host, container_name, to_record
from sluice.policy.errors import EnvironmentLacking
from tests.kernel.lab import Namespace, address, collected, connect, connected, send_and_receive
from tests.kernel.watching import Cgroup, close_in_order

ADDRESSES = pytest.mark.parametrize(
    ("client", "server"), [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")]
)
HERE = Host("h1", {}, "0123456789ab", 0)
DIGITS = "0123456789abcdef" * 4


@pytest.fixture
def containers(namespaces: list[Namespace]) -> tuple[Namespace, Namespace]:
    """Two namespaces without an agent, connected with each other."""
    namespaces += [Namespace(), Namespace()]
    one, two = namespaces[-2:]
    connect(one, "eth0", two, "eth0")
    address(one, "eth0", "10.77.0.1/24", "fd77::1/64")
    address(two, "eth0", "10.77.0.2/24", "fd77::2/64")
    return one, two


@pytest.fixture
def machine(namespaces: list[Namespace]) -> Iterator[Watch]:
    """The watch of an agent that serves a namespace of its own, and watches all that no agent serves."""
    namespaces.append(Namespace())
    with namespaces[-1], Watch(others=True) as watch:
        yield watch


def ends(watch: Watch, *ports: int, count: int) -> list[Connection]:
    """Wait until so many ends of the clients' connections have ended. Other tests run on this machine, too."""

    def ended() -> list[Connection]:
        return [one for one in watch.ended() if {one.local_port, one.remote_port} & set(ports)]

    return collected(ended, count, f"{count} ends")


@ADDRESSES
def test_both_ends_are_seen_and_one_of_them_reports(
    containers: tuple[Namespace, Namespace], machine: Watch, client: str, server: str
) -> None:
    with connected(*containers, server) as (near, far):
        port = near.getsockname()[1]
        send_and_receive(near, far, 50_000)
        send_and_receive(far, near, 300)
        close_in_order(near, far)
    found = ends(machine, port, count=2)
    assert {(str(one.local), str(one.remote)) for one in found} == {(client, server), (server, client)}
    assert all(one.both_ends for one in found)
    (record,) = [record for one in found if (record := to_record(one, HERE, "pias"))]
    assert (record.src, record.dst, record.bytes, record.src_port) == ("h1", "h1", 50_000, port)


def test_a_namespace_with_an_agent_of_its_own_is_left_to_it(
    containers: tuple[Namespace, Namespace], machine: Watch
) -> None:
    with containers[1], HostEntry() as entry:
        entry.set(DEFAULT_CONTROL)
        with connected(*containers, "10.77.0.2") as (near, far):
            port = near.getsockname()[1]
            send_and_receive(near, far, 5000)
            close_in_order(near, far)
        entry.forget()
    with connected(*containers, "10.77.0.2") as (near, far):
        later = near.getsockname()[1]
        send_and_receive(near, far, 5000)
        close_in_order(near, far)
    first, *both = ends(machine, port, later, count=3)
    assert (first.local_port, first.both_ends) == (port, False)
    assert {one.local_port == later for one in both} == {True, False}
    assert all(one.both_ends for one in both)


def test_a_watch_of_one_namespace_sees_no_other(containers: tuple[Namespace, Namespace]) -> None:
    one, two = containers
    with one, Watch() as watch:
        with connected(one, two, "10.77.0.2") as (near, far):
            port = near.getsockname()[1]
            send_and_receive(near, far, 5000)
            close_in_order(near, far)
        assert [(end.local_port, end.both_ends) for end in ends(watch, port, count=1)] == [(port, False)]


def test_open_connections_of_all_namespaces_are_listed(
    containers: tuple[Namespace, Namespace], machine: Watch
) -> None:
    try:
        load("watch", ["sluice_watch_all"]).close()
    except EnvironmentLacking as lacking:
        pytest.skip(f"this kernel refuses iterators over maps: {lacking}".partition("\n")[0])
    with connected(*containers, "10.77.0.2") as (near, far):
        port = near.getsockname()[1]
        send_and_receive(near, far, 5000)
        living = [one for one in machine.live() if port in (one.local_port, one.remote_port)]
        assert {(one.local_port == port, one.both_ends, one.elsewhere) for one in living} == {
            (True, True, True),
            (False, True, True),
        }
        close_in_order(near, far)
    ends(machine, port, count=2)
    assert not [one for one in machine.live() if port in (one.local_port, one.remote_port)]


def test_a_kernel_that_refuses_iterators_over_maps_lists_its_own_namespace(
    containers: tuple[Namespace, Namespace], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(name: str, optional: Sequence[str]) -> BpfObject:
        if "sluice_watch_all" in optional:
            raise EnvironmentLacking("no iterators over maps here")
        return load(name, optional)

    monkeypatch.setattr("sluice.dataplane.watch.load", refusing)
    one, two = containers
    with one, Watch(others=True) as watch, connected(one, two, "10.77.0.2") as (near, far):
        port = near.getsockname()[1]
        send_and_receive(near, far, 5000)
        assert [living.local_port for living in watch.live()] == [port]


def test_a_record_names_the_container(containers: tuple[Namespace, Namespace], machine: Watch) -> None:
    """The socket has the cgroup of the process that made it, although that has ended."""
    scope = f"docker-{DIGITS}.scope"
    with Cgroup(scope), connected(*containers, "10.77.0.2") as (near, far):
        port = near.getsockname()[1]
        send_and_receive(near, far, 5000)
        close_in_order(near, far)
    found = ends(machine, port, count=2)
    assert {machine.cgroup_path(one) for one in found} == {(scope,)}
    assert container_name((scope,)) == DIGITS[:12]
    assert machine.cgroup_path(replace(found[0], cgroup=found[0].cgroup + 1_000_000)) == ()
