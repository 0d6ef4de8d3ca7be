# SPDX-License-Identifier: Apache-2.0
"""The schedule of a sender, its records, its journal, and what it writes to the wire."""

import errno
import json
import os
import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.hostagent.journal import Journal, JournalContents, resume
from sluice.hostagent.link import burst_of, tag_burst_bytes
from sluice.hostagent.loop import Loop
from sluice.hostagent.records import AGENT_DOWN, CLOCK_STEPPED, RESTARTED, finished, to_json, unfinished
from sluice.hostagent.sender import Sender
from sluice.hostagent.tcp import TcpInfo, running_flow
from sluice.hostagent.traffic import load_schedule, write_schedule
from sluice.hostagent.wire import HEADER_BYTES, NOTICE_BYTES, BadMessage, Header, Notice
from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import write
from sluice.policy.tags import BURST_BYTES
from sluice.policy.wire.agents import RunningFlow
from sluice.policy.wire.records import FINISHED, UNFINISHED, FlowRecord, Schedule
from tests.kit.flows import flow, record, schedule


def document(**changes: Any) -> dict[str, Any]:
    flows = [asdict(flow(2, 0.5)), asdict(flow(1, 0.2)), {**asdict(flow(3)), "src": "h9"}]
    return {"scheme": "pias", "addresses": {"h2": "10.0.0.2"}, "flows": flows} | changes


def load(folder: Path, **changes: Any) -> Schedule:
    path = folder / "schedule.json"
    path.write_text(json.dumps(document(**changes)))
    return load_schedule(path, "h1")


