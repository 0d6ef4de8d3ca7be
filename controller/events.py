# SPDX-License-Identifier: Apache-2.0
"""The events that other threads put into the application's queue, and how a handler names them.

`DaemonLoop` is an os-ken application whose event loop ends with the process, and ends the process on a bug.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from os_ken.base.app_manager import OSKenApp
from os_ken.controller import event
from os_ken.controller.handler import set_ev_cls
from os_ken.controller.ofp_handler import OFPHandler

from sluice.controller.openflow import Answer

if TYPE_CHECKING:
    from sluice.controller.connection import Connection
    from sluice.controller.leadership import LeaseStatus
    from sluice.controller.network import Description
    from sluice.controller.state import Desired
    from sluice.policy.network.graph import Topology
    from sluice.policy.policing.urgency import UrgencyReport
    from sluice.policy.wire.agents import PortHeartbeat

Handler = TypeVar("Handler", bound=Callable[..., None])


def handles(event_class: type, *states: str) -> Callable[[Handler], Handler]:
    """Return the decorator of a handler; `states` of the connection, all unless given."""
    decorator: Callable[[Handler], Handler] = set_ev_cls(event_class, list(states) or None)
    return decorator


class Event(event.EventBase):  # type: ignore[misc]
    """Base of the events below."""

    def __init__(self) -> None:
        super().__init__()


class EventTick(Event):
    """Time has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.at_ns = time.monotonic_ns()
        """When the tick was put into the queue."""


class EventLease(Event):
    """The controller has looked at the lease."""

    def __init__(self, status: LeaseStatus) -> None:
        super().__init__()
        self.status = status


class EventDesired(Event):
    """The store has another topology or policy."""

    def __init__(self, desired: Desired) -> None:
        super().__init__()
        self.desired = desired


class EventNetwork(Event):
    """The store has been asked for the description of the network and for its graph."""

    def __init__(self, description: Description, topology: Topology | None) -> None:
        super().__init__()
        self.description, self.topology = description, topology


class EventAgents(Event):
    """Agents report other addresses than before."""

    def __init__(self, agents: Mapping[str, str]) -> None:
        super().__init__()
        self.agents = agents
        """MAC address → name of the agent."""


class EventUrgency(Event):
    """The agents' reports about urgency tags have been read."""

    def __init__(self, reports: Mapping[str, UrgencyReport]) -> None:
        super().__init__()
        self.reports = reports
        """By name of the agent."""


class EventReports(Event):
    """The heartbeats of port agents at switches that forward by themselves have been read."""

    def __init__(self, beats: Mapping[str, PortHeartbeat]) -> None:
        super().__init__()
        self.beats = beats
        """By name of the agent, which is that of its switch."""


class EventAnswer(Event):
    """A switch has answered."""

    def __init__(self, connection: Connection, answer: Answer) -> None:
        super().__init__()
        self.connection, self.answer = connection, answer


# ── The loop ────────────────────────────────────────────────────────────────────────────────────────


log = logging.getLogger(__name__)


class DaemonLoop(OSKenApp):  # type: ignore[misc]
    """An os-ken application that stops when a handler raises an exception.

    os-ken logs the exception and continues with half of the handler's work done. Stopping is
    safer, because a new controller reads the rules of the switches and changes nothing that is
    right.
    """

    failed: Callable[[], None] = staticmethod(lambda: None)
    """Called when a handler has raised an exception."""

    def start(self) -> None:
        loop = threading.Thread(target=self._event_loop, name=self.name, daemon=True)
        self.threads.append(loop)
        loop.start()

    def _event_loop(self) -> None:
        try:
            while self.is_active or not self.events.empty():
                queued, state = self.events.get()
                self._events_sem.release()
                if queued != self._event_stop:
                    for handler in list(self.get_handlers(queued, state)):
                        handler(queued)
        except Exception:
            log.exception("%s: a handler has failed; the controller ends", self.name)
            self.failed()


class Handshake(DaemonLoop, OFPHandler):  # type: ignore[misc]
    """os-ken's handshake without os-ken's server. It also hands on the answers of switches."""

    LOGGER_NAME = "os_ken.handshake"

    _EVENTS = [EventAnswer]  # noqa: RUF012 (os-ken's interface)
