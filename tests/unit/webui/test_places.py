# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.webui.callers import ConnectionPlaces, StreamPlaces

FAR, OTHER = "192.0.2.1", "192.0.2.2"


class Caller:
    def __init__(self, address: str) -> None:
        self.address = address
        self.is_away = False

    def make_room(self) -> None:
        self.is_away = True


def enter(places: ConnectionPlaces, *callers: Caller) -> list[bool]:
    return [places.enter(caller) for caller in callers]


def test_enter__the_longest_waiting_makes_room() -> None:
    places, callers = ConnectionPlaces(3), [Caller("127.0.0.1") for _ in range(5)]
    assert enter(places, *callers) == [True] * 5
    assert [caller.is_away for caller in callers] == [True, True, False, False, False]
    assert len(places) == 3


def test_enter__a_request_keeps_its_place() -> None:
    places, first, second = ConnectionPlaces(2), Caller(""), Caller("")
    enter(places, first, second)
    places.serve(first)
    third = Caller("")
    assert enter(places, third) == [True]
    assert (first.is_away, second.is_away) == (False, True)
    places.serve(third)
    assert enter(places, Caller("")) == [False]
    places.wait(first)
    assert enter(places, Caller("")) == [True]
    assert first.is_away


def test_enter__one_address_has_a_quarter_of_the_places() -> None:
    places = ConnectionPlaces(8)
    far, others = [Caller(FAR) for _ in range(3)], [Caller(OTHER) for _ in range(2)]
    assert enter(places, *others, *far) == [True] * 5
    assert [caller.is_away for caller in (*others, *far)] == [False, False, True, False, False]
    for caller in far:
        places.serve(caller)
    assert enter(places, Caller(FAR), Caller(OTHER)) == [False, True]


@pytest.mark.parametrize("address", ["", "127.0.0.1", "::1", "127.0.0.9"])
def test_enter__this_machine_may_have_all_places(address: str) -> None:
    places, callers = ConnectionPlaces(8), [Caller(address) for _ in range(8)]
    assert enter(places, *callers) == [True] * 8
    assert not any(caller.is_away for caller in callers)


def test_leave__makes_room_once() -> None:
    places, first = ConnectionPlaces(1), Caller(FAR)
    enter(places, first)
    places.serve(first)
    for _ in range(2):
        places.leave(first)
    assert len(places) == 0
    second = Caller(FAR)
    assert enter(places, second) == [True]
    places.serve(second)
    assert enter(places, Caller(FAR)) == [False]


def test_streams__clients_without_a_token_have_places_of_their_own() -> None:
    places = StreamPlaces(8)
    leave = places.take(False)
    with pytest.raises(Exception, match="without a token"):
        places.take(False)
    places.take(True)
    for _ in range(2):  # a second time changes nothing
        leave()
    places.take(False)
    with pytest.raises(Exception, match="without a token"):
        places.take(False)
