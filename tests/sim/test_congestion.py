# SPDX-License-Identifier: Apache-2.0
"""Congestion control: windows, queues and shares against the papers' analyses, and against the laws."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import pytest

from dataplane import laws_cffi
from dataplane.windows import Window
from simulator import _fabric as core
from simulator._fabric import MarkBy
from tests.sim import kit
from tests.sim.kit import FRAME, GBIT, HEADER, KILLED, MS, PAYLOAD, US, Link, S, serialisation

RATE = 10 * GBIT
FULL = serialisation(FRAME, RATE)


def bottleneck(flows: int, trip_ps: int, settings: core.TransportSettings, **port: Any) -> kit.Net:
    """Hosts 0 to flows-1 send to the last host, and fill only the port before it. `trip_ps`: the
    round trip without serialisation."""
    up = Link(100 * GBIT, trip_ps // 4)
    return kit.single(flows + 1, settings, up=up, down=Link(RATE, trip_ps // 4, **port))


def forever(net: kit.Net, source: int, sink: int, start_ps: int = 0, **more: Any) -> int:
    """Add an endless flow and return its number."""
    return net.flow(source, sink, 1, start_ps, until_ps=10**3 * S, **more)


def queue_samples(net: kit.Net, until_ps: int, step_ps: int, sink: int) -> kit.Array:
    """Return the queue before the sink in packets, sampled at every step from now on."""
    found = []
    for now in range(net.fabric.now_ps, until_ps, step_ps):
        net.run(now)
        found.append(net.port(net.towards[sink]).waiting_bytes / FRAME)
    return np.array(found)


def goodput_bps(net: kit.Net, flows: int, over_ps: int) -> kit.Array:
    """Return the goodput of each flow over a time from now on."""

    def acked() -> kit.Array:
        columns = net.fabric.senders()
        acked_bytes: kit.Array = columns["acked_bytes"][np.argsort(columns["id"])].astype(float)
        return acked_bytes

    before = acked()
    net.run(net.fabric.now_ps + over_ps)
    after = acked()
    assert len(after) == flows
    return (after - before) * 8 * S / over_ps


# -- DCTCP (Alizadeh et al., SIGCOMM 2010, section 3.3; "Analysis of DCTCP", SIGMETRICS 2011)


TRIP = 100 * US
TRIP_IN_ALL = TRIP + FULL + serialisation(HEADER, RATE)


def falls_of(windows: list[Window]) -> list[tuple[int, int]]:
    """Return (from, to) of each fall of a sawtooth.

    A reduction takes a round trip (RFC 6937), during which marks continue. So one fall may be two
    cuts in successive windows.
    """
    falls, last = [], None
    for i, (before, w) in enumerate(pairwise(windows)):
        if w.cuts == before.cuts:
            continue
        if last is not None and i - last <= 2:
            falls[-1] = (falls[-1][0], w.cut_to)
        else:
            falls.append((w.cut_from, w.cut_to))
        last = i
    return falls


@pytest.mark.parametrize(("flows", "threshold"), [(1, 20), (1, 40), (1, 65), (2, 40), (4, 60)])
def test_dctcp_sawtooth(flows: int, threshold: int) -> None:
    """A window falls from its peak W* = (C RTT + K) / N by D = sqrt(2 W*) / 2, and grows back in D round trips.

    So a period is D round trips and those of the fall. alpha is the share of marked packets: about sqrt(2 / W*).
    """
    net = bottleneck(flows, TRIP, kit.transport(), more={"mark_bytes": threshold * FRAME})
    for source in range(flows):
        forever(net, source, flows, source * US)
    net.run(60 * MS)
    peak = (TRIP_IN_ALL / FULL + threshold) / flows
    swing = sqrt(2 * peak) / 2
    for windows in net.trace(360 * MS, TRIP // 2).values():
        falls = falls_of(windows)
        alpha = np.mean([w.alpha_q20 / 2**20 for w in windows])
        marked = sum(w.marked for w in windows) / sum(w.acked for w in windows)
        assert np.mean([high for high, _ in falls]) == pytest.approx(peak, rel=0.12 if flows > 1 else 0.02)
        assert np.mean([high - low for high, low in falls]) == pytest.approx(
            swing, rel=0.3 if flows > 1 else 0.12
        )
        assert swing < len(windows) / len(falls) < swing + 6
        assert 0.6 * sqrt(2 / peak) < alpha < 1.1 * sqrt(2 / peak)
        assert alpha == pytest.approx(marked, rel=0.05)


@pytest.mark.parametrize("threshold", [20, 65])
def test_dctcp_keeps_the_queue_near_k_and_the_link_busy(threshold: int) -> None:
    """The queue of one flow stays below K + 3 and swings by about D = sqrt(2 (C RTT + K)) / 2. It never empties if
    K > C RTT / 7 (equation 13 there)."""
    net = bottleneck(1, TRIP, kit.transport(), more={"mark_bytes": threshold * FRAME})
    forever(net, 0, 1)
    net.run(60 * MS)
    queue = queue_samples(net, 120 * MS, 5 * US, 1)
    swing = sqrt(2 * (TRIP_IN_ALL / FULL + threshold)) / 2
    assert threshold <= queue.max() <= threshold + 3
    assert 0.8 * swing < queue.max() - queue.min() < 1.8 * swing
    assert goodput_bps(net, 1, 20 * MS)[0] == pytest.approx(RATE * PAYLOAD / FRAME, rel=0.005)


@pytest.mark.parametrize("flows", [2, 8])
@pytest.mark.parametrize("control", ["dctcp", "ucp", "d2tcp", "mcp", "datcp", "reno", "cubic"])
def test_equal_flows_get_equal_shares(control: str, flows: int) -> None:
    """Without deadlines, Jain's index (sum x)^2 / (n sum x^2) is near 1, and the link is full."""
    by_marks = control not in ("reno", "cubic")
    halves = control in ("reno", "datcp")
    port = (
        {"more": {"mark_bytes": (100 if halves else 40) * FRAME}}
        if by_marks
        else {"buffer_bytes": 100 * FRAME}
    )
    echo = core.Echo.exact if by_marks else core.Echo.none
    settings = kit.transport(control=getattr(core.Control, control), echo=echo, rto_min_ps=MS)
    net = bottleneck(flows, TRIP, settings, **port)
    for source in range(flows):
        forever(net, source, flows, source * MS)
    net.run(100 * MS)
    rates = goodput_bps(net, flows, 300 * MS)
    assert rates.sum() == pytest.approx(RATE * PAYLOAD / FRAME, rel=0.06 if halves else 0.01)
    assert rates.sum() ** 2 / (flows * (rates**2).sum()) > 0.95


