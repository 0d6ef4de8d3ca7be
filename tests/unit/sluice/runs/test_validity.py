# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from policy.records import UNFINISHED
from policy.schedule import ScheduledFlow
from runtime.wait import wait_until
from sluice.runs.files import scenario_from_file
from sluice.runs.tcp_counters import difference
from sluice.runs.testbed_run import complete, loss_reasons
from sluice.runs.validity import RunWatch, lateness
from topologies.testbed import PortService

FLOW = ScheduledFlow("r/1", 0.5, "h1", "h2", 10_000, "small", 1000.0, 5000.0)


def watch(
    machine: list[float],
    waiting_bytes: Sequence[int] = (),
    *,
    service: Callable[[], Mapping[str, PortService]] = dict,
) -> RunWatch:
    return RunWatch(os.getpid(), service, machine, [], list(waiting_bytes))


def test_run_watch__a_few_busy_moments_are_no_saturation() -> None:
    assert watch([0.99] + [0.5] * 39, [10**6] + [0] * 39).reasons() == []


def test_run_watch__says_what_was_saturated_and_for_how_long() -> None:
    (reason,) = watch([0.99] * 4 + [0.3] * 6).reasons()
    assert "the CPU was saturated" in reason
    assert "40%" in reason


def test_run_watch__says_how_long_packets_waited_for_the_switch() -> None:
    (reason,) = watch([0.5] * 10, [100_000] * 3 + [2304] * 7).reasons()
    assert "ovs-vswitchd fell behind" in reason
    assert "30%" in reason


def test_run_watch__sees_packets_that_nobody_takes() -> None:
    if os.geteuid() != 0:
        pytest.skip("packet sockets need root")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003)) as unread:
        unread.bind(("lo", 0x0003))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(10):
                sender.sendto(bytes(1000), ("127.0.0.1", 9))
        with watch([]) as measured:
            wait_until(lambda: measured.waiting_bytes and measured.waiting_bytes[-1] > 10_000, "packets wait")
    assert measured.summary()["waiting_for_switch_bytes_peak"] > 10_000


def test_run_watch__says_which_port_was_late_and_how_much() -> None:
    looks = [
        {"s1:1": PortService(10.0, 1.0), "s1:2": PortService(7.0, 5.0), "s1:3": PortService(0.0, 0.0)},
        {"s1:1": PortService(30.0, 3.0), "s1:2": PortService(17.0, 5.1), "s1:3": PortService(0.5, 0.4)},
    ]
    looks.reverse()
    with watch([], service=looks.pop) as measured:
        measured.machine.clear()
    assert measured.late == {"s1:1": pytest.approx(0.1), "s1:2": pytest.approx(0.01)}
    (reason,) = measured.reasons()
    assert "served port s1:1 late, by 10% " in reason
    assert measured.summary()["port_late_worst"] == 0.1


def test_lateness__a_port_agent_that_started_anew_counts_from_zero() -> None:
    before = {"s1:1": PortService(30.0, 3.0), "s1:2": PortService(30.0, 3.0)}
    after = {"s1:1": PortService(10.0, 0.5), "s1:2": PortService(0.5, 0.4), "s1:3": PortService(2.0, 0.0)}
    assert lateness(before, after) == {"s1:1": 0.05, "s1:3": 0.0}, "of half a second nothing is said"


def test_run_watch__measures_this_process() -> None:
    with watch([]) as measured:
        wait_until(lambda: sum(i * i for i in range(300_000)) and len(measured.switch) >= 2, "two samples")
    assert max(measured.switch) > 0
    assert max(measured.machine) <= 1.0
    assert measured.summary()["switch_cpu_peak"] == round(max(measured.switch), 3)


def test_loss_reasons__only_what_was_lost_during_the_run() -> None:
    reasons = loss_reasons({"a": 3, "b": 1}, {"a": 3, "b": 4, "c": 1})
    assert [reason.partition(" ")[0] for reason in reasons] == ["3", "1"]
    assert loss_reasons({}, {}) == []


def test_complete__a_flow_that_nobody_reported_is_unfinished_and_has_missed_its_deadline() -> None:
    scenario, _ = scenario_from_file(Path("paper-mix"))
    (record,) = complete([], [FLOW], scenario, start_at=1e9)
    assert (record.id, record.status, record.met) == ("r/1", UNFINISHED, False)
    assert record.started_at == 1e9 + FLOW.start_s
    assert complete([record], [FLOW], scenario, start_at=1e9) == [record]


def test_difference__by_counter() -> None:
    assert difference({"a": 1}, {"a": 4}) == {"a": 3}
