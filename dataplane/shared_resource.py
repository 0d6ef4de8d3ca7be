# SPDX-License-Identifier: Apache-2.0
"""A kernel resource that exists once on the machine and that several processes use.

The first process provides the resource, and the others use it. It ends with that process. The others call `ensure`
regularly, and one of them then provides it.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Protocol, Self

log = logging.getLogger(__name__)


class Provision(Protocol):
    """The resource in the process that provides it. It ends with `close` or with the process."""

    def close(self) -> None: ...


class Provided(ABC):
    """This process's interest in a resource, a context manager. `owned`: this process provides it."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._provision: Provision | None = None
        self._noted = False

    @abstractmethod
    def is_present(self) -> bool:
        """Return whether a process provides the resource now."""

    @abstractmethod
    def _provide(self) -> Provision | None:
        """Provide the resource. None if another process was first. Raises EnvironmentLacking if this is impossible."""

    @property
    def owned(self) -> bool:
        return self._provision is not None

    def ensure(self) -> bool:
        """Provide the resource if no process does, for example after its provider ended. True if this call did."""
        if self.is_present():
            self._note()
            return False
        self.close()
        self._provision = self._provide()
        self._noted = False
        return self.owned

    def close(self) -> None:
        """Stop providing the resource. Idempotent."""
        if self._provision is not None:
            self._provision.close()
            self._provision = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _note(self) -> None:
        if not (self.owned or self._noted):
            log.info("another process provides %s, and this one uses it", self._what)
            self._noted = True
