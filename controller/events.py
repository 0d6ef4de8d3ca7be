# SPDX-License-Identifier: Apache-2.0
"""The events that other threads put into the application's queue, and how a handler names them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from os_ken.controller import event
from os_ken.controller.handler import set_ev_cls

from sluice.controller.openflow import Answer

if TYPE_CHECKING:
    from sluice.controller.connection import Connection
    from sluice.controller.leadership import LeaseStatus
    from sluice.controller.network import Description
    from sluice.controller.state import Desired
    from sluice.policy.network.graph import Topology
    from sluice.policy.policing.belief import UrgencyReport

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


class EventAnswer(Event):
    """A switch has answered."""

    def __init__(self, connection: Connection, answer: Answer) -> None:
        super().__init__()
        self.connection, self.answer = connection, answer
