# SPDX-License-Identifier: Apache-2.0
"""Several switches at one controller: duplicates, slow ones, many at once, counters that reset."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest

from sluice.controller.openflow import Frame, MessageType, message
from sluice.controller.tables import Table, cookie
from sluice.policy import tags
from sluice.runtime.wait import wait_until
from sluice.store import observed
from tests.fakes.openflow import flow_entry
from tests.fakes.peer import multipart_reply
from tests.kit.networks import leaf_spine
from tests.unit.controller.processes import (
    Process,
    Starter,
    changes,
    controller_process,
    is_change,
    polls,
    polls_completed,
)

pytestmark = pytest.mark.slow

ADAPTIVE = {"scheme": "mlfq-adaptive", "interval_ms": 100, "window_ms": 500}


def test_of_two_live_switches_with_one_datapath_id_the_first_stays_and_both_are_named(
    controller: Process, live: Starter
) -> None:
    """Otherwise, the two switches would replace each other without end."""
    first = live(controller.port, 1, returns=True)
    wait_until(controller.applied, "the first is served")
    second = live(controller.port, 1, returns=True)
    wait_until(lambda: len(second.peers) >= 4, "the second has tried several times")
    controller.put_policy({"scheme": "tcp"})
    wait_until(controller.applied, "the first is served as before")
    assert len(first.peers) == 1
    assert changes(second.received) == []
    document = controller.event("duplicate-datapath-id")
    assert document["dpid"] == 1
    assert document["established"] == f"127.0.0.1:{first.peers[0].address[1]}"
    assert document["refused"] == f"127.0.0.1:{second.peers[0].address[1]}"
    assert "switch-disconnected" not in controller.events()


def test_when_the_first_of_two_with_one_datapath_id_ends_the_other_is_served(
    controller: Process, live: Starter
) -> None:
    first = live(controller.port, 1)
    wait_until(controller.applied, "the first is served")
    second = live(controller.port, 1, returns=True)
    wait_until(lambda: len(second.peers) >= 2, "the second was refused")
    first.stop()
    wait_until(lambda: changes(second.received), "the second is served")


def slowly(frame: Frame) -> bytes | None:
    """Delay the answer to each poll of completed flows."""
    if polls_completed(frame):
        time.sleep(2.0)
    return None


def test_a_switch_that_answers_after_two_seconds_delays_no_other(tmp_path: Path, live: Starter) -> None:
    """The controller polls the slow switch as often as it answers, and the others at their interval."""
    with controller_process(tmp_path, leaf_spine()) as controller:
        controller.put_policy(ADAPTIVE)
        slow = live(controller.port, 1, slowly)
        quick = [live(controller.port, dpid) for dpid in (2, 3, 4)]
        wait_until(controller.applied, "all four implement the policy")
        before, slow_before = [polls(peer) for peer in quick], polls(slow)
        wait_until(lambda: polls(slow) > slow_before, "the slow one answers again")
        each = [polls(peer) - earlier for peer, earlier in zip(quick, before, strict=True)]
        assert min(each) > 3, "they do not wait for the slow one"
        assert "switch-disconnected" not in controller.events()


def refuse(frame: Frame) -> bytes | None:
    """Refuse every change."""
    if not is_change(frame):
        return None
    return message(MessageType.ERROR, struct.pack("!HH", 4, 9) + frame.data[:64], frame.xid)


def test_of_many_switches_at_once_those_that_refuse_every_rule_delay_no_other(
    tmp_path: Path, live: Starter
) -> None:
    """Ten switches refuse every rule, and the other ten get their rules."""
    topology = leaf_spine(leaves=16, spines=4, hosts_per_leaf=1)
    with controller_process(tmp_path, topology) as controller:
        for dpid in range(1, 11):
            live(controller.port, dpid, refuse)
        for dpid in range(11, 21):
            live(controller.port, dpid)

        def right() -> int:
            rows = observed.all_switches(controller.engine)
            return sum(row["policy_version"] == 1 for row in rows)

        wait_until(lambda: right() == 10, "the accepting switches have their rules")
        # A switch that refuses may be slower than all that accept.
        wait_until(
            lambda: controller.events().count("openflow-error") >= 10,
            "each refusal is an event",
        )
        wait_until(lambda: controller.events().count("switch-connected") == 20, "all are connected")


class CompletedFlows:
    """Answers each poll with flows of 10 KB that have completed at port 1."""

    def __init__(self) -> None:
        self.count, self.step = 1_000_000, 7

    def __call__(self, frame: Frame) -> bytes | None:
        if not polls_completed(frame):
            return None
        self.count += self.step
        number = cookie(Table.ENDS, 1, tags.attained_tag(10_000))
        return multipart_reply(frame, flow_entry(number, self.count))


def test_counters_that_reset_without_a_new_connection_are_no_burst_and_no_pause(
    controller: Process, live: Starter
) -> None:
    """A datapath that restarts under a live OpenFlow connection counts from zero again."""
    flows = CompletedFlows()
    controller.put_policy(
        {
            "scheme": "mlfq-adaptive",
            "queues": 2,
            "thresholds": ["1MB"],
            "min_flows": 100,
            "window_ms": 500,
        }
    )
    live(controller.port, 1, flows)
    wait_until(controller.applied, "the policy is applied")

    def threshold() -> observed.ThresholdChange:
        return observed.latest_thresholds(controller.engine)["s1:1"]

    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1.5, "three windows of 35 flows")
    flows.count = 0
    reset = time.monotonic()
    wait_until(lambda: time.monotonic() - reset > 1.5, "three windows after the reset")
    assert threshold().thresholds_bytes == (1_000_000,)
    flows.step = 70
    wait_until(lambda: threshold().thresholds_bytes == (10_000,), "enough flows move the threshold")
    assert threshold().flows < 1_000
