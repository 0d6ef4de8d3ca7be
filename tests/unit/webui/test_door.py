# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from webui.door import Door, Visit

FAR, OTHER = "192.0.2.1", "192.0.2.2"


class Caller(Visit):
    def __init__(self, address: str) -> None:
        super().__init__(address, self._note)
        self.is_away = False

    def _note(self) -> None:
        self.is_away = True


def enter(door: Door, *callers: Caller) -> list[bool]:
    return [door.enter(caller) for caller in callers]


def test_enter__the_longest_waiting_makes_room() -> None:
    door, callers = Door(3), [Caller("127.0.0.1") for _ in range(5)]
    assert enter(door, *callers) == [True] * 5
    assert [caller.is_away for caller in callers] == [True, True, False, False, False]
    assert len(door) == 3


def test_enter__a_request_keeps_its_place() -> None:
    door, first, second = Door(2), Caller(""), Caller("")
    enter(door, first, second)
    door.serve(first)
    third = Caller("")
    assert enter(door, third) == [True]
    assert (first.is_away, second.is_away) == (False, True)
    door.serve(third)
    assert enter(door, Caller("")) == [False]
    door.wait(first)
    assert enter(door, Caller("")) == [True]
    assert first.is_away


def test_enter__one_address_has_a_quarter_of_the_places() -> None:
    door = Door(8)
    far, others = [Caller(FAR) for _ in range(3)], [Caller(OTHER) for _ in range(2)]
    assert enter(door, *others, *far) == [True] * 5
    assert [caller.is_away for caller in (*others, *far)] == [False, False, True, False, False]
    for caller in far:
        door.serve(caller)
    assert enter(door, Caller(FAR), Caller(OTHER)) == [False, True]


@pytest.mark.parametrize("address", ["", "127.0.0.1", "::1", "127.0.0.9"])
def test_enter__this_machine_may_have_all_places(address: str) -> None:
    door, callers = Door(8), [Caller(address) for _ in range(8)]
    assert enter(door, *callers) == [True] * 8
    assert not any(caller.is_away for caller in callers)


def test_leave__makes_room_once() -> None:
    door, first = Door(1), Caller(FAR)
    enter(door, first)
    door.serve(first)
    for _ in range(2):
        door.leave(first)
    assert len(door) == 0
    second = Caller(FAR)
    assert enter(door, second) == [True]
    door.serve(second)
    assert enter(door, Caller(FAR)) == [False]
