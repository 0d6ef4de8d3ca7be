# SPDX-License-Identifier: Apache-2.0
"""Queues that the port agent makes with tc, at interfaces that belong to no Open vSwitch."""

import re
from pathlib import Path

import pytest

from sluice.hostagent.port.former_qdiscs import FormerQdiscs
from sluice.hostagent.port.network_ports import LinkPorts
from sluice.policy.network.graph import Port
from tests.kernel.conftest import Pair
from tests.kernel.lab import Namespace

STAYS = FormerQdiscs(Path("/nowhere"), replaces=False)
PORT = Port("rack", 1, "", 0, rate_bps=100_000_000, edge=True, name="eth0")


def rates(place: Namespace) -> dict[str, str]:
    """Return the guaranteed rate of each class at eth0, as tc writes it."""
    return dict(re.findall(r"class htb (\S+).* rate (\S+)", place.run("tc", "class", "show", "dev", "eth0")))


def test_queues__are_made_shared_out_and_given_back(pair: Pair) -> None:
    before = pair.a.run("tc", "qdisc", "show", "dev", "eth0")
    with pair.a:
        links = LinkPorts(STAYS)
        links.take([PORT], None)
        assert links.held() == {"eth0"}
        assert len(rates(pair.a)) == 9
        strict = rates(pair.a)
        LinkPorts(STAYS).take([PORT], [0.25])  # another agent, after a kill, and another policy
        assert rates(pair.a)["1:1"] == "25Mbit"
        links.take([PORT], None)
        LinkPorts(STAYS).take([PORT], None)
        assert rates(pair.a) == strict
        links.give_back(links.held())
        links.give_back(["eth0", "gone"])  # what is not there cannot be given back
    assert pair.a.run("tc", "qdisc", "show", "dev", "eth0") == before
    assert links.problems == {}


@pytest.mark.parametrize("there", [True, False])
def test_a_qdisc_of_others_stays_and_is_named(pair: Pair, there: bool) -> None:
    with pair.a:
        links = LinkPorts(STAYS)
        if there:
            pair.a.run("tc", "qdisc", "add", "dev", "eth0", "root", "handle", "7:", "htb")
            links.take([PORT], None)
            assert "has a qdisc of another program, htb 7:" in links.problems["eth0"]
            assert links.held() == set()
        else:
            pair.a.run("ip", "link", "set", "eth0", "name", "other")
            links.take([PORT], None)
            assert links.problems == {"eth0": "rack:1: this machine has no interface eth0"}


MADE = {
    "htb of Mininet": (
        "qdisc add dev eth0 root handle 5: htb default 1",
        "class add dev eth0 parent 5: classid 5:1 htb rate 20mbit burst 15k",
        "class add dev eth0 parent 5:1 classid 5:2 htb rate 3mbit ceil 7mbit prio 3 quantum 3000",
        "qdisc add dev eth0 parent 5:2 handle 50: bfifo limit 20000",
    ),
    "tbf": (
        "qdisc add dev eth0 root handle 5: tbf rate 9mbit burst 20000 latency 15ms",
        "qdisc add dev eth0 parent 5:1 handle 10: pfifo limit 33",
    ),
    "pfifo": ("qdisc add dev eth0 root handle 8: pfifo limit 77",),
}


@pytest.mark.parametrize("commands", MADE.values(), ids=MADE)
def test_a_qdisc_of_others_comes_back(pair: Pair, commands: tuple[str, ...], tmp_path: Path) -> None:
    """Also if the agent that replaced it was killed."""

    def shown() -> list[str]:
        text = "".join(pair.a.run("tc", what, "show", "dev", "eth0") for what in ("qdisc", "class"))
        return sorted(re.sub(r" (leaf|refcnt|direct_packets_stat) \S+", "", text).splitlines())

    for command in commands:
        pair.a.run("tc", *command.split())
    before = shown()
    with pair.a:
        LinkPorts(FormerQdiscs(tmp_path / "former", replaces=True)).take([PORT], None)
        assert rates(pair.a)["1:fffe"] == "100Mbit"
        links = LinkPorts(FormerQdiscs(tmp_path / "former", replaces=False))
        links.take([PORT], None)
        assert links.problems == {}
        links.give_back(["eth0"])
    assert shown() == before
    assert not list((tmp_path / "former").iterdir())


def test_a_qdisc_with_filters_stays(pair: Pair, tmp_path: Path) -> None:
    for command in (
        *MADE["htb of Mininet"],
        "filter add dev eth0 parent 5: bpf bytecode 1,6\t0\t0\t0, flowid 5:2",
    ):
        pair.a.run("tc", *(word.replace("\t", " ") for word in command.split(" ")))
    with pair.a:
        links = LinkPorts(FormerQdiscs(tmp_path / "former", replaces=True))
        links.take([PORT], None)
        assert links.problems["eth0"].endswith("because filters of tc belong to it: tc filter show dev eth0")
        assert links.held() == set()
