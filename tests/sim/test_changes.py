# SPDX-License-Identifier: Apache-2.0
"""Ports and hosts change while packets are in flight: nothing is lost, and the change takes effect at once."""

from typing import Any

import numpy as np
import pytest

from sluice.policy import tags
from sluice.policy.tags import ATTAINED_FIRST, ATTAINED_LAST, URGENCY_FIRST, URGENCY_LAST
from sluice.simulator import _fabric as core
from sluice.simulator.taps import ThresholdsMoved
from tests.sim import kit
from tests.sim.kit import FRAME, GBIT, MS, PAYLOAD, US, Link, S, single, transport
from tests.sim.runs import run

BUFFER = 300 * FRAME
DISCIPLINES = {
    "strict": core.Discipline(),
    "shares": kit.shares([0.7, 0.3]),
    "shortest": kit.discipline(scheduler=core.Scheduler.shortest_first),
    "flow queues": kit.discipline(flow_queues=True, sub_queues=8, release_ns=0),
}


def incast(**more: Any) -> kit.Net:
    """Return three hosts that overload a fourth, with priorities by tag."""
    net = kit.single(4, down=link(**more))
    net.fabric.set_queue_of(net.towards[3], [0] * 9 + [1] * (kit.TAGS - 9))
    net.add(bytes=[400_000, 300_000, 20_000], start_ps=[0, US, 2 * US], source=[0, 1, 2], sink=[3, 3, 3])
    return net


def link(discipline: core.Discipline | None = None, **more: Any) -> Link:
    return Link(GBIT, buffer_bytes=BUFFER, discipline=discipline or core.Discipline(), more=more)


def change(net: kit.Net, to: Link) -> None:
    settings = to.settings()
    settings.delay_ps = US
    net.fabric.change_port(net.towards[3], settings, to.discipline)


def test_change_port__to_what_it_is_changes_no_result() -> None:
    expected, net = incast(mark_bytes=5 * FRAME).finish(), incast(mark_bytes=5 * FRAME)
    for now in range(50 * US, 3 * MS, 50 * US):
        net.run(now)
        change(net, link(mark_bytes=5 * FRAME))
    found = net.finish()
    assert {name: column.tolist() for name, column in found.items()} == {
        name: column.tolist() for name, column in expected.items()
    }


@pytest.mark.parametrize("after", DISCIPLINES)
@pytest.mark.parametrize("before", DISCIPLINES)
def test_change_port__packets_that_wait_stay(before: str, after: str) -> None:
    net = incast(discipline=DISCIPLINES[before])
    net.run(300 * US)
    waiting = net.port(net.towards[3]).waiting_bytes
    assert waiting > 20 * FRAME
    change(net, link(discipline=DISCIPLINES[after]))
    assert net.port(net.towards[3]).waiting_bytes == waiting
    net.fabric.audit()
    result = net.finish()
    assert (result["outcome"] == kit.FINISHED).all()
    assert result["timeouts"].sum() == 0
    net.assert_nothing_left()


def test_change_port__marks_by_the_new_threshold() -> None:
    net = incast(count_queues=True)
    net.run(300 * US)
    assert net.port(net.towards[3]).marked == 0
    change(net, link(mark_bytes=FRAME, count_queues=True))
    net.finish()
    assert net.port(net.towards[3]).marked > 10


def test_change_port__another_link_is_an_error() -> None:
    net = incast()
    for wrong in (Link(2 * GBIT), Link(GBIT, delay_ps=2 * US)):
        with pytest.raises(ValueError, match="bps, delay_ps"):
            net.fabric.change_port(net.towards[3], wrong.settings(), core.Discipline())


def test_change_port__counts_continue() -> None:
    net = incast(count_tags=True, count_queues=True)
    net.run(MS)
    before = net.fabric.queue_counters()
    change(net, link(count_tags=True, count_queues=True, mark_bytes=FRAME))
    assert (net.fabric.queue_counters() == before).all()
    net.finish()
    packets, sent_bytes, marked, dropped = net.fabric.queue_counters()[net.towards[3]].sum(axis=0)
    port = net.port(net.towards[3])
    assert (packets, sent_bytes, marked, dropped) == (port.packets, port.bytes, port.marked, port.dropped)
    assert net.fabric.tag_counters()[net.towards[3]][:, 0].sum() == port.packets + port.dropped


def test_queue_counters__by_the_queue_of_the_packet() -> None:
    net = incast(count_queues=True)
    net.finish()
    first, second, *others = net.fabric.queue_counters()[net.towards[3]][:, 0].tolist()
    assert first > 0
    assert second > 0
    assert others == [0] * 6
    assert not net.fabric.queue_counters()[0].any(), "a port that does not count has zeros"


def test_change_transport__flows_that_start_later_use_it() -> None:
    """Only ECN-capable flows are marked, so marks tell which flows use DCTCP."""
    plain = kit.transport(control=core.Control.reno, echo=core.Echo.none)
    net = kit.single(3, plain, down=link(mark_bytes=1))
    net.flow(0, 2, 300_000)
    net.finish(10 * MS)
    assert net.port(net.towards[2]).marked == 0
    net.flow(0, 2, 300_000, 11 * MS)
    net.run(12 * MS)
    net.fabric.change_transport(kit.transport(control=core.Control.dctcp))
    net.flow(1, 2, 30_000, 13 * MS)
    result = net.finish()
    assert result["id"].tolist() == [1, 2]
    assert 0 < net.port(net.towards[2]).marked <= len(kit.packets_of(30_000))


def test_change_transport__another_payload_is_an_error() -> None:
    with pytest.raises(ValueError, match="payload_bytes"):
        incast().fabric.change_transport(kit.transport(payload_bytes=1000))


