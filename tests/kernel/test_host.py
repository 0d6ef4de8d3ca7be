# SPDX-License-Identifier: Apache-2.0
"""What a host's agent keeps in the kernel: the settings of its windows, and a tagger that runs."""

import contextlib
import socket
from dataclasses import replace

import pytest

from sluice.dataplane.clsact import FEW_PACKETS
from sluice.dataplane.congestion import DEFAULT_CONTROL, ControlSettings, HostEntry
from sluice.hostagent import lossless
from sluice.hostagent.control import HostControl
from sluice.hostagent.link import HostLink
from sluice.hostagent.tagger import CHECK_EVERY, HostTagger
from sluice.policy.schema.desired import Policy
from sluice.policy.tags import ATTAINED_FIRST
from sluice.policy.wire.agents import HostSettings
from tests.kernel.capture import Capture
from tests.kernel.conftest import V4, Pair
from tests.kernel.lab import Namespace, address, connect, connected, send_and_receive
from tests.kernel.objects import BPF_PROG_ATTACH, BPF_PROG_DETACH, add_filter, ending_program, tcx
from tests.kernel.watching import close_in_order

WANTED = ControlSettings(8, forgets_late=True), ControlSettings(16)
BEFORE = "reno"
"""The default of a namespace before its agent. Any namespace may have this one."""


def former(place: Namespace) -> Namespace:
    """Give a namespace the default BEFORE, because what it inherits from the machine may change at any time."""
    place.sysctl("net.ipv4.tcp_congestion_control", BEFORE)
    return place


def test_each_namespace_has_its_own_settings_until_its_agent_ends(namespaces: list[Namespace]) -> None:
    """And agents write the control that the host had before, for connections without ECN."""
    hosts = former(Namespace()), former(Namespace())
    namespaces += hosts
    with contextlib.ExitStack() as opened:
        entry, agents = opened.enter_context(HostEntry()), []
        for place, wanted in zip(hosts, WANTED, strict=True):
            with place:
                agents.append(HostControl())
                agents[-1].use("sluice_ucp", wanted)
        for place, agent, wanted in zip(hosts, agents, WANTED, strict=True):
            expected = replace(wanted, control="sluice_ucp", without_ecn=BEFORE)
            with place:
                assert entry.holds(expected)
                agent.use("cubic")
                assert entry.holds(replace(DEFAULT_CONTROL, without_ecn=BEFORE))
                agent.restore()
                assert not entry.holds(replace(DEFAULT_CONTROL, without_ecn=BEFORE))


def test_what_a_killed_agent_has_left_does_not_hold_for_the_next_one(namespaces: list[Namespace]) -> None:
    place = former(Namespace())
    namespaces.append(place)
    with place, HostEntry() as entry:
        entry.set(WANTED[0])
        agent = HostControl()
        agent.use("sluice_dctcp")
        assert entry.holds(replace(DEFAULT_CONTROL, control="sluice_dctcp", without_ecn=BEFORE))
        agent.restore()


def looks(tagger: HostTagger, pair: Pair) -> None:
    """Let the agent look at the interface, after some packets."""
    with pair.a, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(2 * FEW_PACKETS):
            sender.sendto(b"x", (V4["b"], 9))
        for _ in range(CHECK_EVERY):
            tagger.update(None)


def test_tagger__goes_before_a_filter_that_has_come_later(pair: Pair) -> None:
    with ending_program() as other, Capture(pair.b, "eth0") as capture:
        with pair.a:
            tagger = HostTagger(["eth0"])
            tagger.attach()
        tagger.update(HostSettings.of(Policy.from_document({"scheme": "pias"})))
        looks(tagger, pair)
        add_filter(pair.a, "eth0", other, 1)
        capture.packets()
        looks(tagger, pair)
        assert {packet.dscp for packet in capture.packets()} == {0}
        looks(tagger, pair)
        assert {packet.dscp for packet in capture.packets()} == {ATTAINED_FIRST}
        assert (tagger.attached, tagger.problem) == (True, "")
        with pair.a:
            tagger.detach()


def test_tagger__is_a_problem_while_a_program_before_it_ends_the_chain(pair: Pair) -> None:
    with ending_program() as other:
        with pair.a:
            tagger = HostTagger(["eth0"])
            tagger.attach()
        looks(tagger, pair)
        try:
            tcx(BPF_PROG_ATTACH, pair.a, "eth0", other)
        except OSError as error:
            pytest.skip(f"no TCX here: {error}")
        for _ in range(3):
            looks(tagger, pair)
        assert (tagger.attached, tagger.burst_bytes) == (False, None)
        assert tagger.problem.startswith("eth0: another program ends the chain of tc before Sluice's")
        tcx(BPF_PROG_DETACH, pair.a, "eth0", other)
        looks(tagger, pair)
        assert (tagger.attached, tagger.problem) == (True, "")
        with pair.a:
            tagger.detach()


def test_tagger__names_dscps_of_a_lossless_class_while_the_policy_may_write_them(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lossless, "_at_card", {"eth0": {26}}.get)
    with pair.a:
        tagger = HostTagger(["eth0"])
        tagger.attach()
    believing, reserving = (
        HostSettings.of(Policy.from_document({"scheme": "pias", "reserved_dscp": dscps}))
        for dscps in ([], [26])
    )
    problems = []
    for settings in (believing, reserving, believing, replace(believing, acts=False)):
        tagger.update(settings)
        problems.append(tagger.lossless_problem.partition(":")[0])
    assert problems == ["eth0 has PFC for DSCP 26", ""] * 2
    with pair.a:
        tagger.detach()


def test_cards__packets_of_each_have_tags_and_queues(pair: Pair) -> None:
    connect(pair.a, "eth1", pair.b, "eth1")
    address(pair.a, "eth1", "10.8.0.1/24")
    address(pair.b, "eth1", "10.8.0.2/24")
    hosts = (V4["b"], "10.8.0.2")
    with pair.a:
        link = HostLink(("eth0", "eth1"), "root")
        link.begin()
        tagger = HostTagger(("eth0", "eth1"), link=link)
        tagger.attach()
        tagger.update(HostSettings.of(Policy.from_document({"scheme": "pias"})))
    for name, host in zip(("eth0", "eth1"), hosts, strict=True):
        with Capture(pair.b, name) as capture, connected(pair.a, pair.b, host) as (near, far):
            send_and_receive(near, far, 200_000)
            close_in_order(near, far)
            own = {packet.dscp for packet in capture.packets() if packet.data_bytes}
        assert ATTAINED_FIRST in own
        assert len(own) > 5
        assert " 5c1c: root" in pair.a.run("tc", "qdisc", "show", "dev", name)
    pair.a.run("tc", "filter", "del", "dev", "eth1", "egress")
    with pair.a:
        for _ in range(CHECK_EVERY):
            tagger.update(None)
        assert "sluice_tag" in pair.a.run("tc", "filter", "show", "dev", "eth1", "egress")
        pair.a.run("ip", "link", "del", "eth1")
        for _ in range(CHECK_EVERY):
            tagger.update(None)
        assert "there is no interface eth1" in tagger.problem
        tagger.detach()
        link.end()
    assert "sluice" not in pair.a.run("tc", "filter", "show", "dev", "eth0", "egress")
    assert "5c1c" not in pair.a.run("tc", "qdisc", "show", "dev", "eth0")