def test_cubic_fills_the_buffer_and_recovers_without_timeouts() -> None:
    """CUBIC reacts to losses, so the queue fills the buffer repeatedly. A loss reduces the window to 0.7."""
    settings = kit.transport(control=core.Control.cubic, echo=core.Echo.none, rto_min_ps=MS)
    net = bottleneck(1, TRIP, settings, buffer_bytes=100 * FRAME)
    forever(net, 0, 1)
    net.run(200 * MS)
    before = int(net.fabric.unfinished()["timeouts"][0])
    trace = net.trace(2000 * MS, TRIP // 2)[0]
    falls = [w.cut_to / w.cut_from for a, w in pairwise(trace) if w.cuts > a.cuts]
    assert len(falls) >= 3
    assert falls == pytest.approx([0.7] * len(falls), abs=0.01)
    assert net.port(net.towards[1]).most_bytes > 99 * FRAME
    assert int(net.fabric.unfinished()["timeouts"][0]) == before
    assert goodput_bps(net, 1, 100 * MS)[0] > 0.97 * RATE * PAYLOAD / FRAME


def test_cubic_leaves_slow_start_when_the_train_of_acks_is_half_a_round_trip_long() -> None:
    """HyStart: each ACK of the train adds a packet, so the window ends slightly above what the path holds."""
    trip = 10 * MS
    more = {
        "initial_window": 16,
        "max_window": 10**5,
    }  # from 16 packets on, a round begins with a window's first ACK
    settings = kit.transport(control=core.Control.cubic, echo=core.Echo.none, rto_initial_ps=S, **more)
    net = bottleneck(1, trip, settings, buffer_bytes=6000 * FRAME)
    forever(net, 0, 1)
    windows = [w.cwnd for w in net.trace(200 * MS, trip // 2)[0]]
    path = trip / FULL
    assert net.port(net.towards[1]).dropped == 0
    assert 0.9 * path < windows[-1] < 1.6 * path
    assert max(after / before for before, after in pairwise(windows[-3:])) < 1.2, "slow start is over"


def test_cubic_leaves_slow_start_when_packets_are_late() -> None:
    """HyStart, with ACKs too far apart for a train: slow start ends after a round that waited for 4 ms."""
    rate = 5 * GBIT // 1000
    settings = kit.transport(
        control=core.Control.cubic, echo=core.Echo.none, packets_per_ack=2, rto_min_ps=S, rto_initial_ps=S
    )
    net = kit.single(
        2, settings, up=Link(GBIT, 5 * MS), down=Link(rate, 5 * MS, buffer_bytes=60 * FRAME), near_ps=5 * MS
    )
    forever(net, 0, 1)
    net.run(500 * MS)
    assert net.port(net.towards[1]).dropped == 0
    assert 16 <= net.fabric.senders()["cwnd"][0] < 60


# -- marks and their echo


@pytest.mark.parametrize("per_ack", [1, 2, 3, 4])
def test_the_exact_echo_tells_of_every_mark_once(per_ack: int) -> None:
    """The sender counts as many marked packets as the port marked, also with delayed ACKs (RFC
    8257, section 3.2).

    A burst of single packets of other flows makes the flow wait for a while.
    """
    settings = kit.transport(packets_per_ack=per_ack, tags_deadlines=True, max_window=60)
    more = {"mark_bytes": 3 * FRAME, "mark_by": MarkBy.queue}
    net = bottleneck(11, TRIP, settings, more=more)
    net.fabric.set_queue_of(net.towards[11], kit.priority_map())
    forever(net, 0, 11, **kit.as_priority(7, 0))
    for i in range(60):
        start = 10 * MS + i * 3 * FULL // 2
        net.flow(1 + i % 10, 11, PAYLOAD, start, **kit.as_priority(0, start))
    windows = net.trace(60 * MS, TRIP // 4)[0]
    marked = net.port(net.towards[11]).marked
    assert marked > 20
    assert any(0 < w.marked < w.acked for w in windows)
    assert sum(w.marked for w in windows) == marked
    assert windows[-1].marked == 0


@pytest.mark.parametrize(("echo", "control"), [("standard", "reno"), ("exact", "dctcp")])
def test_marks_in_one_window_cut_it_once(echo: str, control: str) -> None:
    """Both echoes cause one cut a window: RFC 3168's, which lasts until CWR, and RFC 8257's, which is each mark.

    A flow sends bursts of 40 packets, one each round trip. During the tenth burst, four packets of another flow make
    it wait.
    """
    settings = kit.transport(
        echo=getattr(core.Echo, echo),
        control=getattr(core.Control, control),
        max_window=40,
        initial_window=40,
    )
    net = kit.single(
        3, settings, up=Link(RATE, TRIP // 4), down=Link(RATE, TRIP // 4, more={"mark_bytes": 2 * FRAME})
    )
    burst = 10 * (TRIP + 2 * FULL + 2 * serialisation(HEADER, RATE))
    forever(net, 0, 2)
    net.flow(1, 2, 4 * PAYLOAD, burst + 15 * FULL)
    trace = net.trace(40 * MS, TRIP // 4)[0]
    marked = net.port(net.towards[2]).marked
    assert 5 < marked < 30
    assert trace[-1].cuts == 1
    told = sum(w.marked for w in trace)
    if echo == "standard":
        assert told > marked
        assert (trace[-1].cut_from, trace[-1].cut_to) == (40, 20)
    else:
        assert told <= marked
        cut = next(w for w in trace if w.cuts)
        assert cut.cut_to == round(40 * (1 - cut.cut_penalty_q20 / 2**21))


# -- the laws


@pytest.fixture(scope="module")
def laws() -> Any:
    return laws_cffi.load()


TOLD = ["at_ns", "acked_bytes", "took_us", "remaining_bytes", "left_ns", "elapsed_ns", "acked", "marked"]
INPUTS = [*TOLD, "cwnd", "rtt_us", "mss_bytes", "flags", "random", "alpha_q20"]
ANSWERS = ["urgency_q16", "precedence_q16", "penalty_q20", "bound", "phase", "rate_bytes_per_s"]


def goal_of(laws: Any, flow: dict[str, Any]) -> Any:
    goal = laws.ffi.new("struct sl_datcp_goal *")
    goal.timed, goal.importance_milli = flow["timed"], flow["importance_milli"]
    goal.importance_share_milli = flow["importance_share_milli"]
    return goal


def asked(laws: Any, control: str, window: Window, state: Any, goal: Any) -> dict[str, int]:
    """Return the law's answer to this window, by a call through cffi."""
    record = laws.ffi.new("struct sl_window_record *")
    for name in INPUTS:
        setattr(record, name, getattr(window, name))
    record.urgency_q16 = 1 << 16
    record.rate_bytes_per_s = laws.lib.sl_rate_bytes_per_s(window.acked_bytes, window.took_us)
    if control == "datcp":
        laws.lib.sl_control_datcp(state, goal, 0, 0, record)
    else:
        getattr(laws.lib, f"sl_control_{control}")(record)
    return {name: int(getattr(record, name)) for name in ANSWERS}


@pytest.mark.parametrize("control", ["dctcp", "ucp", "d2tcp", "mcp", "datcp"])
def test_windows_are_what_the_laws_make_of_them(laws: Any, control: str) -> None:
    """Five flows start before and after time 0, with and without deadlines. Each window's record
    describes its flow. The answer in the record is that of the same law, called here."""
    settings = kit.transport(control=getattr(core.Control, control))
    net = bottleneck(5, TRIP, settings, more={"mark_bytes": 20 * FRAME})
    began = [0, -30 * MS, 0, 2 * MS, 1 * MS]
    deadline = [0, 60 * MS, 40 * MS, 0, 15 * MS]
    size = [10**8, 30_000_000, 40_000_000, 10**8, 20_000_000]
    share = [0, 0, 500, 1000, 0]
    start = [0, 0, 0, 2 * MS, 2 * MS]
    net.add(
        bytes=size,
        start_ps=start,
        began_ps=began,
        deadline_ps=deadline,
        source=range(5),
        sink=[5] * 5,
        size_known=[1, 0, 1, 0, 1],
        importance_milli=[1000, 1000, 3000, 2000, 1000],
        importance_share_milli=share,
    )
    trace = net.trace(50 * MS, TRIP // 4)
    assert sorted(trace) == [0, 1, 2, 3, 4]
    for flow, windows in trace.items():
        about = {
            "timed": bool(deadline[flow]),
            "importance_milli": [1000, 1000, 3000, 2000, 1000][flow],
            "importance_share_milli": share[flow],
        }
        state, goal = laws.ffi.new("struct sl_datcp_state *"), goal_of(laws, about)
        alpha, acked_bytes = 1 << 20, 0
        assert len(windows) > 100
        assert any(w.marked for w in windows)
        for window in windows:
            alpha = laws.lib.sl_dctcp_alpha(alpha, window.acked, window.marked)
            acked_bytes += window.acked_bytes
            assert window.alpha_q20 == alpha
            assert window.mss_bytes == PAYLOAD
            if deadline[flow]:
                assert window.elapsed_ns == window.at_ns - began[flow] // 1000
                assert max(deadline[flow] // 1000 - window.at_ns, 0) - window.left_ns in (
                    0,
                    1,
                )  # both rounded down
            if window.flags & 4:
                assert window.remaining_bytes == size[flow] - acked_bytes
            expected = asked(laws, control, window, state, goal)
            assert {name: getattr(window, name) for name in ANSWERS} == expected


def urgent_for_long(urgency: float) -> dict[str, int]:
    """Return columns of an endless flow whose urgency T_e / (T_d - T_e) stays about constant for a second."""
    return {"began_ps": -1000 * S, "deadline_ps": round(1000 * S / urgency)}


@pytest.mark.parametrize(("first", "second"), [(0.5, 2), (1, 2), (0.5, 1)])
def test_ucp_shares(first: float, second: float) -> None:
    """Two flows are cut in the same windows, by p_i = alpha_i^s_i, and grow by a packet each. So W_i p_i / 2 is the
    same for both, and windows are in proportion to 1 / p_i."""
    net = bottleneck(2, TRIP, kit.transport(control=core.Control.ucp), more={"mark_bytes": 40 * FRAME})
    forever(net, 0, 2, **urgent_for_long(first))
    forever(net, 1, 2, **urgent_for_long(second))
    net.run(100 * MS)
    trace = net.trace(500 * MS, TRIP // 4)
    for flow, urgency in enumerate((first, second)):
        assert {w.urgency_q16 for w in trace[flow]} <= set(
            range(round(urgency * 65400), round(urgency * 65536 * 1.01))
        )
    window = [np.mean([w.cwnd for w in trace[flow]]) for flow in (0, 1)]
    falls = [np.mean([w.cut_penalty_q20 for a, w in pairwise(t) if w.cuts > a.cuts]) for t in trace.values()]
    assert window[1] / window[0] > 1.2
    assert window[1] / window[0] == pytest.approx(falls[0] / falls[1], rel=0.35)


def test_d2tcp_gives_more_to_who_has_less_time() -> None:
    """Four flows of one size through one link; the one with half the time is done first, and earlier than
    under DCTCP."""

    def fct(control: core.Control) -> kit.Array:
        net = bottleneck(4, TRIP, kit.transport(control=control), more={"mark_bytes": 40 * FRAME})
        net.add(
            bytes=[10_000_000] * 4,
            start_ps=[0] * 4,
            deadline_ps=[22 * MS, 60 * MS, 60 * MS, 60 * MS],
            source=range(4),
            sink=[4] * 4,
            size_known=[1] * 4,
        )
        return net.finish()["fct_ps"]

    urgent, fair = fct(core.Control.d2tcp), fct(core.Control.dctcp)
    assert urgent[0] == urgent.min()
    assert urgent[0] < 0.9 * fair[0]
    assert max(urgent) == pytest.approx(max(fair), rel=0.1)


@pytest.mark.parametrize("deadline_ms", [20, 50])
def test_mcp_takes_just_the_rate_that_it_needs(deadline_ms: int) -> None:
    """The flow ends shortly before its deadline. Another flow without a deadline gets the rest of the link."""
    size = 5_000_000
    net = bottleneck(2, TRIP, kit.transport(control=core.Control.mcp), more={"mark_bytes": 40 * FRAME})
    net.add(
        bytes=[size, 1],
        start_ps=[0, 0],
        deadline_ps=[deadline_ms * MS, 0],
        until_ps=[0, deadline_ms * MS],
        source=[0, 1],
        sink=[2, 2],
        size_known=[1, 0],
    )
    result = net.finish()
    assert 0.85 * deadline_ms * MS < result["fct_ps"][0] <= deadline_ms * MS
    left_bytes = RATE / 8 * deadline_ms / 1000 * PAYLOAD / FRAME - size
    assert result["delivered_bytes"][1] > 0.9 * left_bytes


def test_datcp_shares_grow_with_precedence() -> None:
    """With importance alone (phi = 1), precedence P is the importance.

    By equation (5) shares are in proportion to P if all flows are marked at once. If marks are random, they are
    about in proportion to its root (laws/datcp.h). The test allows for both.
    """
    settings = kit.transport(control=core.Control.datcp)
    net = bottleneck(2, TRIP, settings, more={"mark_bytes": 20 * FRAME, "mark_max_bytes": 60 * FRAME})
    for source, importance in enumerate((1000, 4000)):
        forever(net, source, 2, importance_milli=importance, importance_share_milli=1000)
    net.run(100 * MS)
    rates = goodput_bps(net, 2, 400 * MS)
    assert 0.8 * 2 < rates[1] / rates[0] < 1.2 * 4
    assert net.sender(1)["precedence_q16"] == 4 << 16


def test_datcp_quenches_who_cannot_all_make_it() -> None:
    """Four flows want 0.4 of the link each: some are killed, and the others meet their deadlines."""
    settings = kit.transport(control=core.Control.datcp)
    deadline = 100 * MS
    net = bottleneck(4, TRIP, settings, more={"mark_bytes": 20 * FRAME, "mark_max_bytes": 60 * FRAME})
    net.add(
        bytes=[int(0.4 * RATE / 8 * 0.1)] * 4,
        start_ps=[i * MS for i in range(4)],
        deadline_ps=[deadline + i * MS for i in range(4)],
        source=range(4),
        sink=[4] * 4,
        size_known=[1] * 4,
        on_quench=[1] * 4,
    )
    result = net.finish()
    killed = result["outcome"] == KILLED
    assert 2 <= killed.sum() <= 3
    assert (result["fct_ps"][~killed] <= deadline).all()
    net.assert_nothing_left()


# -- D3 (Wilson et al., SIGCOMM 2011)


def with_rates(flows: int, columns: kit.ColumnsLike) -> tuple[kit.Columns, kit.Net]:
    settings = kit.transport(control=core.Control.d3, echo=core.Echo.none)
    net = bottleneck(flows, TRIP, settings, more={"grants_rates": True})
    net.add(source=range(flows), sink=[flows] * flows, **columns)
    result = net.finish()
    net.assert_nothing_left()
    return result, net


def test_d3_grants_first_what_deadlines_need() -> None:
    """Two flows want a half and a quarter of the link, and meet their deadlines. A third flow gets the rest."""
    deadline = 10 * MS
    share = [0.5, 0.25, 0.5]
    result, net = with_rates(
        3,
        {
            "bytes": [int(s * RATE / 8 * 0.01 * PAYLOAD / FRAME) for s in share],
            "start_ps": [0] * 3,
            "deadline_ps": [deadline, deadline, 0],
        },
    )
    assert (result["fct_ps"][:2] <= deadline * 1.02).all()
    assert result["fct_ps"][2] > deadline
    assert net.fabric.packets_dropped == 0


def test_d3_shares_fairly_without_deadlines() -> None:
    """n flows of equal size end together, after n times the time of one flow."""
    size = 5_000_000
    result, net = with_rates(4, {"bytes": [size] * 4, "start_ps": [0] * 4})
    together = 4 * len(kit.packets_of(size)) * FULL
    assert result["fct_ps"].tolist() == pytest.approx([together] * 4, rel=0.1)
    assert net.port(net.towards[4]).most_bytes < 60 * FRAME
