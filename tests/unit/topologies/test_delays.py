# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from sluice import topologies
from sluice.policy.network.graph import Port
from sluice.topologies import commands
from sluice.topologies.qdiscs import HOP_NS, delay_warnings, needs_delays

LONG = topologies.build("single", link_delay_ns=5_000_000, host_delay_ns=HOP_NS)
SHORT = topologies.build("leaf-spine", link_delay_ns=200, host_delay_ns=20_000)
PORT = Port("s1", 2, "h2", 0, rate_bps=100_000_000, delay_ns=2_000_000, edge=True)


def test_delays_within_a_hops_own_need_nothing() -> None:
    assert not needs_delays(SHORT)
    assert delay_warnings(SHORT, has_netem=False) == []


def test_without_netem_a_longer_delay_gives_a_warning_with_the_longest() -> None:
    assert needs_delays(LONG)
    (warning,) = delay_warnings(LONG, has_netem=False)
    assert "5050 us" in warning
    assert "no netem" in warning


def test_with_netem_there_is_no_warning() -> None:
    assert delay_warnings(LONG, has_netem=True) == []


def test_the_outer_end_of_a_pair_goes_to_its_node() -> None:
    command = commands.pair("s1-eth2~b", "h2-eth0", 4711)
    assert command.argv[-5:] == ["peer", "name", "h2-eth0", "netns", "4711"]


def test_both_directions_of_a_link_are_delayed_behind_the_port() -> None:
    links, forwarding = commands.delayed(PORT)
    assert links.stdin is not None
    assert {line.split()[2] for line in links.stdin.splitlines()} == {"s1-eth2~a", "s1-eth2~b"}
    assert forwarding.stdin is not None
    lines = forwarding.stdin.splitlines()
    for here, there in (("s1-eth2~a", "s1-eth2~b"), ("s1-eth2~b", "s1-eth2~a")):
        assert any(line.startswith(f"qdisc add dev {there} root netem delay 2000us") for line in lines)
        assert any(f"dev {here} ingress" in line and line.endswith(f"redirect dev {there}") for line in lines)


def test_no_forwarding_begins_before_its_delay() -> None:
    forwarding = commands.delayed(PORT)[1].stdin or ""
    for here, there in (commands.inner_ends(PORT), commands.inner_ends(PORT)[::-1]):
        assert forwarding.index(f"dev {there} root netem") < forwarding.index(f"dev {here} ingress")


@pytest.mark.parametrize(("rate_bps", "delay_ns"), [(10**8, 2 * 10**6), (10**10, 10**8)])
def test_netem_holds_more_than_a_full_link_of_the_smallest_frames(rate_bps: int, delay_ns: int) -> None:
    port = replace(PORT, rate_bps=rate_bps, delay_ns=delay_ns)
    assert commands.in_flight_packets(port) * 64 * 8 > rate_bps * delay_ns / 1e9


def test_the_names_of_the_inner_ends_fit_the_kernels_limit() -> None:
    longest = max((port.interface for port in SHORT.ports), key=len)
    assert len(longest) + 2 <= 15