def test_change_port__while_hosts_grant_rates() -> None:
    """D3 flows continue when ports and later flows change to DCTCP, because ports that granted rates still do."""
    d3 = kit.transport(control=core.Control.d3, echo=core.Echo.none)
    up = Link(GBIT, more={"grants_rates": True})
    net = kit.single(3, d3, up=up, down=link(grants_rates=True))
    net.flow(0, 2, 2_000_000)
    net.run(2 * MS)
    net.fabric.change_transport(kit.transport())
    settings = link(grants_rates=True, mark_bytes=5 * FRAME).settings()
    net.fabric.change_port(net.towards[2], settings, DISCIPLINES["flow queues"])
    net.flow(1, 2, 2_000_000, 3 * MS)
    result = net.finish()
    assert (result["outcome"] == kit.FINISHED).all()
    assert np.all(result["fct_ps"] < 200 * MS)


# The policy in the loop: thresholds follow the traffic that a port has carried since the run began.


DOCUMENT: dict[str, Any] = {
    "name": "loop",
    "fabric": {"topology": "single", "hosts": 3, "host_rate": "10Gbit", "link_delay": "20us"},
    "scheme": {
        "name": "mlfq-adaptive",
        "queues": 2,
        "thresholds": ["1000KB"],
        "percentiles": [10],
        "window_ms": 250,
        "interval_ms": 200,
    },
    "workload": {
        "flow": [
            {"from": "h2", "to": "h1", "bytes": "10KB", "start": f"{start_ms}ms"}
            for start_ms in (10, 40, 70, 100, 130, 160, 500)
        ]
    },
}


def moves(**fields: Any) -> list[ThresholdsMoved]:
    """Return the thresholds of the receiver's port during the run."""
    return run({**DOCUMENT, "scheme": {**DOCUMENT["scheme"], **fields}}).thresholds("s1:1")


def test_the_first_adjustment_counts_what_completed_before_it() -> None:
    [start, first, *_] = moves()
    assert (start.at_s, start.thresholds_bytes) == (0.0, (1_000_000,))
    assert (first.at_s, first.thresholds_bytes, first.flows) == (0.2, (10_000,), 6)


def test_a_port_whose_thresholds_are_fixed_or_frozen_keeps_them() -> None:
    (fixed,) = moves(overrides=[{"ports": ["s1:1"], "thresholds": ["100KB"]}])
    assert fixed.thresholds_bytes == (100_000,)
    (frozen,) = moves(overrides=[{"ports": ["*"], "freeze": True}])
    assert frozen.thresholds_bytes == (1_000_000,)


# ── When the tags of a deadline flow begin to carry its urgency, by a port's counters ──────────


@pytest.mark.parametrize("urgent_after_bytes", [0, 50_000])
def test_a_deadline_flow_says_its_urgency_from_where_it_is_asked_to(urgent_after_bytes: int) -> None:
    settings = kit.transport(
        control=core.Control.ucp, tags_deadlines=True, urgent_after_bytes=urgent_after_bytes
    )
    net = kit.single(2, settings, down=kit.Link(more={"count_tags": True}))
    net.flow(0, 1, 200 * PAYLOAD, deadline_ps=20 * S)
    net.finish()
    packets = net.fabric.tag_counters()[net.towards[1], :, 0]
    head = min(200, -(-urgent_after_bytes // PAYLOAD))
    urgent = slice(tags.URGENCY_FIRST, tags.URGENCY_LAST + 1)
    by_bytes = [tags.attained_tag(number * PAYLOAD) for number in range(head)]
    assert packets[urgent].sum() == 200 - head
    assert packets.sum() == 200
    expected = np.bincount(np.asarray(by_bytes, int), minlength=tags.TAG_COUNT)
    assert (packets[: tags.URGENCY_FIRST] == expected[: tags.URGENCY_FIRST]).all()


# ── After its deadline a flow is the most urgent one, or one without a deadline ────────────────


DEADLINE_PS = 2 * MS
SIZE_BYTES = 10_000_000
"""8 ms of the link, so three quarters of the flow are late."""


@pytest.mark.parametrize("forgets_late", [False, True])
def test_late__goes_on_as_the_most_urgent_or_as_a_flow_without_a_deadline(forgets_late: bool) -> None:
    """A flow alone on a link. Until its deadline, all its tags are its urgency."""
    settings = transport(control=core.Control.ucp, tags_deadlines=True, forgets_late=forgets_late)
    net = single(2, settings, down=Link(more={"count_tags": True}))
    net.flow(0, 1, SIZE_BYTES, deadline_ps=DEADLINE_PS)

    def sent_bytes(until_ps: int) -> kit.Array:
        net.run(until_ps)
        by_tag: kit.Array = net.fabric.tag_counters()[net.towards[1]][:, 1].astype(np.int64)
        return by_tag

    before = sent_bytes(DEADLINE_PS)
    assert before[URGENCY_FIRST : URGENCY_LAST + 1].sum() == before.sum() > 0
    late = sent_bytes(6 * MS) - before
    attained, urgency_q16 = late[ATTAINED_FIRST : ATTAINED_LAST + 1], net.windows()[0].urgency_q16
    if forgets_late:
        assert attained.sum() > SIZE_BYTES / 5  # packets that waited at the deadline keep their tags
        assert np.flatnonzero(attained).min() > 24  # tags of flows that sent more than a megabyte
        assert urgency_q16 == 1 << 16
    else:
        assert attained.sum() == 0
        assert late[URGENCY_LAST] > SIZE_BYTES / 4
        assert urgency_q16 > 10 << 16
