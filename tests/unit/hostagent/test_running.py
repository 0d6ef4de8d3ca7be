# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.hostagent.tcp import MOST_SHOWN, TcpInfo, running_flow, running_flows
from sluice.policy.wire.agents import RunningFlow
from tests.unit.hostagent.flows import flow

STATE = RunningFlow("run/1", "h2", "", 10, 5, 1.0, None, 0, "cubic", None)


class Connection:
    """A connection whose flow is in this state, or whose socket is closed."""

    def __init__(self, state: RunningFlow | OSError | None) -> None:
        self.state = state

    def progress(self) -> RunningFlow | None:
        if isinstance(self.state, OSError):
            raise self.state
        return self.state


def test_running_flows__leaves_out_those_that_end_meanwhile() -> None:
    connections = [Connection(None), Connection(OSError("closed")), Connection(STATE)]
    assert running_flows(connections) == (STATE,)


def test_running_flows__has_the_first_ones_only() -> None:
    connections = [Connection(replace(STATE, id=f"run/{i}")) for i in range(100)]
    found = running_flows(connections)
    assert [one.id for one in found] == [f"run/{i}" for i in range(MOST_SHOWN)]


def test_running_flow__counts_from_the_flows_start_on_a_persistent_connection() -> None:
    before, now = TcpInfo(3, 0, 0, acked_bytes=1_000), TcpInfo(5, 0, 0, acked_bytes=41_000, srtt_us=250)
    scheduled = replace(flow(0, size_bytes=100_000, deadline_us=5e3), label="shuffle")
    found = running_flow(scheduled, 2_000_000_000, now, before, "cubic")
    assert (found.acked_bytes, found.retransmissions, found.srtt_us) == (40_000, 2, 250.0)
    assert found.deadline_at == pytest.approx(2.005)
    assert (found.bytes, found.label) == (100_000, "shuffle")


def test_running_flow__an_endless_flow_has_neither_size_nor_deadline() -> None:
    scheduled = replace(flow(0, size_bytes=100_000, deadline_us=5e3), until_s=9.0)
    found = running_flow(scheduled, 0, TcpInfo(0, 0, 0), TcpInfo(0, 0, 0), "cubic")
    assert (found.bytes, found.deadline_at, found.srtt_us) == (None, None, None)
