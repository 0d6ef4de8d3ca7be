# SPDX-License-Identifier: Apache-2.0
"""Two controllers on one store and real Open vSwitch. One leads, the other takes over, and none writes a rule twice."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice import topologies
from sluice.policy import tags
from sluice.policy.schema.desired import Policy, queue_map
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from sluice.store import lease, observed
from sluice.topologies.ovs import environment
from tests.net.controlled import Controlled

PORTS = (6653, 6654)
AT_10KB = {"scheme": "pias", "queues": 2, "thresholds": ["10KB"]}
AT_1MB = {"scheme": "pias", "queues": 2, "thresholds": ["1000KB"]}


class Pair(Controlled):
    """One switch and two controllers. `leader` is the index of the leading one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(topologies.build("single", hosts=3), folder, AT_10KB)
        self.bed.ovs(["ovs-vsctl", "set-controller", "s1", *(f"tcp:127.0.0.1:{port}" for port in PORTS)])
        for target in self.bed.ovs(["ovs-vsctl", "--bare", "--columns=_uuid", "list", "Controller"]).split():
            self.bed.ovs(["ovs-vsctl", "set", "Controller", target, "max_backoff=1000"])
        self.controllers: dict[int, subprocess.Popen[bytes]] = {}
        self.monitor: subprocess.Popen[bytes] | None = None
        self.begin()

    def begin(self) -> None:
        """Let both controllers run under the first policy."""
        for index in (0, 1):
            if index not in self.controllers or self.controllers[index].poll() is not None:
                self.start(index)
        self.apply(AT_10KB)
        self.wait_roles()

    def start(self, index: int) -> None:
        argv = [sys.executable, "-m", "sluice", "controller", "--store", self.store_url]
        argv += ["--listen", f"127.0.0.1:{PORTS[index]}"]
        self.controllers[index] = self.bed.spawn(
            None, argv, log_file=self.folder / f"controller-{PORTS[index]}.log"
        )

    def wait_roles(self) -> None:
        """Wait until one controller is master and the other slave."""
        argv = ["ovs-vsctl", "--bare", "--columns=role", "list", "Controller"]
        wait_until(
            lambda: sorted(self.bed.ovs(argv).split()) == ["master", "slave"], "one is master, one slave"
        )

    @property
    def generation(self) -> int:
        return self.lease.generation

    @property
    def lease(self) -> lease.Lease:
        engine = lease.open_for_leases(self.store_url)
        try:
            found = lease.look(engine, "controller")
        finally:
            engine.dispose()
        assert found is not None
        return found

    @property
    def leader(self) -> int:
        pid = int(self.lease.holder.split("/")[2])
        return next(index for index, controller in self.controllers.items() if controller.pid == pid)

    def watch_rules(self) -> None:
        """Make Open vSwitch log every change of a rule from now on."""
        if self.monitor is not None:
            stop(self.monitor)
        self.changes_file = self.folder / f"changes-{time.monotonic_ns()}"
        argv = ["ovs-ofctl", "-O", "OpenFlow13", "monitor", "s1", "watch:!initial"]
        self.monitor = spawn(argv, log_file=self.changes_file, env=environment(self.bed.settings.ovs_dir))
        wait_until(self.mark, "the monitor logs changes", interval_s=0.1)

    def mark(self) -> bool:
        """Add and delete a rule. Once the monitor has logged that, it has logged all earlier changes."""
        before = self.marks
        self.ofctl("add-flow", "s1", "table=9,priority=7,cookie=0x77,actions=drop")
        self.ofctl("del-flows", "s1", "table=9")
        return self.marks > before

    @property
    def lines(self) -> list[str]:
        return [line for line in self.changes_file.read_text().splitlines() if "event=" in line]

    @property
    def marks(self) -> int:
        return sum("table=9" in line and "DELETED" in line for line in self.lines)

    @property
    def changes(self) -> list[str]:
        """Log lines of rules that were added, modified or deleted since `watch_rules`."""
        before = self.marks
        self.mark()
        wait_until(lambda: self.marks > before, "the monitor logs changes")
        return [line for line in self.lines if "table=9" not in line]

    def events(self, kind: str) -> list[Any]:
        return observed.events_of(self.engine, kind, 0)

    def close(self) -> None:
        for controller in self.controllers.values():
            if controller.poll() is None:
                os.kill(controller.pid, signal.SIGCONT)
                stop(controller)
        if self.monitor is not None:
            stop(self.monitor)
        super().close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    pair = Pair(tmp_path_factory.mktemp("pair"))
    yield pair
    pair.close()


@pytest.fixture
def pair(shared: Pair) -> Pair:
    shared.begin()
    return shared


def rules_between(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Return how many map rules of a port differ between two policies."""
    maps = [
        queue_map(p, [tags.snap_to_edge(t) for t in p.thresholds])
        for p in (Policy.from_document(before), Policy.from_document(after))
    ]
    return sum(a != b for a, b in zip(*maps, strict=True))


def test_kill_9__the_standby_leads_and_no_rule_is_written(pair: Pair) -> None:
    """The killed one comes back as the standby."""
    pair.watch_rules()
    led = len(pair.events("leading"))
    before, form, generation = pair.rules("s1"), pair.normal_form("s1"), pair.generation
    leader = pair.leader
    died = time.time()
    pair.controllers[leader].kill()
    pair.controllers[leader].wait()
    pair.wait_in_effect(died)
    assert pair.generation > generation
    assert pair.leader == 1 - leader
    assert pair.changes == []
    assert pair.normal_form("s1") == form
    after = pair.rules("s1")
    assert all(after[cookie].duration_s > before[cookie].duration_s for cookie in before)
    assert len(pair.events("leading")) == led + 1
    pair.start(leader)
    pair.wait_roles()
    assert pair.leader == 1 - leader
    pair.apply(AT_1MB)
    assert len(pair.changes) == 3 * rules_between(AT_10KB, AT_1MB)


def test_sigstop_and_sigcont__the_resumed_leader_follows_and_no_rule_is_written_twice(pair: Pair) -> None:
    generation, leader = pair.generation, pair.leader
    pair.watch_rules()
    os.kill(pair.controllers[leader].pid, signal.SIGSTOP)
    wait_until(lambda: pair.generation > generation, "another one leads")
    pair.apply(AT_1MB)
    assert len(pair.changes) == 3 * rules_between(AT_10KB, AT_1MB)
    os.kill(pair.controllers[leader].pid, signal.SIGCONT)
    log = pair.folder / f"controller-{PORTS[leader]}.log"
    wait_until(lambda: "following" in log.read_text().rpartition("leading")[2], "the former leader follows")
    pair.apply(AT_10KB)
    assert len(pair.changes) == 6 * rules_between(AT_10KB, AT_1MB)
    assert pair.generation > generation
    assert observed.events_of(pair.engine, "openflow-error", 0) == []
    pair.wait_roles()
