# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sluice.dataplane.link_queues import FQ, HTB, KINDS, PRIO, QUEUES, Qdisc, qdisc_at
from sluice.hostagent.link import HostLink
from sluice.hostagent.tagger import HostTagger
from sluice.policy.wire.agents import LINK_QUEUES

OURS, ROOT = 0x5C1C0000, 0xFFFFFFFF


def test_kinds__the_heartbeat_knows_each_of_them() -> None:
    assert tuple(kind.name for kind in KINDS) == LINK_QUEUES
    assert all(len(kind.priorities) == QUEUES for kind in KINDS)


def test_priorities__name_the_classes_of_strict_qdiscs() -> None:
    assert PRIO.priorities == HTB.priorities == tuple(range(OURS + 1, OURS + QUEUES + 1))
    assert len(set(FQ.priorities)) == 3, "fq has three bands"


def test_qdisc_at__the_kernels_own_qdisc_is_no_ones() -> None:
    assert qdisc_at([Qdisc("noqueue", 0, ROOT)], "root") is None
    assert qdisc_at([Qdisc("mq", 0, ROOT), Qdisc("fq_codel", 0, 1)], "root") is None


def test_qdisc_at__finds_what_is_at_the_place() -> None:
    root, below, clsact = (
        Qdisc("htb", 0x10000, ROOT),
        Qdisc("htb", OURS, 0x10001),
        Qdisc("clsact", 0xFFFF0000, 0xFFFFFFF1),
    )
    listing = [root, below, clsact]
    assert qdisc_at(listing, "root") == root
    assert qdisc_at(listing, "1:1") == below
    assert qdisc_at(listing, "1:2") is None
    assert qdisc_at(listing, "a:1") is None


def test_link__without_a_place_there_is_no_priority_and_no_problem() -> None:
    link = HostLink("lo", None)
    link.begin()
    HostTagger("lo", use_bpf=False, link=link).update(None)
    assert (link.name, link.problem, link.priorities((0, 1, 2))) == ("", "", ())


def test_link__a_missing_interface_is_a_problem_and_no_error() -> None:
    link = HostLink("no-such-if", "root")
    link.begin()
    assert "no-such-if" in link.problem
    link.end()
