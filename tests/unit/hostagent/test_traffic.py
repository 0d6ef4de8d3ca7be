# SPDX-License-Identifier: Apache-2.0
"""Sender and receiver in one process, over TCP on the loopback interface, without root."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sluice.hostagent.journal import Journal, JournalContents, Resumption, resume
from sluice.hostagent.loop import Loop
from sluice.hostagent.receiver import Receiver
from sluice.hostagent.records import RESTARTED, RUN_ENDED, STOPPED
from sluice.hostagent.sender import Sender
from sluice.hostagent.spool import Spool
from sluice.hostagent.traffic import Traffic
from sluice.hostagent.wire import HEADER_BYTES, NOTICE_BYTES, Header, Notice
from sluice.policy.wire.records import FINISHED, UNFINISHED, FlowRecord, Schedule
from tests.unit.hostagent.flows import flow, schedule
from tests.unit.hostagent.test_spool import drain

TIMEOUT_S = 30.0


class Kept(Spool):
    """A spool that also keeps the records in memory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.records: list[FlowRecord] = []

    def append(self, record: FlowRecord) -> None:
        self.records.append(record)
        super().append(record)


class Bench:
    """A loop with a sender and, unless the test gives a port, a receiver."""

    def __init__(self, folder: Path, run: Schedule, port: int | None = None, grace_s: float = 20.0) -> None:
        self.loop = Loop()
        self.own_receiver = None if port else Receiver(self.loop, None, port=0)
        self.sender = Sender(self.loop, run.persistent, port or self.receiver.port)
        self.spool = Kept(folder / "spool")
        self.traffic = Traffic(self.loop, run, self.sender, self.spool, Journal(folder), grace_s)

    @property
    def receiver(self) -> Receiver:
        """The receiver of a bench without a given port."""
        assert self.own_receiver is not None
        return self.own_receiver

    def run(
        self, until: Callable[[], object] | None = None, start_at: float | None = None
    ) -> dict[str, FlowRecord]:
        """Serve until all flows are recorded or `until` is true. Returns the records by id, one for each."""
        self.traffic.begin(time.time() if start_at is None else start_at)
        ended = until or (lambda: self.traffic.done)
        give_up = time.monotonic() + TIMEOUT_S

        def poll() -> None:
            assert time.monotonic() < give_up, "the flows did not end"
            if ended():
                self.loop.stop()
            else:
                self.loop.call_at(time.monotonic_ns() + 10**6, poll)

        poll()
        self.loop.run()
        return self.by_id()

    def by_id(self) -> dict[str, FlowRecord]:
        ids = [record.id for record in self.spool.records]
        assert len(ids) == len(set(ids))
        return {record.id: record for record in self.spool.records}


@contextmanager
def peer(behaviour: Callable[[socket.socket], object]) -> Iterator[int]:
    """Serve a port with behaviour(connection) for each connection. Yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                behaviour(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(60)


@pytest.mark.parametrize("persistent", [False, True])
def test_every_flow_finishes_with_its_size(tmp_path: Path, persistent: bool) -> None:
    sizes = [HEADER_BYTES, HEADER_BYTES + 1, 1448, 10_000, 3_000_000]
    flows = [flow(i, 0.01 * (i // 3), sizes[i % 5], deadline_us=10e6) for i in range(30)]
    bench = Bench(tmp_path, schedule(*flows, persistent=persistent))
    records = bench.run()
    assert len(records) == 30
    for record in records.values():
        assert (record.status, record.met) == (FINISHED, True), record
        assert record.fct_us is not None
        assert 0 < record.fct_us < 10e6
        assert record.clock_error_us is None, "both ends are on one machine"
        assert record.congestion_control != "default"  # the kernel's name
    assert bench.receiver.statistics.flows == 30
    assert bench.receiver.statistics.bytes == sum(f.bytes for f in flows)
    stamped = bench.receiver.statistics.kernel_stamped
    assert 15 <= stamped <= 30, "a busy machine may reorder packets, and such a flow has the time of its read"
    assert bench.traffic.statistics.finished == bench.traffic.statistics.started == 30


@pytest.mark.parametrize("ahead_s", [-5, 5])
def test_two_machines__the_fct_is_true_within_the_error_that_the_record_names(
    tmp_path: Path, ahead_s: int
) -> None:
    """The receiver's clock differs by seconds. Here both have one clock, so the true FCT is known."""
    true_us = {}

    def answer(connection: socket.socket) -> None:
        header = Header.unpack(connection.recv(HEADER_BYTES, socket.MSG_WAITALL))
        time.sleep(0.002)
        arrived_ns = time.time_ns()
        true_us[header.sequence] = (arrived_ns - header.started_ns) / 1000
        ahead_ns = ahead_s * 10**9
        notice = Notice(header.sequence, arrived_ns + ahead_ns, time.time_ns() + ahead_ns, 7, False)
        connection.sendall(notice.pack())

    with peer(answer) as port:
        flows = [flow(i, 0.01 * i, HEADER_BYTES) for i in range(5)]
        records = Bench(tmp_path, schedule(*flows), port).run()
    for sequence, record in enumerate(sorted(records.values(), key=lambda one: one.started_at)):
        assert record.status == FINISHED
        assert record.fct_us is not None
        assert record.clock_error_us is not None
        assert abs(record.fct_us - true_us[sequence]) <= record.clock_error_us + 1
        assert record.clock_error_us < 5e6 / 2, "the clocks of both are 5 s apart"


