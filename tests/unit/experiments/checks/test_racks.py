# SPDX-License-Identifier: Apache-2.0
"""Gains of containers beside those of hosts, from given completion times."""

import json
from pathlib import Path

import pytest

from experiments.checks.racks.run import (
    CONTAINERS,
    HOSTS,
    POLICIES,
    RATE_BPS,
    Block,
    Outcome,
    all_are_new,
    arrived,
    claims,
    table,
)


def blocks(*means_ms: float, tagged: float = 1.0) -> list[Block]:
    """Two rounds of plain, pias and sluice. In the second round all takes twice as long, so the gains are the same."""
    return [
        Block(scheme, [mean * times], 0.0 if scheme == "plain" else tagged, 1.0, 0.5, [])
        for times in (1, 2)
        for scheme, mean in zip(POLICIES, means_ms, strict=True)
    ]


def outcome(*means_ms: float, tagged: float = 1.0) -> Outcome:
    return Outcome({HOSTS: blocks(400, 40, 50), CONTAINERS: blocks(*means_ms, tagged=tagged)}, [])


@pytest.mark.parametrize(
    ("means_ms", "held"),
    [((440, 44, 55), [True, True]), ((400, 44, 60), [True, False])],
    ids=["slower, by the same factor", "a smaller gain"],
)
def test_claims__compare_gains_and_not_times(means_ms: tuple[float, ...], held: list[bool]) -> None:
    compared = [claim for claim in claims(outcome(*means_ms)) if claim.what.startswith(CONTAINERS)]
    assert [claim.holds for claim in compared] == held


@pytest.mark.parametrize("tagged", [0.98, 0.99])
def test_claims__packets_without_a_tag_count_under_schemes_only(tagged: float) -> None:
    (claim,) = [claim for claim in claims(outcome(400, 40, 50, tagged=tagged)) if "tag" in claim.what]
    assert claim.holds == (tagged >= 0.99)


def test_table__names_the_difference_of_gains_for_guests_only() -> None:
    rows = [line.split(" | ") for line in table(outcome(400, 50, 50)).splitlines()]
    assert [row[5] for row in rows[2:]] == ["–"] * 4 + [
        "−20.0 % (−20.0 % … −20.0 %)",
        "+0.0 % (+0.0 % … +0.0 %)",
    ]


def test_arrived__since_a_time_by_differences_of_counts(tmp_path: Path) -> None:
    sink = tmp_path / "sink.jsonl"
    counts = [(10.0, 5, 0, 100), (11.0, 100, 0, 1000), (13.0, 300, 150, 1000 + RATE_BPS // 4)]
    lines = [json.dumps(dict(zip(("at", "packets", "tagged", "bytes"), one, strict=True))) for one in counts]
    sink.write_text("\n".join([*lines, '{"at": 13.5, "pack']))
    assert arrived(sink, since_at=11.0) == (150 / 200, 1.0)


def test_all_are_new__each_sender_has_begun_a_connection_since_then(tmp_path: Path) -> None:
    sink = tmp_path / "sink.jsonl"
    begun = [{"at": at, "sender": sender} for at, sender in ((1, 11), (2, 12), (5, 11), (8, 12))]
    sink.write_text("".join(json.dumps(line) + "\n" for line in begun))
    assert [all_are_new(sink, since_at) for since_at in (0, 2, 4, 6, 9)] == [True, True, True, False, False]
