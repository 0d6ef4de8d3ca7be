# SPDX-License-Identifier: Apache-2.0
"""Queues that the port agent makes with tc, at interfaces that belong to no Open vSwitch."""

import re

import pytest

from sluice.hostagent.port.network_ports import LinkPorts
from sluice.policy.network.graph import Port
from tests.kernel.conftest import Pair
from tests.kernel.lab import Namespace

PORT = Port("rack", 1, "", 0, rate_bps=100_000_000, edge=True, name="eth0")


def rates(place: Namespace) -> dict[str, str]:
    """Return the guaranteed rate of each class at eth0, as tc writes it."""
    return dict(re.findall(r"class htb (\S+).* rate (\S+)", place.run("tc", "class", "show", "dev", "eth0")))


def test_queues__are_made_shared_out_and_given_back(pair: Pair) -> None:
    before = pair.a.run("tc", "qdisc", "show", "dev", "eth0")
    with pair.a:
        links = LinkPorts()
        links.take([PORT], None)
        assert links.held() == {"eth0"}
        assert len(rates(pair.a)) == 9
        strict = rates(pair.a)
        LinkPorts().take([PORT], [0.25])  # another agent, after a kill, and another policy
        assert rates(pair.a)["1:1"] == "25Mbit"
        links.take([PORT], None)
        LinkPorts().take([PORT], None)
        assert rates(pair.a) == strict
        links.give_back(links.held())
        links.give_back(["eth0", "gone"])  # what is not there cannot be given back
    assert pair.a.run("tc", "qdisc", "show", "dev", "eth0") == before
    assert links.problems == {}


@pytest.mark.parametrize("there", [True, False])
def test_a_qdisc_of_others_stays_and_is_named(pair: Pair, there: bool) -> None:
    with pair.a:
        links = LinkPorts()
        if there:
            pair.a.run("tc", "qdisc", "add", "dev", "eth0", "root", "handle", "7:", "htb")
            links.take([PORT], None)
            assert "has a qdisc of another program, htb 7:" in links.problems["eth0"]
            assert links.held() == set()
        else:
            pair.a.run("ip", "link", "set", "eth0", "name", "other")
            links.take([PORT], None)
            assert links.problems == {"eth0": "rack:1: this machine has no interface eth0"}
