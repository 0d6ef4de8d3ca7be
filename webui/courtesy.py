# SPDX-License-Identifier: Apache-2.0
"""Computations that give way to deliveries.

A delivery changes threads a dozen times, with the database and with Python's lock. If another thread computes
meanwhile, it waits at each of these turns. So the figures for dashboards and alerts are computed in pieces, and a piece
begins when no delivery of this process is under way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")

PAUSE_S = 0.05
"""The longest pause before a piece."""
ALL_PAUSES_S = 0.4
"""The longest time of all pauses of one computation. The live picture is due each second."""

_condition = threading.Condition()
_under_way = 0
_computing = threading.local()
"""Of a thread that gives way: `left_s`, for how long its pauses may still last."""


@contextmanager
def delivery() -> Iterator[None]:
    """Hold this while a delivery is under way."""
    global _under_way
    with _condition:
        _under_way += 1
    try:
        yield
    finally:
        with _condition:
            _under_way -= 1
            if not _under_way:
                _condition.notify_all()


@contextmanager
def giving_way() -> Iterator[None]:
    """Hold this during one computation of this thread that gives way."""
    _computing.left_s = ALL_PAUSES_S
    try:
        yield
    finally:
        _computing.left_s = 0.0


def pause() -> None:
    """Wait until no delivery is under way, if this thread's computation gives way. Called before each piece of it."""
    left_s = getattr(_computing, "left_s", 0.0)
    if left_s <= 0:
        return
    began = time.monotonic()
    with _condition:
        _condition.wait_for(lambda: not _under_way, min(PAUSE_S, left_s))
    _computing.left_s = left_s - (time.monotonic() - began)


def in_turn(piece: Callable[Given, Made], *given: Given.args, **named: Given.kwargs) -> Made:
    """Compute a piece after a pause."""
    pause()
    return piece(*given, **named)
