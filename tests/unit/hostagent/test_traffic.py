# SPDX-License-Identifier: Apache-2.0
"""Sender and receiver in one process, over TCP on the loopback interface, without root."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluice.hostagent import tcp
from sluice.hostagent.journal import Journal, resume
from sluice.hostagent.loop import Loop
from sluice.hostagent.receiver import IncomingConnection, Receiver
from sluice.hostagent.records import QUENCHED, RESTARTED, RUN_ENDED, STOPPED
from sluice.hostagent.sender import Sender
from sluice.hostagent.sockets import FlowState, NoAgent, Phase, options
from sluice.hostagent.spool import Spool
from sluice.hostagent.traffic import SAMPLES, Sampler, Traffic
from sluice.hostagent.wire import HEADER_BYTES, NOTICE_BYTES, Header, Notice
from sluice.policy.figures.metrics import summarise
from sluice.policy.units import MSS_BYTES
from sluice.policy.wire import records as wire
from sluice.policy.wire.records import FINISHED, UNFINISHED, FlowRecord, Schedule, ScheduledFlow
from tests.kit.flows import drain, flow, schedule

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
    """A loop with a sender and a receiver; flows go to another one if the test gives its port."""

    def __init__(
        self,
        folder: Path,
        run: Schedule,
        port: int | None = None,
        grace_s: float = 20.0,
        max_window: int | None = None,
    ) -> None:
        self.loop = Loop()
        self.receiver = Receiver(self.loop, port=0, max_window=max_window)
        self.sender = Sender(self.loop, run.persistent, port or self.receiver.port)
        self.spool = Kept(folder / "spool")
        self.traffic = Traffic(self.loop, run, self.sender, self.spool, Journal(folder), grace_s)

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
        thread.join(300)


@pytest.mark.parametrize("persistent", [False, True])
def test_every_flow_finishes_with_its_size(tmp_path: Path, persistent: bool) -> None:
    sizes = [HEADER_BYTES, HEADER_BYTES + 1, 1448, 10_000, 3_000_000]
    flows = [flow(i, 0.01 * (i // 3), sizes[i % 5], deadline_us=10e6) for i in range(30)]
    bench, start_at = Bench(tmp_path, schedule(*flows, persistent=persistent)), time.time()
    records = bench.run(start_at=start_at)
    assert len(records) == 30
    for scheduled in flows:
        record = records[scheduled.id]
        assert (record.status, record.met) == (FINISHED, True), record
        assert record.started_at >= start_at + scheduled.start_s, "never early"
        assert record.fct_us is not None
        assert 0 < record.fct_us < 10e6
        assert record.clock_error_us is None, "both ends are on one machine"
        assert record.congestion_control != "default"  # the kernel's name
    assert bench.receiver.statistics.flows == 30
    assert bench.receiver.statistics.bytes == sum(f.bytes for f in flows)
    stamped = bench.receiver.statistics.kernel_stamped
    assert 15 <= stamped <= 30, "a busy machine may reorder packets, and such a flow has the time of its read"
    assert bench.traffic.statistics.finished == bench.traffic.statistics.started == 30


def test_two_machines__the_fct_is_true_within_the_error_that_the_record_names(tmp_path: Path) -> None:
    """The receiver's clock differs by seconds. Here both have one clock, so the true FCT is known."""
    ahead_s, true_us = -5, {}

    def answer(connection: socket.socket) -> None:
        header = Header.unpack(connection.recv(HEADER_BYTES, socket.MSG_WAITALL))
        time.sleep(0.002)
        arrived_ns = time.time_ns()
        true_us[header.sequence] = (arrived_ns - header.started_ns) / 1000
        ahead_ns = ahead_s * 10**9
        notice = Notice(header.sequence, arrived_ns + ahead_ns, time.time_ns() + ahead_ns, 7)
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


