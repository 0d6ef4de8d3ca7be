# SPDX-License-Identifier: Apache-2.0
"""Endless flows, bounded windows and samples, over the loopback interface without root."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from hostagent.receiver import Receiver
from hostagent.records import RUN_ENDED
from hostagent.sampler import FILE, Sampler
from policy.framing import MSS_BYTES
from policy.metrics import summarise
from policy.records import BACKGROUND, FINISHED, SCHEDULED, UNFINISHED
from policy.schedule import ScheduledFlow
from tests.unit.hostagent.flows import flow, schedule
from tests.unit.hostagent.test_traffic import Bench, peer

pytestmark = pytest.mark.slow


def endless(number: int, start_s: float = 0.0, until_s: float = 0.3) -> ScheduledFlow:
    return replace(flow(number, start_s, 64), until_s=until_s)


@pytest.mark.parametrize("persistent", [False, True])
def test_an_endless_flow_sends_until_its_time_and_all_bytes_arrive(tmp_path: Path, persistent: bool) -> None:
    bench = Bench(tmp_path, schedule(endless(1), flow(2, 0.1), persistent=persistent))
    records = bench.run()
    record = records["run/1"]
    assert (record.status, record.source, record.ideal_us) == (FINISHED, BACKGROUND, None)
    assert record.fct_us is not None
    assert record.fct_us >= 0.2e6, "it may begin late on a busy machine, but not end early"
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


def test_samples__every_active_flow_at_whole_multiples_of_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, schedule(endless(1), endless(2, 0.1)))
    sampler = Sampler(bench.loop, bench.sender, tmp_path, 20)
    begin = bench.traffic.begin

    def begin_both(start_at: float) -> None:
        begin(start_at)
        sampler.begin(bench.traffic.epoch_ns)

    monkeypatch.setattr(bench.traffic, "begin", begin_both)
    records = bench.run()
    sampler.close()
    samples = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    first = [sample for sample in samples if sample["flow"] == "run/1"]
    assert len(first) >= 5
    assert len([sample for sample in samples if sample["flow"] == "run/2"]) >= 2
    acked = [sample["acked_bytes"] for sample in first]
    assert acked == sorted(acked)
    assert 0 < acked[-1] <= records["run/1"].bytes + 1  # the SYN counts as a byte
    assert all(sample["at_s"] % 0.02 < 0.019 for sample in first)
    assert first[-1]["cwnd"] > 0


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
