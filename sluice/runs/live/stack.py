# SPDX-License-Identifier: Apache-2.0
"""A running Sluice on a simulated network: the web process, and one process instead of testbed, controller, agents."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sluice.policy.fabrics import SIMULATOR, check_fabric
from sluice.policy.network.graph import Topology
from sluice.policy.wire.agents import SimulatorHeartbeat
from sluice.policy.wire.records import SCHEDULED
from sluice.policy.workload.scenario import Scenario
from sluice.runs.live import SIMULATOR_AGENT
from sluice.runs.services import Process, WebSettings, network_argv
from sluice.runs.stack import READY_TIMEOUT_S, Stack
from sluice.runtime.process import spawn
from sluice.runtime.wait import wait_until
from sluice.store import flows as flow_store
from sluice.store import observed

NETWORK = "network"


@dataclass
class SimulatedStack(Stack):
    """All processes of a simulated demonstration. Leaving the context stops them in order."""

    document: Mapping[str, Any] = field(default_factory=dict)
    """The scenario, for the process of the network."""
    run_id: str | None = None
    """The first part of each flow's id; None: the network chooses it."""
    hold_s: float | None = None
    """Length of the traffic that `begin_traffic` begins; None: traffic begins with the network and has no end."""

    @classmethod
    def of_document(
        cls,
        scenario: Scenario,
        document: Mapping[str, Any],
        topology: Topology,
        out: Path,
        *,
        listen: str | None = None,
        external: Path | None = None,
        store: str | None = None,
        web: WebSettings | None = None,
        hold_s: float | None = None,
    ) -> SimulatedStack:
        """Start web process and network, and wait until the network has applied the scenario's policy.

        The arguments are those of `Stack.start`. The simulator must have been compiled.
        """
        check_fabric(scenario.policy, SIMULATOR)
        out.mkdir(parents=True, exist_ok=True)
        stack = cls(
            scenario,
            topology,
            out,
            external or Path(tempfile.mkdtemp(prefix="sluice-")),
            listen,
            external is not None,
            store,
            web or WebSettings(),
            document=document,
            hold_s=hold_s,
        )
        try:
            stack._start()
        except BaseException:
            stack.stop()
            raise
        return stack

    def _start(self) -> None:
        version = self._write_desired()
        # The web process judges policies by this row. The network replaces it each second.
        observed.put_agent(self.engine, SIMULATOR_AGENT, SimulatorHeartbeat(os.getpid(), 0.0, 0.0, 1.0))
        if not self.external:
            self._start_web()
        self.start_network()
        wait_until(self._web_answers, "the web process answers", timeout_s=READY_TIMEOUT_S)
        self.wait_applied(version)

    def start_network(self) -> None:
        """Start the network with the policy of `document`, which must be the newest one in the store."""
        (self.out / "scenario.json").write_text(json.dumps(self.document))
        self.services.start(NETWORK, self._spawn_network)

    def begin_traffic(self) -> None:
        """Begin the traffic of a network that holds it."""
        self.services[NETWORK].process.send_signal(signal.SIGUSR2)

    def _spawn_network(self, env: Mapping[str, str]) -> Process:
        argv = network_argv(self.store_url, self.out / "scenario.json", self.run_id, self.hold_s)
        return spawn(argv, log_file=self._log(NETWORK), env=env)

    def end_traffic(self) -> None:
        """Start no more flows. Active ones continue."""
        self.services[NETWORK].process.send_signal(signal.SIGUSR1)

    def stop_agents(self) -> None:
        """Stop the network, which records its active flows as unfinished. Stopping twice changes nothing."""
        self.services.stop(NETWORK)

    def heartbeat(self) -> SimulatorHeartbeat:
        """Return the newest heartbeat of the network."""
        beat = observed.simulation(self.engine)
        assert beat is not None, "the first one is older than the network"
        return beat

    def recorded(self, source: str = SCHEDULED) -> int:
        """Return how many records this run has so far. Counting many rows would take long, so this asks for
        their last number: all records of this store's newest part are the network's."""
        return flow_store.last_sequence(self.engine) - self.began_after
