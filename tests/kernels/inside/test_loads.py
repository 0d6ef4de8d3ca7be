# SPDX-License-Identifier: Apache-2.0
"""The kernel loads every BPF program, registers every congestion control, and keeps nothing."""

import re
from collections.abc import Iterator

import pytest

from sluice import topologies
from sluice.dataplane import build
from sluice.dataplane.congestion import available, ours, register_congestion_control
from sluice.dataplane.loader import load
from sluice.dataplane.watch import Watch
from sluice.runtime.command import run
from sluice.runtime.wait import wait_until
from sluice.topologies.testbed import Testbed
from tests.net.conftest import install


@pytest.mark.parametrize("name", [name for name in build.names() if name != "watch"])
def test_a_program_loads(name: str) -> None:
    with load(name):
        pass


def test_flow_watch_loads_with_one_of_its_alternatives() -> None:
    with Watch():
        pass


@pytest.mark.parametrize("control", ours())
def test_a_congestion_control_registers_and_ends(control: str) -> None:
    with register_congestion_control(control):
        assert control in available()
    assert control not in available()


def test_nothing_is_left() -> None:
    """The kernel frees programs after a grace period."""
    wait_until(lambda: "sluice" not in run(["bpftool", "prog", "show"]), "the kernel frees every program")


LINK_MS, HOST_MS = 20, 5
ROUND_TRIP_MS = 4 * LINK_MS + 4 * HOST_MS
"""Two host links of one switch, in both directions."""
OWN_MS = 40
"""More than the hops' own time, even in a virtual machine without hardware help."""


@pytest.fixture(scope="module")
def delayed(datapath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    graph = topologies.build(
        "single",
        hosts=2,
        host_rate_bps=20_000_000,
        link_delay_ns=LINK_MS * 10**6,
        host_delay_ns=HOST_MS * 10**6,
    )
    with Testbed.start(graph, tmp_path_factory.mktemp("bed"), controller=None, datapath=datapath) as bed:
        install(bed)
        yield bed


def test_a_round_trip_takes_the_delays_of_its_links(delayed: Testbed) -> None:
    output = delayed.exec("h1", ["ping", "-c", "10", "-i", "0.5", "10.0.0.2"])
    found = re.search(r"min/avg/max/mdev = ([\d.]+)/", output)
    assert found, output
    assert ROUND_TRIP_MS <= float(found[1]) < ROUND_TRIP_MS + OWN_MS


def test_many_packets_at_once_are_delayed_and_none_is_lost(delayed: Testbed) -> None:
    before = delayed.losses()
    output = delayed.exec("h1", ["ping", "-f", "-c", "300", "-l", "50", "-s", "1400", "10.0.0.2"])
    assert " 0% packet loss" in output
    assert delayed.losses() == before