def test_load__what_a_runner_writes(tmp_path: Path) -> None:
    schedule = Schedule(
        "pias",
        "persistent",
        100,
        50,
        {"h2": "10.0.0.2"},
        {"h2": "fd00::2"},
        (
            flow(1),
            flow(2, 0.5, deadline_us=3e3),
            replace(flow(3, 0.6), until_s=7.5, importance=2.0, label="b"),
        ),
    )
    path = tmp_path / "schedule.json.gz"
    write_schedule(path, schedule)
    assert load_schedule(path, "h1") == schedule
    path.write_text(json.dumps(write(schedule)))
    assert load_schedule(path, "h1") == schedule
    assert schedule.names == {"10.0.0.2": "h2", "fd00::2": "h2"}
    assert [flow.endless for flow in schedule.flows] == [False, False, True]
    assert schedule.last_s == 7.5


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"addresses": {}}, "flows[0].dst"),
        ({"flows": [{"id": "x"}]}, "flows[0].start_s"),
        ({"flows": [{**asdict(flow(1)), "quench": "perhaps"}]}, "flows[0].quench"),
        ({"flows": [{**asdict(flow(1)), "bytes": 39}]}, "flows[0].bytes"),
    ],
)
def test_load__bad_documents_name_the_field(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        load(tmp_path, **changes)
    assert caught.value.field == field


def test_load__file_missing_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    with pytest.raises(FieldError, match="not a readable schedule"):
        load_schedule(path, "h1")
    path.write_text(json.dumps(document())[:-5])
    with pytest.raises(FieldError, match="not a readable schedule"):
        load_schedule(path, "h1")


@pytest.mark.parametrize(
    ("mtu", "size", "segments", "burst"),
    [
        (1500, 65_536, 65_535, BURST_BYTES),
        (1500, 65_536, 1, 1460),  # a host of the testbed
        (1500, 65_536, 4, 4 * 1460),
        (1500, 0, 0, BURST_BYTES),
        (9000, 4_000, 65_535, 8960),
        (1500, 524_280, 65_535, BURST_BYTES),  # BIG TCP
        (65_536, 65_536, 1, BURST_BYTES),  # lo
    ],
)
def test_burst_of(mtu: int, size: int, segments: int, burst: int) -> None:
    assert burst_of(mtu, size, segments) == burst


def test_tag_burst_bytes__an_interface_that_cannot_be_read_may_send_the_most() -> None:
    assert tag_burst_bytes("no-such-if") == BURST_BYTES
    assert 1_000 <= tag_burst_bytes("lo") <= BURST_BYTES


STATE = RunningFlow("run/1", "h2", "", 10, 5, 1.0, None, 0, "cubic", None)


class Connection:
    """A connection whose flow is in this state, or whose socket is closed."""

    def __init__(self, state: RunningFlow | OSError | None) -> None:
        self.state = state

    def progress(self) -> RunningFlow | None:
        if isinstance(self.state, OSError):
            raise self.state
        return self.state


def test_running__leaves_out_those_that_end_meanwhile() -> None:
    sender: Any = Sender(Loop(), persistent=False)
    states = (None, OSError("closed"), STATE)
    sender.active = {number: Connection(state) for number, state in enumerate(states)}
    assert sender.running() == (STATE,)


def test_running_flow__counts_from_the_flows_start_on_a_persistent_connection() -> None:
    before, now = TcpInfo(3, 0, 0, acked_bytes=1_000), TcpInfo(5, 0, 0, acked_bytes=41_000, srtt_us=250)
    scheduled = replace(flow(0, size_bytes=100_000, deadline_us=5e3), label="shuffle")
    found = running_flow(scheduled, 2_000_000_000, now, before, "cubic")
    assert (found.acked_bytes, found.retransmissions, found.srtt_us) == (40_000, 2, 250.0)
    assert found.deadline_at == pytest.approx(2.005)
    assert (found.bytes, found.label) == (100_000, "shuffle")


def started(deadline_us: float | None = None) -> FlowRecord:
    scheduled = flow(1, deadline_us=deadline_us)
    return unfinished(scheduled, "r" * 300, started_at=1.0, scheme="pias", congestion_control="default")


def complete(record: FlowRecord, arrived_ns: int) -> FlowRecord:
    return finished(
        record,
        started_ns=2_000_000_000,
        arrived_ns=arrived_ns,
        retransmissions=3,
        congestion_control="sluice_dctcp",
    )


@pytest.mark.parametrize(("deadline_us", "met"), [(None, None), (5000.0, False)])
def test_unfinished__has_missed_its_deadline_if_it_has_one(
    deadline_us: float | None, met: bool | None
) -> None:
    record = started(deadline_us)
    assert (record.status, record.met, len(record.reason)) == (UNFINISHED, met, 200)
    assert FlowRecord.from_document(json.loads(to_json(record))) == record


@pytest.mark.parametrize(("deadline_us", "met"), [(None, None), (500.0, True), (499.9, False)])
def test_finished(deadline_us: float | None, met: bool | None) -> None:
    record = complete(started(deadline_us), 2_000_500_000)
    assert (record.status, record.fct_us, record.met, record.reason) == (FINISHED, 500.0, met, "")
    assert (record.started_at, record.retransmissions) == (2.0, 3)
    assert record.congestion_control == "sluice_dctcp"
    assert FlowRecord.from_document(json.loads(to_json(record))) == record


def test_to_json__leaves_out_what_an_earlier_version_may_not_know() -> None:
    document = json.loads(to_json(complete(started(), 2_000_500_000)))
    assert None not in document.values()
    assert "clock_error_us" not in document


def test_finished__an_arrival_before_the_start_is_no_measurement() -> None:
    record = complete(started(500.0), 1_999_999_999)
    assert (record.status, record.reason, record.met) == (UNFINISHED, CLOCK_STEPPED, False)
    FlowRecord.from_document(json.loads(to_json(record)))


RUN = schedule(*(flow(i, start_s=float(i)) for i in range(10)))


def test_read__returns_the_started_flows(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.replace(100.0, 3, [(2, record(2))])
    journal.append_start(3, record(3))
    earlier = Journal(tmp_path).read()
    assert earlier == JournalContents(100.0, 4, {"run/2": record(2), "run/3": record(3)})


def test_read__torn_anywhere(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.replace(100.0, 0)
    journal.append_start(0, record(0))
    journal.append_start(1, record(1))
    path = tmp_path / "journal.jsonl"
    data = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    # The first line is always complete, because the agent replaces the file atomically.
    for length in sorted({*range(ends[0], len(data), 17), *ends, *(end - 1 for end in ends[1:])}):
        path.write_bytes(data[:length])
        started = sum(end <= length for end in ends[1:])
        assert Journal(tmp_path).read().next_sequence == started


def test_read__a_damaged_journal_is_kept_aside(tmp_path: Path) -> None:
    assert Journal(tmp_path).read() == JournalContents(), "there is none yet"
    (tmp_path / "journal.jsonl").write_text("nonsense\n")
    assert Journal(tmp_path).read() == JournalContents()
    assert (tmp_path / "journal.damaged").read_text() == "nonsense\n"


def test_a_full_disk__flows_start_without_a_line_and_the_earlier_lines_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    assert journal.replace(100.0, 0)
    journal.append_start(0, record(0))
    with monkeypatch.context() as full:
        write = os.write
        full.setattr("os.write", lambda file, data: write(file, data[:7]))
        journal.append_start(1, record(1))
    journal.append_start(2, record(2))
    assert list(Journal(tmp_path).read().started) == ["run/0", "run/2"]


def test_a_full_disk__the_journal_is_replaced_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)

    def no_room(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("pathlib.Path.write_bytes", no_room)
        assert not journal.replace(100.0, 0)
    for number in range(100):
        assert not journal.is_long
        journal.append_start(number, record(number))
    assert journal.is_long
    assert journal.replace(100.0, 100)
    assert Journal(tmp_path).read().next_sequence == 100


def test_resume__another_run_starts_at_its_first_flow_and_records_the_last_runs() -> None:
    earlier = JournalContents(50.0, 7, {"old/1": record(99)})
    assert resume(earlier, RUN, 100.0, set(), now=100.0) == ([record(99)], 0)


def test_resume__flows_due_while_no_agent_ran_get_a_record_and_later_ones_run() -> None:
    owed, first = resume(JournalContents(100.0, 2, {}), RUN, 100.0, {"run/3"}, now=105.5)
    assert [(r.id, r.reason, r.started_at) for r in owed] == [
        ("run/2", AGENT_DOWN, 102.0),
        ("run/4", AGENT_DOWN, 104.0),
        ("run/5", AGENT_DOWN, 105.0),
    ]
    assert first == 6


@pytest.mark.parametrize("seed", range(4))
def test_exactly_one_record_through_any_number_of_kills(tmp_path: Path, seed: int) -> None:
    """Models the agent's order of writes, with a kill between any two of them."""
    rng = random.Random(seed)
    recorded: list[str] = []
    now, running = 100.0, 10
    while running:
        budget = rng.randrange(1, 12)  # writes until the kill
        journal = Journal(tmp_path)
        owed, first = resume(journal.read(), RUN, 100.0, set(recorded), now)
        for item in owed:
            if budget == 0:
                break
            recorded.append(item.id)
            budget -= 1
        if budget:
            journal.replace(100.0, first)
            budget -= 1
        for sequence in range(first, 10):
            if budget == 0:
                break
            journal.append_start(sequence, record(sequence, RESTARTED))
            now, budget = max(now, 100.0 + sequence), budget - 1
            if budget and rng.random() < 0.7:
                recorded.append(f"run/{sequence}")
                budget -= 1
        journal.close()
        now += rng.random() * 2
        running = budget == 0
    owed, _ = resume(Journal(tmp_path).read(), RUN, 100.0, set(recorded), now=200.0)
    recorded += [item.id for item in owed]
    assert sorted(recorded) == sorted(f.id for f in RUN.flows)


U64 = st.integers(0, 2**64 - 1)


HEADERS = st.builds(Header, U64, st.integers(HEADER_BYTES, 2**64 - 1), U64, st.booleans())
NOTICES = st.builds(Notice, U64, U64, U64, U64)


@given(HEADERS | NOTICES)
def test_a_message_comes_back(message: Header | Notice) -> None:
    assert len(message.pack()) == (HEADER_BYTES if isinstance(message, Header) else NOTICE_BYTES)
    assert type(message).unpack(message.pack()) == message


@given(st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES))
def test_unpack__garbage_is_rejected(data: bytes) -> None:
    with pytest.raises(BadMessage):
        Header.unpack(data)


def test_endless__comes_back_and_needs_a_fin() -> None:
    assert Header.unpack(Header(1, 64, 0, True, True).pack()).endless
    with pytest.raises(BadMessage, match="never ends"):
        Header.unpack(Header(1, 64, 0, False, True).pack())
