# SPDX-License-Identifier: Apache-2.0
"""The windows of the deadline-aware controls: against the laws themselves, and against the papers' analyses."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from sluice.dataplane import laws_cffi
from sluice.dataplane.windows import Window
from sluice.simulator import _fabric as core
from tests.sim import kit
from tests.sim.bottleneck import (
    FULL,
    RATE,
    TRIP,
    bottleneck,
    forever,
    goodput_bps,
)
from tests.sim.kit import FRAME, KILLED, MS, PAYLOAD, S


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