def test_connections__new_ones_are_closed_after_their_flow(tmp_path: Path) -> None:
    bench = Bench(tmp_path, schedule(*(flow(i, 0.03 * (i // 2)) for i in range(10))))
    bench.run(until=lambda: bench.traffic.done and not bench.receiver.connections)
    assert not any(bench.sender._idle.values())


def test_connections__persistent_ones_are_shared_by_flows_that_do_not_overlap(tmp_path: Path) -> None:
    bench = Bench(tmp_path, schedule(*(flow(i, 0.05 * (i // 2)) for i in range(10)), persistent=True))
    bench.run()
    assert 1 <= bench.receiver.connections < 10
    assert len(bench.sender._idle["127.0.0.1"]) == bench.receiver.connections


def test_a_flow_starts_at_its_time(tmp_path: Path) -> None:
    start_at = time.time() + 0.05
    bench = Bench(tmp_path, schedule(flow(1, 0.05), flow(2, 0.1)))
    records = bench.run(start_at=start_at)
    for number, start_s in ((1, 0.05), (2, 0.1)):
        lag_s = records[f"run/{number}"].started_at - start_at - start_s
        assert lag_s >= 0, "never early"
    assert bench.traffic.statistics.start_lag_max_us >= 0


def test_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    records = Bench(tmp_path, schedule(flow(1)), port).run()
    assert records["run/1"].status == UNFINISHED
    assert records["run/1"].reason == "connection refused"


def test_reset_by_the_receiver(tmp_path: Path) -> None:
    def reset(connection: socket.socket) -> None:
        connection.recv(1)
        connection.close()  # closing with unread bytes sends RST

    with peer(reset) as port:
        records = Bench(tmp_path, schedule(flow(1, size_bytes=2_000_000)), port).run()
    assert records["run/1"].reason == "connection reset by the receiver"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(b"", "connection reset by the receiver"), (b"x" * NOTICE_BYTES, "no notice: starts with")],
)
def test_an_answer_that_is_no_notice(tmp_path: Path, answer: Any, reason: str) -> None:
    def talk(connection: socket.socket) -> None:
        while connection.recv(100_000):
            pass
        connection.sendall(answer)
        connection.close()

    with peer(talk) as port:
        records = Bench(tmp_path, schedule(flow(1)), port).run()
    assert records["run/1"].status == UNFINISHED
    assert records["run/1"].reason.startswith(reason)


def test_flows_are_unfinished_after_the_grace_time(tmp_path: Path) -> None:
    held: list[socket.socket] = []
    with peer(held.append) as port:
        bench = Bench(tmp_path, schedule(flow(1), flow(2, 0.01)), port, grace_s=0.05)
        records = bench.run()
    assert {record.reason for record in records.values()} == {RUN_ENDED}
    assert len(records) == 2
    assert bench.sender.active == {}


def test_stop__active_flows_are_recorded_and_no_other_starts(tmp_path: Path) -> None:
    held: list[socket.socket] = []
    with peer(held.append) as port:
        bench = Bench(tmp_path, schedule(flow(1), flow(2, 60.0)), port)
        bench.run(until=lambda: bench.traffic.active)
        bench.traffic.stop(STOPPED)
    assert [(r.id, r.reason) for r in bench.by_id().values()] == [("run/1", STOPPED)]


def test_killed_and_restarted__every_flow_has_one_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process is killed with two active flows, and no process runs when the third flow is due."""
    start_at = time.time()
    run = schedule(flow(1), flow(2, 0.05), flow(3, 60.0), flow(4, 60.0))
    held: list[socket.socket] = []
    with peer(held.append) as port:
        first = Bench(tmp_path, run, port)
        first.run(until=lambda: first.traffic.active == 2, start_at=start_at)

    def resume_after_400_ms(
        earlier: JournalContents, run: Schedule, start_at: float, recorded: Set[str], now: float
    ) -> Resumption:
        return resume(earlier, run, start_at, recorded, start_at + 0.4)

    monkeypatch.setattr("sluice.hostagent.traffic.resume", resume_after_400_ms)
    second = Bench(tmp_path, schedule(flow(1), flow(2, 0.05), flow(3, 0.3), flow(4, 0.5)))
    records = second.run(start_at=start_at)
    assert records["run/1"].reason == RESTARTED
    assert records["run/2"].reason == RESTARTED
    assert records["run/3"].reason == "agent was down at the start time"
    assert records["run/4"].status == FINISHED
    assert sorted(drain(second.spool)) == [f"run/{i}" for i in range(1, 5)]


def test_checkpoints__journal_and_spool_stay_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.hostagent.journal.CHECKPOINT_LINES", 20)
    flows = [flow(i, 0.001 * i) for i in range(200)]
    bench = Bench(tmp_path, schedule(*flows))
    # On a slow machine, flows that are active at the last checkpoint stay in the journal.
    kept = [0]
    checkpoint = bench.traffic._checkpoint

    def counted(before: int | None = None) -> None:
        kept[0] = bench.traffic.active
        checkpoint(before)

    monkeypatch.setattr(bench.traffic, "_checkpoint", counted)
    records = bench.run()
    assert len(records) == 200
    assert len((tmp_path / "journal.jsonl").read_text().splitlines()) <= 21 + kept[0]
    assert sorted(drain(bench.spool)) == sorted(records)
    assert len(bench.spool.ids()) <= 20 + kept[0]
    again = Bench(tmp_path, schedule(*flows))
    again.traffic.begin(bench.traffic._start_at)
    assert again.spool.records == []


def test_receiver__connections_of_other_programs_are_closed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, schedule(flow(1, 0.1)))
    strangers = [socket.create_connection(("127.0.0.1", bench.receiver.port)) for _ in range(3)]
    strangers[0].sendall(b"GET / HTTP/1.1\r\nHost: other.example.com\r\n\r\n")
    strangers[1].close()
    records = bench.run()
    assert records["run/1"].status == FINISHED
    strangers[0].settimeout(300)
    with pytest.raises(ConnectionResetError):
        strangers[0].recv(1)
