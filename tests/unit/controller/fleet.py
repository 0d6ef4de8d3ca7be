# SPDX-License-Identifier: Apache-2.0
"""Several controllers on one store, real processes, and switches that keep rules and roles."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from sluice.runtime.postgres import PostgresServer
from sluice.runtime.wait import wait_until
from sluice.store import lease, observed, parts
from sluice.store.parts import NETWORK, Part
from tests.fakes.remembering import RememberingSwitch
from tests.unit.controller.networks import leaf_spine
from tests.unit.controller.processes import Process, Starter

TOPOLOGY = leaf_spine(leaves=4, spines=2, hosts_per_leaf=1)
DPIDS = frozenset(switch.dpid for switch in TOPOLOGY.switches)


class Fleet:
    """Controllers on one store, and six switches that connect to each of them."""

    def __init__(self, folder: Path, store_url: str, live: Starter) -> None:
        self._folder, self._store_url, self._live = folder, store_url, live
        self.controllers: list[Process] = []
        self.is_empty = False
        """Whether the store has no network at first."""
        self.switches = {dpid: RememberingSwitch() for dpid in DPIDS}

    def start(self, switches: Collection[int] = DPIDS) -> Process:
        """Start another controller, to which these switches connect."""
        number = len(self.controllers)
        topology = None if self.controllers or self.is_empty else TOPOLOGY
        process = Process(
            self._folder, topology, arguments=["--share"], log=f"log-{number}", store_url=self._store_url
        )
        self.controllers.append(process)
        self.connect(process, switches)
        return process

    def connect(self, process: Process, switches: Collection[int]) -> None:
        for dpid in switches:
            self._live(process.port, dpid, self.switches[dpid].connection(), returns=True)

    @property
    def first(self) -> Process:
        return self.controllers[0]

    @property
    def parts(self) -> Mapping[int, Part]:
        return parts.look(self.first.engine).parts

    def generations(self, dpids: Collection[int]) -> Mapping[int, int]:
        found = self.parts
        return {dpid: found[dpid].generation for dpid in dpids}

    def holds(self, process: Process) -> frozenset[int]:
        """Return the switches of a controller."""
        mine = str(process.process.pid)
        found = self.parts.items()
        return frozenset(k for k, row in found if k != NETWORK and row.holder.split("/")[2:3] == [mine])

    def are_shared(self, *processes: Process) -> bool:
        """Whether these controllers lead all switches, in fair parts, and each switch has taken its master."""
        each = [self.holds(process) for process in processes]
        sizes = [len(held) for held in each]
        fair = sum(sizes) == len(DPIDS) and max(sizes) - min(sizes) <= 1
        return fair and self.obey()

    def obey(self) -> bool:
        """Whether each switch's master is the holder of its part, by the generation."""
        found = self.parts
        return all(
            s.masters == 1 and s.generation == found[dpid].generation for dpid, s in self.switches.items()
        )

    def leads_alone(self, process: Process) -> bool:
        """Whether a controller holds the lease for all switches."""
        row = lease.look(self.first.engine, parts.LEASE)
        return row is not None and row.holder.split("/")[2:3] == [str(process.process.pid)]

    def written(self) -> int:
        """Return how many rules and groups have been written to all switches."""
        return sum(len(switch.changes) for switch in self.switches.values())

    def wait_shared(self, *processes: Process, timeout_s: float = 30.0) -> None:
        wait_until(lambda: self.are_shared(*processes), "the switches are shared", timeout_s=timeout_s)

    def wait_rows(self, version: int) -> None:
        """Wait until each switch's row says that it implements a version."""

        def right() -> bool:
            rows = observed.all_switches(self.first.engine)
            return all(row["connected"] and row["policy_version"] == version for row in rows)

        wait_until(right, f"the rows of all switches have version {version}")

    def apply(self, document: Mapping[str, object]) -> int:
        version = self.first.put_policy(document)
        wait_until(self.first.applied, "the policy stands everywhere")
        return version

    def pause(self, process: Process) -> None:
        """Stop a process while it writes nothing. On SQLite, a stopped writer keeps all others from writing."""
        engine = lease.open_for_leases(self._store_url)

        def has_stopped() -> bool:
            os.kill(process.process.pid, signal.SIGSTOP)
            try:
                parts.bury(engine, "nobody", 0)
            except OperationalError:
                os.kill(process.process.pid, signal.SIGCONT)
                return False
            return True

        wait_until(has_stopped, "the process has stopped while it wrote nothing")
        engine.dispose()

    def late(self, version: int) -> list[list[str]]:
        """Return the switches that each event about a late policy names."""
        events = observed.recent_events(self.first.engine, 0)
        late = [event["document"] for event in events if event["kind"] == "policy-late"]
        return [document["switches"] for document in late if document["version"] == version]

    def check(self) -> None:
        """No switch was written by an earlier generation after a later one."""
        for switch in self.switches.values():
            assert switch.changes == sorted(switch.changes)

    def close(self) -> None:
        for controller in self.controllers:
            if controller.process.poll() is None:
                os.kill(controller.process.pid, signal.SIGCONT)
            controller.close()


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, of SQLite unless the test says otherwise."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


@pytest.fixture
def fleet(tmp_path: Path, store_url: str, live: Starter) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, store_url, live)
    yield fleet
    fleet.close()
