# SPDX-License-Identifier: Apache-2.0
"""Several controllers share the switches: real processes on one store, and switches that keep rules and roles."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from runtime.postgres import PostgresServer
from runtime.wait import wait_until
from store import desired, lease, networks, observed, parts
from store.parts import NETWORK, Part
from tests.fakes.remembering import RememberingSwitch
from tests.unit.controller.networks import leaf_spine
from tests.unit.controller.processes import Process, Starter

pytestmark = pytest.mark.slow

TOPOLOGY = leaf_spine(leaves=4, spines=2, hosts_per_leaf=1)
DPIDS = frozenset(switch.dpid for switch in TOPOLOGY.switches)
JOIN_S, TAKE_OVER_S = 5.0, 3.0


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

        wait_until(right, f"the rows of all switches have version {version}", timeout_s=20)

    def apply(self, document: Mapping[str, object]) -> int:
        version = self.first.put_policy(document)
        wait_until(self.first.applied, "the policy stands everywhere", timeout_s=20)
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


@pytest.fixture
def pair(fleet: Fleet) -> Fleet:
    """Two controllers that have brought all switches to the first policy."""
    fleet.start()
    fleet.start()
    fleet.wait_shared(*fleet.controllers)
    wait_until(fleet.first.applied, "the policy is applied", timeout_s=20)
    fleet.wait_rows(1)
    return fleet


def test_a_third_takes_its_part_of_two_and_no_rule_is_written(pair: Fleet) -> None:
    assert [len(pair.holds(process)) for process in pair.controllers] == [3, 3]
    before, written = pair.generations(DPIDS), pair.written()
    assert written > 1000
    third = pair.start()
    pair.wait_shared(*pair.controllers, timeout_s=JOIN_S)
    pair.wait_rows(1)
    kept = DPIDS - pair.holds(third)
    assert pair.generations(kept) == {dpid: before[dpid] for dpid in kept}
    assert pair.written() == written
    assert [switch.of_slaves for switch in pair.switches.values()] == [0] * len(DPIDS)
    pair.apply({"scheme": "tcp"})
    assert pair.written() > written
    pair.check()


@pytest.mark.parametrize(
    "store_url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.pg)], indirect=True
)
def test_kill_9__the_other_takes_only_the_part_of_the_dead_one_and_no_rule_is_written(pair: Fleet) -> None:
    survivor, dead = pair.controllers[0], pair.controllers[1]
    kept, written = pair.holds(survivor), pair.written()
    before = pair.generations(DPIDS)
    dead.process.kill()
    dead.process.wait()
    pair.wait_shared(survivor, timeout_s=TAKE_OVER_S)
    after = pair.generations(DPIDS)
    assert {dpid for dpid in DPIDS if after[dpid] == before[dpid]} == kept
    pair.wait_rows(1)
    assert pair.written() == written
    pair.apply({"scheme": "tcp"})
    pair.check()


def test_sigstop_and_sigcont__the_resumed_one_writes_nothing_until_it_gets_a_new_part(pair: Fleet) -> None:
    first, stopped = pair.controllers
    before, lost = pair.generations(DPIDS), pair.holds(stopped)
    pair.pause(stopped)
    pair.first.put_policy({"scheme": "tcp"})
    wait_until(lambda: pair.holds(first) == DPIDS, "the other one leads all", timeout_s=TAKE_OVER_S)
    wait_until(pair.first.applied, "the policy stands everywhere", timeout_s=20)
    taken, written = pair.generations(lost), pair.written()
    assert all(taken[dpid] > before[dpid] for dpid in lost)
    os.kill(stopped.process.pid, signal.SIGCONT)
    pair.wait_shared(first, stopped)
    pair.wait_rows(2)
    assert pair.written() == written
    pair.apply({"scheme": "pias"})
    pair.check()


def test_a_controller_that_stops_in_order_leaves_its_part_at_once(pair: Fleet) -> None:
    survivor, other = pair.controllers
    written = pair.written()
    os.kill(other.process.pid, signal.SIGTERM)
    assert other.process.wait(10) == 0
    pair.wait_shared(survivor, timeout_s=TAKE_OVER_S)
    pair.wait_rows(1)
    assert pair.written() == written
    pair.check()


def test_a_policy_that_does_not_stand_everywhere_is_reported_with_the_switches(fleet: Fleet) -> None:
    """One switch knows only the controller that dies, and learns of the other one later."""
    first = fleet.start(DPIDS - {6})
    second = fleet.start()
    wait_until(lambda: 6 in fleet.holds(second), "the second leads the switch that only it can reach")
    wait_until(first.applied, "the policy is applied", timeout_s=20)
    second.process.kill()
    second.process.wait()
    version = first.put_policy({"scheme": "tcp"})
    wait_until(lambda: fleet.late(version), "the policy is late", timeout_s=20)
    assert fleet.late(version) == [["s6"]]
    assert not first.applied()
    fleet.connect(first, {6})
    wait_until(first.applied, "the policy stands everywhere", timeout_s=20)
    fleet.wait_rows(version)
    assert fleet.late(version) == [["s6"]]


def test_a_network_that_nobody_has_described_has_one_controller_until_another_program_stores_one(
    fleet: Fleet,
) -> None:
    fleet.is_empty = True
    first, second = fleet.start(), fleet.start()
    wait_until(
        first.applied, "the switches that one controller has found have the first policy", timeout_s=30
    )
    assert fleet.parts == {}
    assert first.events().count("leading") == 1
    desired.put_topology(first.engine, TOPOLOGY)
    fleet.wait_shared(first, second)
    fleet.apply({"scheme": "tcp"})
    networks.put_network(first.engine, {"switch": [{"name": "s1", "dpid": 1}]}, "test")
    wait_until(lambda: not fleet.holds(first) | fleet.holds(second), "nobody shares any more", timeout_s=10)
    wait_until(lambda: fleet.leads_alone(first) or fleet.leads_alone(second), "one leads", timeout_s=20)
    fleet.check()
