# SPDX-License-Identifier: Apache-2.0
"""The controller's side of the store: reads what is wanted, writes what has been seen, outlives the store's absence.

It does so while the controller leads (controller/leadership.py): another one's rows are not to be mixed with its own.

One thread does both, so that a locked or vanished store never holds up a switch. Rows wait in order until they can be
written (the oldest go when there are too many); an outage is logged once when it begins and once when it ends.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from controller.state import Desired
from policy.errors import FieldError
from policy.graph import Topology
from store import desired, observed
from store.desired import PolicyVersion
from store.engine import open_store
from store.sanctions import all_sanctions

log = logging.getLogger(__name__)

POLL_S = 0.2
TOPOLOGY_POLL_S = 2.0
MAX_WAITING = 20_000
"""Rows; the oldest are forgotten beyond it."""

ROUND_S = 0.02
"""At least this long between two rounds of writing, so that rows of one kind come together."""

Write = tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]


def _forget() -> None:
    """Stands in the queue where everything before it is to be forgotten."""


_FORGET: Write = (_forget, (), {})


class Recorder:
    """Delivers desired state to `on_desired`, and writes rows in the order in which they were recorded."""

    def __init__(self, store_url: str, on_desired: Callable[[Desired], None]) -> None:
        self._url, self._on_desired = store_url, on_desired
        self._engine: Engine | None = None
        self._incoming: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._waiting: deque[Write] = deque(maxlen=MAX_WAITING)
        self._topology: Topology | None = None
        self._version = 0
        self._said = ""
        """The last remark on what is in the store."""
        self._away = ""
        """Why the store could not be used the last time; empty when it could."""
        self._stopping = threading.Event()
        self._leads = False
        self._begins = threading.Event()
        """The controller has just begun to lead: forget what was delivered, and deliver it as it stands now."""
        self._topology_due = self._poll_due = 0.0
        self._thread = threading.Thread(target=self._loop, name="store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Write what is waiting if the store lets us within the time."""
        self._stopping.set()
        self._incoming.put(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.warning("the store did not take the last rows in time")

    def record(self, write: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        """Have `write(engine, *args, **kwargs)` called, again and again until the store takes it."""
        if self._leads:
            self._incoming.put((write, args, kwargs))

    def record_rows(self, write: Callable[..., object], rows: list[Any]) -> None:
        """Have `write(engine, rows)` called; rows for the same function that wait together are written together."""
        self.record(write, rows)

    def lead(self) -> None:
        """Deliver what is desired from now on, and what has been learned until now."""
        self._begins.set()
        self._leads = True
        self._incoming.put(None)

    def follow(self) -> None:
        """Deliver nothing and forget what is waiting: the store belongs to another controller."""
        self._leads = False
        self._incoming.put(_FORGET)

    # ── The thread ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._receive(max(0.0, self._poll_due - time.monotonic()))
            self._attempt()
            self._stopping.wait(ROUND_S)
        self._receive(0.0)
        self._attempt()

    def _receive(self, timeout_s: float) -> None:
        """Take what has been recorded, waiting at most that long for the first of it."""
        try:
            item = self._incoming.get(timeout=timeout_s) if timeout_s else self._incoming.get_nowait()
            while True:
                if item is _FORGET:
                    self._waiting.clear()
                elif item is not None:
                    self._add(item)
                item = self._incoming.get_nowait()
        except queue.Empty:
            return

    def _add(self, item: Write) -> None:
        """With the last one, where both are rows for the same function."""
        write, args, _ = item
        if self._waiting and args and isinstance(args[0], list) and self._waiting[-1][0] is write:
            self._waiting[-1][1][0].extend(args[0])
        else:
            self._waiting.append(item)

    def _attempt(self) -> None:
        try:
            engine = self._opened()
            self._write(engine)
            if time.monotonic() >= self._poll_due or self._begins.is_set():
                self._poll_due = time.monotonic() + POLL_S
                if self._leads:
                    self._poll(engine)
        except (OperationalError, InterfaceError) as error:
            self._lost(error)
        else:
            if self._away:
                log.info("the store is back")
            self._away = ""

    def _opened(self) -> Engine:
        """The engine; opening makes tables that are missing."""
        if self._engine is None:
            self._engine = open_store(self._url)
        return self._engine

    def _lost(self, error: DBAPIError) -> None:
        if self._away != str(error.orig):
            self._away = str(error.orig)
            log.warning("the store cannot be used, trying again: %s", self._away)
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None
        self._poll_due = time.monotonic() + POLL_S
        self._stopping.wait(POLL_S)

    def _say_once(self, text: str) -> None:
        if text != self._said:
            log.warning("%s", text)
            self._said = text

    def _write(self, engine: Engine) -> None:
        while self._waiting:
            write, args, kwargs = self._waiting[0]
            try:
                write(engine, *args, **kwargs)
            except (OperationalError, InterfaceError):
                raise
            except SQLAlchemyError:
                log.exception("a row that the store will never take: %s%r", write.__name__, args)
            self._waiting.popleft()

    # ── Desired state ──────────────────────────────────────────────────────────────────────────────────────────────

    def _poll(self, engine: Engine) -> None:
        if self._begins.is_set():
            self._begins.clear()
            self._topology, self._version = None, 0
        version = desired.current_version(engine)
        topology = self._current_topology(engine)
        if topology is None:
            self._say_once("no topology in the store yet: waiting for one")
        elif version == 0:
            self._say_once("no policy in the store yet: waiting for one")
        elif version != self._version or topology != self._topology:
            self._deliver(engine, topology)

    def _current_topology(self, engine: Engine) -> Topology | None:
        if self._topology is None or time.monotonic() >= self._topology_due:
            self._topology_due = time.monotonic() + TOPOLOGY_POLL_S
            return desired.current_topology(engine)
        return self._topology

    def _deliver(self, engine: Engine, topology: Topology) -> None:
        try:
            newest = desired.current_policy(engine)
        except FieldError as error:
            self._say_once(f"the newest policy in the store is not one: {error}")
            return
        if newest is None:
            return
        learned = {
            port: change.thresholds_bytes
            for port, change in observed.latest_thresholds(engine).items()
            if self._goes_on(engine, newest, port, change)
        }
        self._topology, self._version, self._said = topology, newest.version, ""
        offences = {sanction.port: sanction.offences for sanction in all_sanctions(engine)}
        self._on_desired(Desired(topology, newest.version, newest.policy, learned, offences))

    def _goes_on(
        self, engine: Engine, newest: PolicyVersion, port: str, change: observed.ThresholdChange
    ) -> bool:
        """What a controller before this one had learned under the same version goes on being in force.

        At a frozen port also what was in force before this version, if it was under the same scheme.
        """
        if change.policy_version == newest.version:
            return True
        if not newest.policy.is_frozen(port):
            return False
        before = desired.policy_version(engine, change.policy_version)
        return before is not None and newest.policy.has_levels_of(before.policy)
