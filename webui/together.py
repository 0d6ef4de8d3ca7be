# SPDX-License-Identifier: Apache-2.0
"""What arrives at the same moment is written together.

One thread writes at a time. The next thread then writes all that arrived in the meantime. So a slow disk leads to
larger transactions, not to a longer queue. The threads of this process do not compete for the store's one writer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Waiting(Generic[Item, Result]):
    """An item until it is written."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.results: list[Result] = []
        """One result as soon as it is written."""
        self.error: Exception | None = None

    @property
    def is_done(self) -> bool:
        return bool(self.results) or self.error is not None


class Together(Generic[Item, Result]):
    """Calls one function for all items that wait."""

    def __init__(
        self,
        write: Callable[[Sequence[Item]], Sequence[Result]],
        size: Callable[[Item], int],
        most: Callable[[], int],
    ) -> None:
        """`write` returns a result for each item. It gets one item, or several of the size `most` together at most."""
        self._write_all, self._size, self._most = write, size, most
        self._writing = threading.Lock()
        self._waiting: deque[_Waiting[Item, Result]] = deque()
        """Every thread appends to it; the thread that writes takes from it."""

    def add(self, item: Item) -> Result:
        """Have the item written, and return its result. Raises what `write` raised, which holds for all its items."""
        mine: _Waiting[Item, Result] = _Waiting(item)
        self._waiting.append(mine)
        with self._writing:
            while not mine.is_done:
                self._write(self._taken())
        if mine.error is not None:
            raise mine.error
        return mine.results[0]

    def alone(self) -> AbstractContextManager[object]:
        """Return a context manager: while it is held, no other thread writes."""
        return self._writing

    def _taken(self) -> list[_Waiting[Item, Result]]:
        """Return those that have waited longest, as many as may go together, but at least one."""
        taken = [self._waiting.popleft()]
        size = self._size(taken[0].item)
        while self._waiting and size + self._size(self._waiting[0].item) <= self._most():
            taken.append(self._waiting.popleft())
            size += self._size(taken[-1].item)
        return taken

    def _write(self, taken: Sequence[_Waiting[Item, Result]]) -> None:
        try:
            results = self._write_all([one.item for one in taken])
        except Exception as error:
            for one in taken:
                one.error = error
            return
        for one, result in zip(taken, results, strict=True):
            one.results.append(result)
