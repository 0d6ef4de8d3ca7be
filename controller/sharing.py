# SPDX-License-Identifier: Apache-2.0
"""The lease's thread of a controller that shares the switches with others (membership.py).

Only a network that another program has put into the store is shared. One that an operator describes, or that is
discovered, has one controller for all switches, because its graph follows from what all of them report.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Engine

from sluice.controller.leadership import LOOK_S, Leadership, LeaseStatus
from sluice.controller.membership import Membership
from sluice.runtime.identity import my_identity
from sluice.store import desired, networks
from sluice.store.parts import NETWORK


class NetworkWatch:
    """The switches that controllers may share."""

    def __init__(self) -> None:
        self._seen: tuple[float, int] | None = None
        """When the graph was stored, and the version of the description."""
        self._parts: frozenset[int] = frozenset()

    def parts(self, engine: Engine) -> frozenset[int]:
        """Return the datapath ids and NETWORK; nothing if the switches must not be shared."""
        seen = desired.topology_stored_at(engine), networks.network_version(engine)
        if seen != self._seen:
            self._parts, self._seen = self._read(engine), seen
        return self._parts

    @staticmethod
    def _read(engine: Engine) -> frozenset[int]:
        topology, described = desired.current_topology(engine), networks.current_network(engine)
        if topology is None or topology.learns or (described is not None and described.document is not None):
            return frozenset()
        return frozenset({NETWORK, *(switch.dpid for switch in topology.switches)})


class SharedLeadership(Leadership):
    """Takes part in the share, or in the lease while the network cannot be shared."""

    def __init__(self, store_url: str, report: Callable[[LeaseStatus], None]) -> None:
        super().__init__(store_url, report)
        self._membership, self._network = Membership(my_identity()), NetworkWatch()
        self._shares = False

    def doubt(self, switch: int) -> None:
        if self._shares:
            self._membership.doubt(switch)
            self._wake.set()
        else:
            super().doubt(switch)

    def dropped(self, part: int, generation: int) -> None:
        """This controller acts no longer on a part that it must give up, and has written its rows."""
        self._membership.dropped(part, generation)
        self._wake.set()

    def _step(self, engine: Engine, now_s: float) -> None:
        wanted = self._network.parts(engine)
        self._shares = bool(wanted) or self._membership.is_member
        if self._shares:
            self._candidacy.release(engine)
            self._membership.step(engine, wanted, now_s)
        else:
            super()._step(engine, now_s)

    def _status(self, at_ns: int) -> LeaseStatus:
        if not self._shares:
            return super()._status(at_ns)
        membership = self._membership
        share = membership.share if membership.is_member else None
        return LeaseStatus(share is not None, membership.generation, at_ns, share)

    def _pause_s(self) -> float:
        return LOOK_S if self._shares else super()._pause_s()

    def _release(self, engine: Engine) -> None:
        self._membership.release(engine)
        super()._release(engine)
