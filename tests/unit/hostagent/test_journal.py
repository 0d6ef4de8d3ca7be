# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from sluice.hostagent.journal import Journal, JournalContents, resume
from sluice.hostagent.records import AGENT_DOWN, RESTARTED
from tests.unit.hostagent.flows import flow, record, schedule

RUN = schedule(*(flow(i, start_s=float(i)) for i in range(10)))


def test_read__nothing_yet(tmp_path: Path) -> None:
    assert Journal(tmp_path).read() == JournalContents()


def test_read__returns_the_started_flows(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.replace(100.0, 3, [(2, record(2))])
    journal.append_start(3, record(3))
    earlier = Journal(tmp_path).read()
    assert earlier == JournalContents(100.0, 4, {"run/2": record(2), "run/3": record(3)})


def test_read__torn_at_every_byte(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.replace(100.0, 0)
    journal.append_start(0, record(0))
    journal.append_start(1, record(1))
    path = tmp_path / "journal.jsonl"
    data = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
    # The first line is always complete, because the agent replaces the file atomically.
    for length in range(ends[0], len(data) + 1):
        path.write_bytes(data[:length])
        started = sum(end <= length for end in ends[1:])
        assert Journal(tmp_path).read().next_sequence == started


def test_read__a_damaged_journal_is_kept_aside(tmp_path: Path) -> None:
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
    assert journal.missing == 1
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
    assert journal.missing == 100
    assert journal.replace(100.0, 100)
    assert Journal(tmp_path).read().next_sequence == 100


def test_resume__the_first_process_skips_nothing() -> None:
    assert resume(JournalContents(), RUN, 100.0, set(), now=105.0).next_sequence == 0


def test_resume__another_run_starts_at_its_first_flow_and_records_the_last_runs() -> None:
    earlier = JournalContents(50.0, 7, {"old/1": record(99)})
    result = resume(earlier, RUN, 100.0, set(), now=100.0)
    assert result.next_sequence == 0
    assert result.records == [record(99)]


def test_resume__started_flows_without_a_record_get_one() -> None:
    earlier = JournalContents(100.0, 2, {"run/0": record(0, RESTARTED), "run/1": record(1, RESTARTED)})
    result = resume(earlier, RUN, 100.0, {"run/0"}, now=101.5)
    assert [(r.id, r.reason) for r in result.records] == [("run/1", RESTARTED)]
    assert result.next_sequence == 2


def test_resume__flows_due_while_no_agent_ran_get_a_record_and_later_ones_run() -> None:
    result = resume(JournalContents(100.0, 2, {}), RUN, 100.0, {"run/3"}, now=105.5)
    assert [(r.id, r.reason, r.started_at) for r in result.records] == [
        ("run/2", AGENT_DOWN, 102.0),
        ("run/4", AGENT_DOWN, 104.0),
        ("run/5", AGENT_DOWN, 105.0),
    ]
    assert result.next_sequence == 6


@pytest.mark.parametrize("seed", range(20))
def test_exactly_one_record_through_any_number_of_kills(tmp_path: Path, seed: int) -> None:
    """Models the agent's order of writes, with a kill between any two of them."""
    rng = random.Random(seed)
    recorded: list[str] = []
    now, running = 100.0, 10
    while running:
        budget = rng.randrange(1, 12)  # writes until the kill
        journal = Journal(tmp_path)
        resumption = resume(journal.read(), RUN, 100.0, set(recorded), now)
        for item in resumption.records:
            if budget == 0:
                break
            recorded.append(item.id)
            budget -= 1
        if budget:
            journal.replace(100.0, resumption.next_sequence)
            budget -= 1
        for sequence in range(resumption.next_sequence, 10):
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
    final = resume(Journal(tmp_path).read(), RUN, 100.0, set(recorded), now=200.0)
    recorded += [item.id for item in final.records]
    assert sorted(recorded) == sorted(f.id for f in RUN.flows)
