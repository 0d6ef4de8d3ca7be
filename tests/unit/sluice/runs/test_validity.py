# SPDX-License-Identifier: Apache-2.0
"""When the machine, not the network, decided a run; and thresholds that fit one."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from sluice.policy.figures.validity import NO_DELAYS, delay_class
from sluice.policy.wire.records import UNFINISHED, ScheduledFlow
from sluice.policy.workload.scenario import scheduled_flows
from sluice.runs.files import scenario_from_file, scenario_with
from sluice.runs.testbed_run import complete
from sluice.runs.validity import (
    RATES_BPS,
    Forwarding,
    HostDelays,
    Reading,
    RunWatch,
    at_rate,
    lateness,
)
from sluice.runtime.identity import Ticks
from sluice.runtime.process import Priority
from sluice.topologies import build_topology
from sluice.topologies.testbed import PortService, Testbed
from tests.kit.heartbeats import host_heartbeat

FLOW = ScheduledFlow("r/1", 0.5, "h1", "h2", 10_000, "small", 1000.0, 5000.0)


def reading(
    at_s: float = 0.0,
    *,
    busy: int = 0,
    restarts: int = 0,
    service: Mapping[str, PortService] | None = None,
    forwarding: tuple[int, ...] = NO_DELAYS,
    losses: Mapping[str, int] | None = None,
) -> Reading:
    ticks = Ticks(busy, round(200 * at_s))
    return Reading(at_s, ticks, at_s / 2, restarts, service or {}, forwarding, losses or {})


def watched(*readings: Reading) -> RunWatch:
    """Return a watch with these first and last readings of its spans in turn."""
    return RunWatch(cast(Testbed, None), list(zip(readings[::2], readings[1::2], strict=True)))


def delays(early: int, late: int) -> tuple[int, ...]:
    """Return delays of half a unit and of two."""
    counts = list(NO_DELAYS)
    counts[delay_class(0.5, 1)], counts[delay_class(2, 1)] = early, late
    return tuple(counts)


def test_reasons__a_busy_machine_that_forwards_in_time_is_valid() -> None:
    watch = watched(reading(), reading(10.0, busy=2000, forwarding=delays(98, 2)))
    assert watch.reasons() == []
    assert watch.remarks() == ["the CPU was 100% busy"]
    assert watched(reading(), reading(10.0, busy=1000)).remarks() == []
    figures = watch.summary()
    assert (figures["machine_cpu_mean"], figures["switch_cpu_mean"]) == (1.0, 0.5)
    assert figures["forwarded_late"] == 0.02


def test_reasons__each_consequence_is_named() -> None:
    before = reading(
        service={
            "s1:1": PortService(10.0, 1.0),
            "s1:2": PortService(7.0, 5.0),
            "s1:3": PortService(0.0, 0.0),
        },
        losses={"a": 3, "b": 1},
    )
    after = reading(
        30.0,
        restarts=1,
        service={
            "s1:1": PortService(30.0, 3.0),
            "s1:2": PortService(17.0, 5.1),
            "s1:3": PortService(0.5, 0.4),
        },
        forwarding=delays(90, 10),
        losses={"a": 3, "b": 4},
    )
    watch = watched(before, after)
    restarted, forwarded, served, lost = watch.reasons()
    assert "the testbed restarted it 1 times" in restarted
    assert "forwarded 10.0% of the packets of the run later than" in forwarded
    assert "served port s1:1 late, by 10% " in served
    assert lost == "3 packets were lost outside the emulated queues: b"
    assert watch.summary()["port_late_worst"] == 0.1


def test_reasons__add_up_over_the_spans_and_nothing_between_them_counts() -> None:
    """Between them, agents end and begin."""

    def at(at_s: float, busy: int, late_s: float, early: int, late: int, lost: int) -> Reading:
        service = {"s1:1": PortService(at_s, late_s)}
        counts = delays(early, late)
        return reading(at_s, busy=busy, service=service, forwarding=counts, losses={"a": lost})

    first = at(0, 0, 0, 0, 0, 0), at(10, 1000, 0.2, 90, 0, 0)
    between = at(20, 3000, 5, 90, 50, 7)
    watch = watched(*first, between, at(30, 4000, 5.2, 190, 50, 7))
    assert watch.reasons() == []
    figures = watch.summary()
    assert (figures["machine_cpu_mean"], figures["port_late_worst"], figures["forwarded_late"]) == (
        0.5,
        0.02,
        0.0,
    )
    assert sum(figures["forwarding"]) == 190
    assert watched(*first, between, at(30, 4000, 5.2, 190, 50, 9)).reasons() == [
        "2 packets were lost outside the emulated queues: a"
    ]
    assert watched().summary()["switch_cpu_mean"] == 0.0, "interrupted before the first span"


def test_host_delays__add_up_over_all_agents_of_a_run() -> None:
    hosts = HostDelays()
    hosts.add([host_heartbeat(start_delays=delays(95, 5), answer_delays=delays(100, 0))])
    assert hosts.reasons() == []
    hosts.add([host_heartbeat(start_delays=delays(0, 10)), host_heartbeat(answer_delays=delays(0, 100))])
    started, answered = hosts.reasons()
    assert started.startswith("hosts started 13.6% of the flows later")
    assert answered.startswith("hosts answered 50.0% of the flows later")
    assert sum(hosts.summary()["start_delays"]) == 110


def test_lateness__a_port_agent_that_started_anew_counts_from_zero() -> None:
    before = {"s1:1": PortService(30.0, 3.0), "s1:2": PortService(30.0, 3.0)}
    after = {"s1:1": PortService(10.0, 0.5), "s1:2": PortService(0.5, 0.4), "s1:3": PortService(2.0, 0.0)}
    assert lateness([(before, after)]) == {"s1:1": 0.05, "s1:3": 0.0}, "of half a second nothing is said"


def test_complete__a_flow_that_nobody_reported_is_unfinished_and_has_missed_its_deadline() -> None:
    scenario, *_ = scenario_from_file(Path("paper-mix"))
    (record,) = complete([], [FLOW], scenario, start_at=1e9)
    assert (record.id, record.status, record.met) == ("r/1", UNFINISHED, False)
    assert record.started_at == 1e9 + FLOW.start_s
    assert complete([record], [FLOW], scenario, start_at=1e9) == [record]


def rate_bps(free_cores: float, packet_us: float, priority: Priority = Priority.REALTIME) -> int:
    return Forwarding(2, free_cores, packet_us, priority).rate_bps()


def test_rate__falls_with_busy_cores_with_the_cost_of_a_packet_and_without_real_time() -> None:
    rates = [rate_bps(free, us) for free, us in ((2, 30), (2, 67), (2, 90), (0.5, 110))]
    assert rates == sorted(set(rates), reverse=True)
    assert set(rates) <= set(RATES_BPS)
    assert rate_bps(2, 67, Priority.NICE) < rate_bps(2, 67)
    assert (rate_bps(64, 1), rate_bps(0.5, 10_000)) == (RATES_BPS[-1], RATES_BPS[0])


def test_at_rate__the_same_packets_in_other_time() -> None:
    """At half the rate, the same flows start at twice the time, with twice the deadline and twice the ideal FCT."""
    scenario, document, _ = scenario_from_file(Path("demo"))
    slower, *_ = scenario_with(document, **at_rate(document, 2_500_000))
    flows = [
        scheduled_flows(one, build_topology(one), np.random.default_rng(1), "r", until_s=seconds)
        for one, seconds in ((scenario, 5.0), (slower, 10.0))
    ]
    assert len(flows[0]) == len(flows[1]) > 100
    for fast, slow in zip(*flows, strict=True):
        assert (fast.src, fast.dst, fast.bytes) == (slow.src, slow.dst, slow.bytes)
        assert slow.start_s == pytest.approx(2 * fast.start_s)
        assert slow.ideal_us == pytest.approx(2 * fast.ideal_us, rel=0.01), "beside the fixed delays of links"
        assert (slow.deadline_us is None) == (fast.deadline_us is None)
        if slow.deadline_us is not None:
            assert slow.deadline_us == pytest.approx(2 * (fast.deadline_us or 0), rel=0.01)
    assert slower.transport.rto_min_ms == 2 * scenario.transport.rto_min_ms
