# SPDX-License-Identifier: Apache-2.0
"""Only connections to the prefixes of the fabric get the policy's congestion control, by their routes."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.dataplane.congestion import register_congestion_control
from sluice.hostagent.control import HostControl
from sluice.hostagent.routes import FabricRoutes
from tests.kernel.conftest import V4, V6, Pair
from tests.kernel.controls import DCTCP, private_build, private_name

FABRIC = ("10.9.0.0/24", "fd09::/64")
ELSEWHERE = {"a": "198.51.100.1", "b": "198.51.100.2"}
ECN_OF_TCP_INFO = 8
"""TCPI_OPT_ECN in the sixth byte of struct tcp_info."""


@pytest.fixture
def control() -> Iterator[str]:
    name = private_name()
    with register_congestion_control(name, private_build(DCTCP)):
        yield name


@pytest.fixture
def wide(pair: Pair) -> Pair:
    """The pair, with addresses outside the fabric on the same link, and without ECN unless the route asks for it."""
    for name, ns in (("a", pair.a), ("b", pair.b)):
        ns.run("ip", "address", "add", f"{ELSEWHERE[name]}/24", "dev", "eth0")
        ns.sysctl("net.ipv4.tcp_ecn", 2)
    return pair


def routes(pair: Pair) -> str:
    return "".join(pair.a.run("ip", family, "route", "show") for family in ("-4", "-6"))


def controls(pair: Pair, host: str) -> set[str]:
    """The controls of both ends of a new connection from a to an address of b."""
    with pair.connection(host) as ends:
        names = (end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16) for end in ends)
        return {name.rstrip(b"\0").decode() for name in names}


def uses_ecn(pair: Pair, host: str) -> bool:
    with pair.connection(host) as (client, _):
        return bool(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[5] & ECN_OF_TCP_INFO)


def test_connections_to_the_fabric_have_the_control_and_others_the_machines(
    wide: Pair, control: str, tmp_path: Path
) -> None:
    (before,), shown = controls(wide, V4["b"]), routes(wide)
    at_ends = []
    for name, ns in (("a", wide.a), ("b", wide.b)):
        with ns:
            fabric = FabricRoutes(FABRIC, tmp_path / f"{name}.json")
            fabric.use(control)
            assert fabric.problem == ""
        at_ends.append((ns, fabric))
    for host in (V4["b"], V6["b"]):
        assert controls(wide, host) == {control}
        assert uses_ecn(wide, host)
    assert controls(wide, ELSEWHERE["b"]) == {before}
    assert not uses_ecn(wide, ELSEWHERE["b"])
    for ns, fabric in at_ends:
        with ns:
            fabric.restore()
    assert routes(wide) == shown
    assert controls(wide, V4["b"]) == {before}
    assert not list(tmp_path.iterdir())


def test_a_prefix_behind_a_router_gets_a_route_of_its_own(wide: Pair, tmp_path: Path) -> None:
    wide.a.run("ip", "route", "add", "default", "via", V4["b"])
    wide.a.run("ip", "route", "add", "10.20.7.0/24", "via", V4["b"], "mtu", "1400")
    before = routes(wide)
    with wide.a:
        fabric = FabricRoutes(("10.20.0.0/16",), tmp_path / "routes.json")
        fabric.use("reno")
        assert f"10.20.0.0/16 via {V4['b']} dev eth0 proto 92 congctl reno" in routes(wide)
        assert re.search(rf"10.20.7.0/24 via {V4['b']} dev eth0 mtu 1400 congctl reno", routes(wide))
        assert f"default via {V4['b']} dev eth0 \n" in routes(wide)
        wide.a.run("ip", "route", "change", "default", "via", ELSEWHERE["b"])
        fabric.use("cubic")
        assert f"10.20.0.0/16 via {ELSEWHERE['b']} dev eth0 proto 92 congctl cubic" in routes(wide)
        wide.a.run("ip", "route", "change", "default", "via", V4["b"])
        FabricRoutes((), tmp_path / "routes.json").restore()  # after a killed agent, and without its prefixes
    assert routes(wide) == before


def test_a_prefix_without_a_route_is_named(wide: Pair, tmp_path: Path) -> None:
    with wide.a:
        fabric = FabricRoutes(("203.0.113.0/24",), tmp_path / "routes.json")
        fabric.use("reno")
    assert fabric.problem == "no route leads to 203.0.113.0/24, so its connections keep the machine's control"


def test_host_control__leaves_the_default_alone(wide: Pair, tmp_path: Path) -> None:
    (before,), shown = controls(wide, V4["b"]), routes(wide)
    other = "reno" if before != "reno" else "cubic"
    with wide.a:
        host = HostControl(routes=FabricRoutes(FABRIC, tmp_path / "routes.json"))
        host.use(other)
        assert controls(wide, V4["b"]) == {other, before}
        assert controls(wide, ELSEWHERE["b"]) == {before}
        assert (host.in_force, host.default, host.problem) == (other, before, "")
        host.use(before)
        assert routes(wide) == shown
        host.use(other)
        host.restore()
    assert routes(wide) == shown


def test_a_note_that_cannot_be_written_is_a_problem_and_no_route_changes(wide: Pair, tmp_path: Path) -> None:
    shown = routes(wide)
    with wide.a:
        fabric = FabricRoutes(FABRIC, tmp_path / "nothing" / "routes.json")
        fabric.use("reno")
    assert fabric.problem.count("keep the machine's control") == len(FABRIC)
    assert routes(wide) == shown
