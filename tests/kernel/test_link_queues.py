# SPDX-License-Identifier: Apache-2.0
"""The queues of a host's own link, with the tagger that chooses them, on a slow link."""

import re
import socket

import pytest

from sluice.dataplane.link_queues import KINDS, first_kind, make, remove
from sluice.dataplane.tagger import Tagger, TagSettings
from sluice.hostagent.link import HostLink
from sluice.hostagent.tagger import HostTagger
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.policy.schema.desired import Policy, host_queue_map
from sluice.policy.wire.agents import HostSettings
from sluice.runtime.wait import wait_until
from sluice.topologies.commands import LINK_CLASS
from tests.kernel.capture import Capture
from tests.kernel.conftest import V4, Pair
from tests.kernel.lab import collected

LINK_BPS = 4_000_000
PORT = 9
LARGE_PACKETS, SMALL_PACKETS, BYTES = 60, 5, 1400
PIAS = Policy.from_document({"scheme": "pias", "queues": 2, "thresholds": ["10KB"]})


def qdiscs(pair: Pair) -> list[str]:
    return [line.split()[1] for line in pair.a.run("tc", "qdisc", "show", "dev", "eth0").splitlines()]


def sent_packets(pair: Pair) -> int:
    counted = re.search(
        r"Sent \d+ bytes (\d+) pkt", pair.a.run("tc", "-s", "qdisc", "show", "dev", "eth0", "root")
    )
    return int(counted[1]) if counted else 0


def made(kind: str) -> None:
    try:
        make("eth0", LINK_CLASS, [kind])
    except EnvironmentLacking as lacking:
        pytest.skip(str(lacking))


def arrivals(pair: Pair, tagger: TagSettings) -> list[int]:
    """Return the arrivals in order: 0 for a packet of a long flow, 1 for one of a short flow that began later."""
    with Tagger(tagger) as program, Capture(pair.b, "eth0") as capture:
        program.attach("eth0")
        with socket.socket(type=socket.SOCK_DGRAM) as large, socket.socket(type=socket.SOCK_DGRAM) as small:
            for sender, packets in ((large, LARGE_PACKETS), (small, SMALL_PACKETS)):
                sender.connect((V4["b"], PORT))
                for _ in range(packets):
                    sender.send(bytes(BYTES))
            small_port = small.getsockname()[1]

            def arrived() -> list[int]:
                packets = [packet for packet in capture.packets() if packet.data_bytes == BYTES]
                return [int(packet.source_port == small_port) for packet in packets]

            seen = collected(arrived, LARGE_PACKETS + SMALL_PACKETS, "all datagrams")
        program.detach("eth0")
    return seen


def settings_of(kind: str) -> TagSettings:
    link = HostLink(["eth0"], LINK_CLASS)
    link.begin()
    assert link.name == kind
    return TagSettings(priorities=link.priorities(host_queue_map(PIAS)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_flow_passes_the_queue_of_a_long_one(shaped: Pair, kind: str) -> None:
    made(kind)
    before = arrivals(shaped, settings_of(kind)).index(1)
    assert before < LARGE_PACKETS // 2, "the long flow's packets wait in a lower queue"


@pytest.mark.parametrize("kind", KINDS)
def test_without_queues_of_a_policy_the_link_is_one_queue(shaped: Pair, kind: str) -> None:
    made(kind)
    assert arrivals(shaped, TagSettings())[-SMALL_PACKETS:] == [1] * SMALL_PACKETS


def test_htb__a_class_has_next_to_nothing_for_itself(shaped: Pair) -> None:
    """HTB would serve it before more urgent classes, and packets would overtake others of their flow."""
    made("htb")
    rates = re.findall(r"prio \d .*rate (\d+)bit ceil", shaped.a.run("tc", "class", "show", "dev", "eth0"))
    assert len(rates) == 8
    assert max(map(int, rates)) * 100 < 8 * BYTES


@pytest.mark.parametrize("kind", KINDS)
def test_make__again_keeps_the_qdisc_and_its_packets(shaped: Pair, kind: str) -> None:
    made(kind)
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        for _ in range(LARGE_PACKETS):
            sender.sendto(bytes(BYTES), (V4["b"], PORT))
    made(kind)
    assert kind in qdiscs(shaped)
    wait_until(lambda: sent_packets(shaped) >= LARGE_PACKETS, "no packet is lost")


def test_make__the_root_of_an_interface_is_free_if_only_the_kernel_has_made_a_qdisc(pair: Pair) -> None:
    with pair.a:
        kind = make("eth0", "root")
        assert qdiscs(pair)[0] == kind
        assert remove("eth0")
        assert kind not in qdiscs(pair)
        assert not remove("eth0")


def test_make__the_qdisc_of_another_program_stays(shaped: Pair) -> None:
    with pytest.raises(SluiceError, match="another program at its root: htb 1:; remove it, or name"):
        make("eth0", "root")
    assert not remove("eth0")
    assert qdiscs(shaped) == ["htb"]


def test_make__names_the_class_that_is_not_there(shaped: Pair) -> None:
    with pytest.raises(EnvironmentLacking, match="below its class 1:7 of eth0: "):
        make("eth0", "1:7")
    assert qdiscs(shaped) == ["htb"]


def test_link__an_agent_without_a_place_removes_what_a_killed_one_left(shaped: Pair) -> None:
    HostLink(["eth0"], LINK_CLASS).begin()
    assert len(qdiscs(shaped)) == 2
    HostLink(["eth0"], None).begin()
    assert qdiscs(shaped) == ["htb"]


def test_link__moves_to_another_place(shaped: Pair) -> None:
    HostLink(["eth0"], LINK_CLASS).begin()
    shaped.a.run(
        "tc", "class", "add", "dev", "eth0", "parent", "1:", "classid", "1:2", "htb", "rate", "1mbit"
    )
    link = HostLink(["eth0"], "1:2")
    link.begin()
    assert link.problem == ""
    assert " parent 1:2 " in shaped.a.run("tc", "qdisc", "show", "dev", "eth0")
    assert len(qdiscs(shaped)) == 2


def test_link__comes_back_after_another_program_removed_it_and_goes_with_the_agent(shaped: Pair) -> None:
    kind = first_kind()
    assert kind is not None
    link = HostLink(["eth0"], LINK_CLASS)
    tagger = HostTagger(["eth0"], link=link)
    link.begin()
    tagger.attach()
    assert remove("eth0")
    for _ in range(5):
        tagger.update(HostSettings.of(PIAS))
    assert (link.name, link.problem) == (kind, "")
    assert kind in qdiscs(shaped)
    tagger.detach()
    link.end()
    link.end()
    assert qdiscs(shaped) == ["htb"]


def test_link__a_problem_is_noted_and_packets_leave_all_the_same(shaped: Pair) -> None:
    link = HostLink(["eth0"], "root")
    link.begin()
    assert link.name == ""
    assert "another program" in link.problem
    assert link.priorities(host_queue_map(PIAS)) == ()
