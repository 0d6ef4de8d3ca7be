# SPDX-License-Identifier: Apache-2.0
"""A testbed with a real controller process and a store, for the controller's tests."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.controller.tables import Table
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until
from sluice.store import desired, observed
from sluice.store.engine import open_store
from sluice.topologies.testbed import Testbed

LISTEN = "127.0.0.1:6653"


@dataclass(frozen=True)
class InstalledRule:
    """One line of ovs-ofctl dump-flows."""

    cookie: int
    table: int
    duration_s: float
    packets: int
    actions: str

    @property
    def queue(self) -> int:
        found = re.search(r"set_queue:(\d+)", self.actions)
        assert found, self.actions
        return int(found[1])


_LINE = re.compile(r"cookie=(0x[0-9a-f]+), duration=([0-9.]+)s, table=(\d+), n_packets=(\d+),.* actions=(.*)")


@dataclass(frozen=True)
class Script:
    """A Python script that runs on a host."""

    process: subprocess.Popen[bytes]
    output: Path
    """Everything that the script has printed."""

    def printed(self) -> str:
        """Return what the script has printed so far."""
        return self.output.read_text()

    def wait_printed(self, word: str, *, interval_s: float = 0.02, timeout_s: float = 60.0) -> None:
        """Wait until the script has printed the word."""
        wait_until(
            lambda: word in self.printed(),
            f"the script prints {word!r}",
            interval_s=interval_s,
            timeout_s=timeout_s,
        )


class Controlled:
    """Topology, store, testbed and controller."""

    def __init__(
        self, topology: Topology, folder: Path, policy: Mapping[str, Any], datapath: str = "auto"
    ) -> None:
        self.topology = topology
        self.folder = folder
        self.store_url = f"sqlite:///{folder}/store.db"
        self.engine = open_store(self.store_url)
        desired.put_topology(self.engine, topology)
        self.version = self.put_policy(policy)
        self.bed = Testbed.start(topology, folder / "bed", controller=f"tcp:{LISTEN}", datapath=datapath)
        self.controller: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        if self.controller is not None:
            stop(self.controller)
        self.bed.stop()
        self.engine.dispose()

    def put_policy(self, document: Mapping[str, Any]) -> int:
        self.version = desired.put_policy(self.engine, Policy.from_document(document), "test")
        return self.version

    @property
    def log(self) -> str:
        return (self.folder / "controller.log").read_text()

    def start_controller(self, *more: str | Path) -> None:
        argv = [sys.executable, "-m", "sluice", "controller", "--store", self.store_url, "--listen", LISTEN]
        argv += map(str, more)
        self.controller = self.bed.spawn(None, argv, log_file=self.folder / "controller.log")

    def take_over(self) -> None:
        """Start a controller, and wait until it reports the newest policy in effect."""
        began = time.time()
        self.start_controller()
        self.wait_in_effect(began)

    def kill_controller(self) -> None:
        """Send SIGKILL, once the switches reconnect quickly (a few seconds after they first connected)."""
        assert self.controller is not None
        wait_until(self._switches_are_configured, "the switches apply max_backoff")
        self.controller.kill()
        self.controller.wait()

    def _switches_are_configured(self) -> bool:
        output = self.bed.ovs(["ovs-vsctl", "--bare", "--columns=external_ids", "list", "Controller"])
        return output.count("while-connected") == len(self.topology.switches)

    def wait_applied(self) -> None:
        """Wait until the newest policy has been applied."""

        def applied() -> bool:
            newest = desired.current_policy(self.engine)
            return newest is not None and newest.applied_at is not None

        wait_until(applied, "the policy is applied")

    def wait_in_effect(self, since: float) -> None:
        """Wait for a report after `since` (epoch, s) that every switch has the newest policy in effect."""

        def in_effect() -> bool:
            rows = [row for row in observed.all_switches(self.engine) if row["seen_at"] > since]
            right = [row for row in rows if row["connected"] and row["policy_version"] == self.version]
            return len(right) == len(self.topology.switches)

        wait_until(in_effect, "every switch has the newest policy")

    def apply(self, document: Mapping[str, Any]) -> None:
        self.put_policy(document)
        self.wait_applied()

    def ofctl(self, *argv: str) -> str:
        return self.bed.ovs(["ovs-ofctl", "-O", "OpenFlow13", *argv])

    def rules(self, switch: str, table: int | None = None) -> dict[int, InstalledRule]:
        """Return installed rules by cookie. Rules that count nothing share a cookie, and this keeps the last."""
        text = self.ofctl("dump-flows", switch, *([] if table is None else [f"table={table:d}"]))
        rules = {}
        for line in text.splitlines():
            if found := _LINE.search(line):
                cookie, duration, at, packets, actions = found.groups()
                rules[int(cookie, 16)] = InstalledRule(
                    int(cookie, 16), int(at), float(duration), int(packets), actions
                )
        return rules

    def normal_form(self, switch: str) -> list[str]:
        """Return all rules as text for comparisons, without counters and ages."""
        text = self.ofctl("dump-flows", "--no-stats", switch)
        return sorted(line.strip() for line in text.splitlines() if "actions=" in line)

    def queue_map(self, switch: str, port: int) -> dict[int, int]:
        """Return the installed queue of each tag code at a port."""
        rules = self.rules(switch, table=Table.MAP).values()
        return {
            r.cookie & 0xFF: r.queue
            for r in rules
            if "set_queue" in r.actions and r.cookie >> 16 & 0xFFFF == port
        }

    def queue_packets(self, switch: str, port: int) -> list[int]:
        """Return the transmitted packets of each queue, by OpenFlow's counters."""
        text = self.ofctl("queue-stats", switch, str(port))
        counts = {int(q): int(n) for q, n in re.findall(r"queue (\d+): bytes=\d+, pkts=(\d+)", text)}
        return [counts[queue] for queue in sorted(counts)]

    def python(self, host: str, script: str, *argv: object) -> str:
        """Run a script on a host and return its output."""
        return self.bed.exec(host, [sys.executable, "-c", script, *map(str, argv)])

    def spawn_python(self, host: str, script: str, *argv: object) -> Script:
        """Start a script on a host. It ends with the testbed."""
        out = self.folder / f"{host}-{time.monotonic_ns()}.out"
        process = self.bed.spawn(host, [sys.executable, "-u", "-c", script, *map(str, argv)], log_file=out)
        return Script(process, out)


@contextmanager
def controlled(topology: Topology, folder: Path, policy: Mapping[str, Any]) -> Iterator[Controlled]:
    """A network with a controller that has applied the policy."""
    network = Controlled(topology, folder, policy)
    try:
        network.start_controller()
        network.wait_applied()
        yield network
    finally:
        network.close()