def test_connections__persistent_ones_are_shared_by_flows_that_do_not_overlap(tmp_path: Path) -> None:
    bench = Bench(tmp_path, schedule(*(flow(i, 0.05 * (i // 2)) for i in range(10)), persistent=True))
    bench.run()
    assert 1 <= len(bench.receiver.open) < 10
    assert len(bench.sender.idle["127.0.0.1"]) == len(bench.receiver.open)


@contextmanager
def silent() -> Iterator[int]:
    """Serve a port whose connections stay open without an answer. Yields the port."""
    held: list[socket.socket] = []
    with peer(held.append) as port:
        yield port


def reset(connection: socket.socket) -> None:
    connection.recv(1)
    connection.close()  # closing with unread bytes sends RST


def answer(data: bytes, connection: socket.socket) -> None:
    while connection.recv(100_000):
        pass
    connection.sendall(data)
    connection.close()


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (reset, "connection reset by the receiver"),
        (partial(answer, b""), "connection reset by the receiver"),
        (partial(answer, b"x" * NOTICE_BYTES), "no notice: starts with"),
    ],
)
def test_a_receiver_without_a_notice(
    tmp_path: Path, behaviour: Callable[[socket.socket], None], reason: str
) -> None:
    with peer(behaviour) as port:
        record = Bench(tmp_path, schedule(flow(1, size_bytes=2_000_000)), port).run()["run/1"]
    assert record.status == UNFINISHED
    assert record.reason.startswith(reason)


def test_flows_are_unfinished_after_the_grace_time(tmp_path: Path) -> None:
    with silent() as port:
        bench = Bench(tmp_path, schedule(flow(1), flow(2, 0.01)), port, grace_s=0.05)
        records = bench.run()
    assert {record.reason for record in records.values()} == {RUN_ENDED}
    assert len(records) == 2
    assert bench.sender.active == {}


def test_stop__active_flows_are_recorded_and_no_other_starts(tmp_path: Path) -> None:
    with silent() as port:
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
    with silent() as port:
        first = Bench(tmp_path, run, port)
        first.run(until=lambda: first.traffic.active == 2, start_at=start_at)

    monkeypatch.setattr(
        "sluice.hostagent.traffic.resume",
        lambda earlier, run, at, ids, _: resume(earlier, run, at, ids, at + 0.4),
    )
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


# Endless flows, bounded windows and samples, over the loopback interface without root.


def endless(number: int, start_s: float = 0.0, until_s: float = 0.3) -> ScheduledFlow:
    return replace(flow(number, start_s, 64), until_s=until_s)


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
def test_an_endless_flow_sends_until_its_time_and_all_bytes_arrive(tmp_path: Path, persistent: bool) -> None:
    bench = Bench(tmp_path, schedule(endless(1), flow(2, 0.1), persistent=persistent))
    begin = time.time()
    records = bench.run(start_at=begin)
    record = records["run/1"]
    assert (record.status, record.source, record.ideal_us) == (FINISHED, wire.BACKGROUND, None)
    assert record.fct_us is not None
    ended_s = record.started_at + record.fct_us / 1e6 - begin
    assert ended_s > 0.2, "it may begin late on a busy machine, but not end early"
    assert record.bytes > 1_000_000  # the loopback interface carries gigabytes a second
    assert bench.receiver.statistics.bytes == record.bytes + records["run/2"].bytes
    assert bench.receiver.statistics.flows == 2
    assert records["run/2"].source == wire.SCHEDULED
    assert summarise(records.values())["fct_us"]["all"]["n"] == 1  # an endless flow is no part of the result


@pytest.mark.slow
def test_an_endless_flow_whose_receiver_is_stuck_is_unfinished(tmp_path: Path) -> None:
    with silent() as port:
        bench = Bench(tmp_path, schedule(endless(1, until_s=0.05)), port, grace_s=0.05)
        record = bench.run()["run/1"]
    assert (record.status, record.reason) == (UNFINISHED, RUN_ENDED)
    assert record.bytes > 64  # the acknowledged bytes
    assert summarise([record])["unfinished"] == 0


@pytest.mark.slow
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


def test_a_receiver_wakes_for_several_packets_and_for_the_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a connection that stays open, no FIN says that the flow has ended."""
    bench, piece, count = Bench(tmp_path, schedule()), 1000, 100
    wakes: list[IncomingConnection] = []
    serve = IncomingConnection.serve

    def counted(self: IncomingConnection) -> None:
        wakes.append(self)
        serve(self)

    monkeypatch.setattr(IncomingConnection, "serve", counted)
    head = Header(7, piece * count, time.time_ns(), ends_with_fin=False).pack()
    pieces = [head.ljust(piece, b"x"), *[bytes(piece)] * (count - 1)]
    with socket.create_connection(("127.0.0.1", bench.receiver.port)) as sender:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sender.setblocking(False)

        def answered() -> bool:
            if pieces:
                sender.send(pieces.pop(0))
                return False
            with suppress(BlockingIOError):
                return Notice.unpack(sender.recv(NOTICE_BYTES)).sequence == 7
            return False

        bench.run(until=answered)
    assert len(wakes) <= 2 + piece * count / (8 * MSS_BYTES) + 1, "it is accepted, and then served"
    assert bench.receiver.statistics.bytes == piece * count


@pytest.mark.slow
def test_max_window__the_sender_has_no_more_in_flight(tmp_path: Path) -> None:
    """The kernel forgets the bound at the first packets, and the receiver sets it again."""
    max_window = 10
    bench = Bench(tmp_path, schedule(endless(1, until_s=0.2)), max_window=max_window)
    windows: list[int] = []

    def sampled() -> bool:
        for connection in bench.receiver.open:
            windows.append(connection._sock.getsockopt(6, 10))  # IPPROTO_TCP, TCP_WINDOW_CLAMP
        return bench.traffic.done

    record = bench.run(until=sampled)["run/1"]
    assert record.status == FINISHED
    assert set(windows[len(windows) // 2 :]) == {max_window * MSS_BYTES}


# The sender's declarations to the kernel, and its reaction to a killed flow.
#
# The hook itself has tests in the kernel tier.


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
        with pytest.raises(ConnectionResetError):
            answer(b"", held[0])


@pytest.mark.parametrize(("windows", "undeclared"), [(0, 1), (3, 0)])
def test_a_long_flow_without_a_window_counts_as_undeclared(
    tmp_path: Path, kernel: list[Fields], monkeypatch: pytest.MonkeyPatch, windows: int, undeclared: int
) -> None:
    monkeypatch.setattr(options, "state", lambda sock: replace(state(), windows=windows))
    monkeypatch.setattr(tcp, "congestion_control", lambda sock: "sluice_datcp")
    bench = Bench(tmp_path, schedule(replace(URGENT, bytes=2_000_000), replace(URGENT, id="run/2")))
    bench.run()
    assert bench.sender.undeclared == undeclared  # the short flow has too few windows for a verdict
