# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from sluice.runtime.wait import wait_until
from sluice.webui import courtesy
from sluice.webui.courtesy import delivery, giving_way, in_turn, pause


def in_thread(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def compute() -> None:
    with giving_way():
        pause()


@pytest.fixture(autouse=True)
def _long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courtesy, "PAUSE_S", 60.0)
    monkeypatch.setattr(courtesy, "ALL_PAUSES_S", 60.0)


def test_a_computation_waits_for_the_end_of_all_deliveries() -> None:
    with delivery():
        with delivery():
            thread = in_thread(compute)
            thread.join(0.1)
            assert thread.is_alive()
        thread.join(0.1)
        assert thread.is_alive()
    thread.join(60)
    assert not thread.is_alive()


def test_a_delivery_that_fails_ends() -> None:
    with pytest.raises(ZeroDivisionError), delivery():
        raise ZeroDivisionError
    compute()


def test_who_does_not_give_way_goes_on_at_once() -> None:
    with delivery():
        pause()
        assert in_turn(divmod, 7, 2) == (3, 1)


def test_a_computation_goes_on_when_its_pauses_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courtesy, "ALL_PAUSES_S", 0.1)

    def pieces() -> None:
        with giving_way():
            for _ in range(1000):
                pause()

    with delivery():
        began = time.monotonic()
        thread = in_thread(pieces)
        wait_until(lambda: not thread.is_alive(), "it goes on")
        assert time.monotonic() - began >= 0.1
