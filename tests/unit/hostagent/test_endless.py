# SPDX-License-Identifier: Apache-2.0
"""Endless flows, bounded windows and samples, over the loopback interface without root."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluice.hostagent.receiver import Receiver
from sluice.hostagent.records import RUN_ENDED
from sluice.hostagent.traffic import SAMPLES, Sampler
from sluice.policy.figures.metrics import summarise
from sluice.policy.units import MSS_BYTES, NS_PER_MS
from sluice.policy.wire.records import BACKGROUND, FINISHED, SCHEDULED, UNFINISHED, ScheduledFlow
from tests.unit.hostagent.flows import flow, schedule
from tests.unit.hostagent.test_traffic import Bench, peer

pytestmark = pytest.mark.slow


def endless(number: int, start_s: float = 0.0, until_s: float = 0.3) -> ScheduledFlow:
    return replace(flow(number, start_s, 64), until_s=until_s)


@pytest.mark.parametrize("persistent", [False, True])
def test_an_endless_flow_sends_until_its_time_and_all_bytes_arrive(tmp_path: Path, persistent: bool) -> None:
    bench = Bench(tmp_path, schedule(endless(1), flow(2, 0.1), persistent=persistent))
    begin = time.time()
    records = bench.run(start_at=begin)
    record = records["run/1"]
    assert (record.status, record.source, record.ideal_us) == (FINISHED, BACKGROUND, None)
    assert record.fct_us is not None
    ended_s = record.started_at + record.fct_us / 1e6 - begin
    assert ended_s > 0.2, "it may begin late on a busy machine, but not end early"
    assert record.bytes > 1_000_000  # the loopback interface carries gigabytes a second
    assert bench.receiver.statistics.bytes == record.bytes + records["run/2"].bytes
    assert bench.receiver.statistics.flows == 2
    assert records["run/2"].source == SCHEDULED
    assert summarise(records.values())["fct_us"]["all"]["n"] == 1  # an endless flow is no part of the result


def test_an_endless_flow_whose_receiver_is_stuck_is_unfinished(tmp_path: Path) -> None:
    held: list[socket.socket] = []
    with peer(held.append) as port:
        bench = Bench(tmp_path, schedule(endless(1, until_s=0.05)), port, grace_s=0.05)
        record = bench.run()["run/1"]
    assert (record.status, record.reason) == (UNFINISHED, RUN_ENDED)
    assert record.bytes > 64  # the acknowledged bytes
    assert summarise([record])["unfinished"] == 0


def test_samples__every_active_flow_until_the_flows_have_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine may skip a sample, so the run ends when there are enough, not at a time."""
    bench = Bench(tmp_path, schedule(endless(1, until_s=20), endless(2, 0.1, until_s=20)))
    sampler = Sampler(bench.loop, bench.sender, tmp_path, 20)
    begin = bench.traffic.begin

    def begin_both(start_at: float) -> None:
        begin(start_at)
        sampler.begin(bench.traffic.epoch_ns)

    def samples(flow_id: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in (tmp_path / SAMPLES).read_text().splitlines()]
        return [sample for sample in lines if sample["flow"] == flow_id]

    monkeypatch.setattr(bench.traffic, "begin", begin_both)
    bench.run(until=lambda: len(samples("run/1")) >= 5 and len(samples("run/2")) >= 2)
    bench.traffic.stop(RUN_ENDED)
    sampler.close()
    first = samples("run/1")
    acked = [sample["acked_bytes"] for sample in first]
    assert acked == sorted(acked)
    assert 0 < acked[-1] <= bench.by_id()["run/1"].bytes + 1  # the SYN counts as a byte
    assert samples("run/2")[0]["at_s"] >= 0.1
    assert first[-1]["cwnd"] > 0


def test_samples__planned_at_whole_multiples_of_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, schedule(flow(1, 0, 64)))
    planned: list[int] = []
    monkeypatch.setattr(bench.loop, "call_at", lambda when_ns, action: planned.append(when_ns))
    sampler = Sampler(bench.loop, bench.sender, tmp_path, 20)
    epoch_ns = time.monotonic_ns() - 12_345_678_901
    sampler.begin(epoch_ns)
    sampler._take()
    sampler.close()
    assert len(planned) == 2
    assert planned[0] <= planned[1]
    for when_ns in planned:
        assert (when_ns - epoch_ns) % (20 * NS_PER_MS) == 0


@pytest.mark.parametrize("max_window", [2, 50])
def test_max_window__the_sender_has_no_more_in_flight(tmp_path: Path, max_window: int) -> None:
    """The kernel forgets the bound at the first packets, and the receiver sets it again."""
    bench = Bench(tmp_path, schedule(endless(1, until_s=0.2)))
    bench.receiver.close()
    bench.own_receiver = Receiver(bench.loop, None, port=0, max_window=max_window)
    bench.sender._port = bench.receiver.port
    windows: list[int] = []

    def sampled() -> bool:
        for connection in bench.receiver._open:
            windows.append(connection._sock.getsockopt(6, 10))  # IPPROTO_TCP, TCP_WINDOW_CLAMP
        return bench.traffic.done

    record = bench.run(until=sampled)["run/1"]
    assert record.status == FINISHED
    assert set(windows[len(windows) // 2 :]) == {max_window * MSS_BYTES}
