# SPDX-License-Identifier: Apache-2.0
"""What the kernel has once for the whole machine, while several processes may want it: who comes second uses it.

The process that provided it takes it along when it ends; the others call `ensure` now and then, and one takes over.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Protocol, Self

log = logging.getLogger(__name__)


class Provision(Protocol):
    """Held by the process that provides; gone when closed, or with the process."""

    def close(self) -> None: ...


class Provided(ABC):
    """Our interest in it; a context manager. `owned`: we provide it; else another process does, and keeps it."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._provision: Provision | None = None
        self._noted = False

    @abstractmethod
    def is_present(self) -> bool:
        """Does anybody provide it now?"""

    @abstractmethod
    def _provide(self) -> Provision | None:
        """Provide it. None when another process was quicker; EnvironmentLacking when it cannot be had here."""

    @property
    def owned(self) -> bool:
        return self._provision is not None

    def ensure(self) -> bool:
        """Provide it when nobody does, for instance because the process that did has ended. True if so."""
        if self.is_present():
            self._note()
            return False
        self.close()
        self._provision = self._provide()
        self._noted = False
        return self.owned

    def close(self) -> None:
        """Take back what is ours. Idempotent."""
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
            log.info("%s is there from another process: using that one", self._what)
            self._noted = True
