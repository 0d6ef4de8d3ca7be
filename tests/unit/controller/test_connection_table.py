# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.controller.connection_table import PROBE_S, Admitted, ConnectionTable, Lost, Refused


class Switch:
    def __init__(self, heard_at_s: float = 0.0) -> None:
        self.heard_at_s, self.probes = heard_at_s, 0

    def probe(self) -> None:
        self.probes += 1


@pytest.fixture
def table() -> ConnectionTable[Switch]:
    return ConnectionTable()


def contested(table: ConnectionTable[Switch]) -> tuple[Switch, Switch]:
    """Return an established connection and a new one that claims its datapath id at 10 s."""
    old, new = Switch(heard_at_s=9.9), Switch()
    assert table.connected(1, old, 5.0) == [Admitted(old)]
    assert table.connected(1, new, 10.0) == []
    return old, new


def test_the_established_one_is_probed_and_stays_if_it_answers(table: ConnectionTable[Switch]) -> None:
    old, new = contested(table)
    assert old.probes == 1
    assert table.settle(10.1) == []
    old.heard_at_s = 10.2
    assert table.settle(10.3) == [Refused(old, new)]
    assert table.settle(100.0) == []
    assert table.items() == [(1, old)]


def test_the_newcomer_replaces_one_that_does_not_answer(table: ConnectionTable[Switch]) -> None:
    old, new = contested(table)
    assert table.settle(10.0 + PROBE_S) == []
    assert table.settle(10.01 + PROBE_S) == [Lost(old, silent=True), Admitted(new)]
    assert table.items() == [(1, new)]
    assert table.ended(1, old) == [], "its end is no news"


def test_a_third_one_is_refused_while_the_contest_is_open(table: ConnectionTable[Switch]) -> None:
    old, new = contested(table)
    third = Switch()
    assert table.connected(1, third, 10.1) == [Refused(old, third)]
    assert table.ended(1, third) == []
    assert table.settle(20.0) == [Lost(old, silent=True), Admitted(new)]


def test_if_the_newcomer_ends_the_established_one_stays(table: ConnectionTable[Switch]) -> None:
    old, new = contested(table)
    assert table.ended(1, new) == []
    assert table.settle(100.0) == []
    assert table.items() == [(1, old)]


def test_if_the_established_one_ends_the_newcomer_is_admitted_at_once(table: ConnectionTable[Switch]) -> None:
    old, new = contested(table)
    assert table.ended(1, old) == [Lost(old, silent=False), Admitted(new)]
    assert table.settle(100.0) == []
    assert table.ended(1, new) == [Lost(new, silent=False)]
    assert table.items() == []
