# SPDX-License-Identifier: Apache-2.0
"""The sender's declarations to the kernel, and its reaction to a killed flow.

The hook itself has tests in the kernel tier.
"""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.hostagent import tcp
from sluice.hostagent.records import QUENCHED
from sluice.hostagent.sockets import FlowState, NoAgent, Phase, options
from sluice.policy.wire.records import BACKGROUND, FINISHED, UNFINISHED
from tests.unit.hostagent.flows import flow, schedule
from tests.unit.hostagent.test_traffic import Bench, peer

Fields = dict[str, object]
"""The fields of a declaration."""


def state(phase: Phase = Phase.SENDING) -> FlowState:
    return FlowState(phase, 3, 1000, 10**6, float("inf"), 0.5, 2.0, 1.5, 0.25, 10, 1, 1, 0)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> list[Fields]:
    """The declarations, which this records instead of the kernel."""
    declared: list[Fields] = []
    monkeypatch.setattr(options, "put", lambda sock, **fields: declared.append(fields))
    monkeypatch.setattr(options, "state", lambda sock: state())
    return declared


URGENT = replace(flow(1, size_bytes=50_000, deadline_us=2.5e6), quench="kill")
IMPORTANT = replace(flow(2), importance=2.0, importance_share=0.5)


def test_declare__deadline_importance_and_size(tmp_path: Path, kernel: list[Fields]) -> None:
    known = replace(flow(4, size_bytes=70_000), size_known=True)
    records = Bench(tmp_path, schedule(URGENT, IMPORTANT, flow(3), known)).run()
    assert {record.status for record in records.values()} == {FINISHED}
    assert kernel == [
        {"size_bytes": 50_000, "deadline_s": 2.5, "quench": "kill"},
        {"importance": 2.0, "importance_share": 0.5},
        {"size_bytes": 70_000},
    ]


def test_declare__the_next_flow_on_a_connection_does_not_inherit(
    tmp_path: Path, kernel: list[Fields]
) -> None:
    plain = flow(2, 0.2)
    bench = Bench(tmp_path, schedule(URGENT, plain, flow(3, 0.4), persistent=True))
    bench.run()
    assert kernel == [{"size_bytes": 50_000, "deadline_s": 2.5, "quench": "kill"}, {}, {}]
    assert bench.sender.undeclared == 0


def test_declare__an_endless_flow_gets_its_urgency_from_a_deadline_and_no_size(
    tmp_path: Path, kernel: list[Fields]
) -> None:
    endless = replace(flow(1, size_bytes=64, deadline_us=4e6), until_s=0.1, elapsed_us=2e6)
    record = Bench(tmp_path, schedule(endless)).run()["run/1"]
    assert kernel == [{"deadline_s": 4.0, "elapsed_s": 2.0}]
    assert (record.source, record.deadline_us, record.met) == (BACKGROUND, None, None)


def test_no_agent__flows_run_undeclared_and_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(sock: socket.socket, **fields: object) -> None:
        raise NoAgent("no agent")

    monkeypatch.setattr(options, "put", refuse)
    bench = Bench(tmp_path, schedule(URGENT, flow(3)))
    records = bench.run()
    assert {record.status for record in records.values()} == {FINISHED}
    assert bench.sender.undeclared == 1


def test_killed__the_sender_notices_and_resets(
    tmp_path: Path, kernel: list[Fields], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "state", lambda sock: state(Phase.KILLED))
    held: list[socket.socket] = []
    with peer(held.append) as port:
        bench = Bench(tmp_path, schedule(replace(URGENT, bytes=50_000_000)), port)
        record = bench.run()["run/1"]
        assert (record.status, record.reason, record.met) == (UNFINISHED, QUENCHED, False)
        assert _ends_with_reset(held[0])


def _ends_with_reset(sock: socket.socket) -> bool:
    try:
        while sock.recv(1 << 20):
            pass
    except ConnectionResetError:
        return True
    return False


@pytest.mark.parametrize(("windows", "undeclared"), [(0, 1), (3, 0)])
def test_a_long_flow_without_a_window_counts_as_undeclared(
    tmp_path: Path, kernel: list[Fields], monkeypatch: pytest.MonkeyPatch, windows: int, undeclared: int
) -> None:
    monkeypatch.setattr(options, "state", lambda sock: replace(state(), windows=windows))
    monkeypatch.setattr(tcp, "congestion_control", lambda sock: "sluice_datcp")
    bench = Bench(tmp_path, schedule(replace(URGENT, bytes=2_000_000), replace(URGENT, id="run/2")))
    bench.run()
    assert bench.sender.undeclared == undeclared  # the short flow has too few windows for a verdict


def test_sample__an_impossible_rate_is_null() -> None:
    assert tcp.state_sample(state())["wanted_bytes_per_s"] is None
    assert tcp.state_sample(state(Phase.SUSPENDED))["phase"] == "suspended"
