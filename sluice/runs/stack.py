# SPDX-License-Identifier: Apache-2.0
"""A running Sluice on one machine: web process, testbed, controller, host agents, and what a run needs to know of them.

    with Stack.start(scenario, topology, out) as stack:
        stack.start_agents(flows)
        ...                        # call stack.check() a few times a second

The web process answers on a Unix socket of the run's folder (and on a TCP port when asked): agents reach it there, so
management traffic never crosses the emulated links.
"""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from dataplane.congestion import CongestionControl, ours
from dataplane.provided import Provided
from dataplane.sockopt import SocketHook
from hostagent.background import FIRST_PORT, BackgroundLoad, Load
from hostagent.sampler import FILE as SAMPLES
from hostagent.schedule import write_start
from policy.entries import write
from policy.errors import EnvironmentLacking
from policy.fabrics import TESTBED, check_fabric
from policy.graph import Topology
from policy.records import SCHEDULED, FlowRecord
from policy.scenario import Scenario
from policy.schedule import Schedule, ScheduledFlow, by_source
from runtime.http_client import Answer, HttpClient, ServerAway
from runtime.process import spawn
from runtime.wait import wait_until
from sluice.runs.services import Process, Services
from store import desired, observed
from store import flows as flow_store
from store.engine import open_store
from store.observed import PortSample, ThresholdChange
from store.retention import FOR_EVER, Retention
from topologies.testbed import Testbed
from webui.options import retention_argv

log = logging.getLogger(__name__)

READY_TIMEOUT_S = 30.0
REQUEST_TIMEOUT_S = 10.0
AGENTS_TIMEOUT_S = 60.0
START_LEAD_S = 0.3
"""From the moment at which all agents are ready to the first flow: each of them has read the start by then."""


@dataclass(frozen=True)
class WebSettings:
    """What a run asks of its web process."""

    workers: int = 1
    retention: Retention = FOR_EVER
    event_log: Path | None = None


@dataclass
class Stack:
    """Everything that runs. Made by `start`; leaving the context stops it all in order."""

    scenario: Scenario
    topology: Topology
    out: Path
    """Store, logs, schedules and spools; stays."""
    meeting: Path
    """Folder of the sockets over which switches and agents are managed. Short: such names have room for 107 bytes."""
    listen: str | None
    external: bool
    """Web process and controller are somebody else's, and so is the store: they all meet in `meeting`."""
    store: str | None = None
    """URL of the store; a file of the run's own without it."""
    web: WebSettings = field(default_factory=lambda: WebSettings())
    began_at: float = field(default_factory=time.time)
    """Rows of the store that are older are another run's."""
    began_after: int = 0
    """Flow records up to this sequence number are another run's."""
    services: Services = field(default_factory=Services)
    bed: Testbed | None = None
    background: list[BackgroundLoad] = field(default_factory=list)
    _kernel: list[Provided] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        scenario: Scenario,
        topology: Topology,
        out: Path,
        *,
        listen: str | None = None,
        external: Path | None = None,
        store: str | None = None,
        web: WebSettings | None = None,
    ) -> Stack:
        """Start web, testbed and controller and wait until the switches stand at the scenario's policy.

        `listen` is a TCP address for the web process; without it only agents can reach it. `external` is the folder
        where a web process and a controller run already (the services of docker-compose.yml). `store` is the URL of
        a store that outlives the run, SQLite or PostgreSQL.
        """
        check_fabric(scenario.policy, TESTBED)
        out.mkdir(parents=True, exist_ok=True)
        meeting = external or Path(tempfile.mkdtemp(prefix="sluice-"))
        stack = cls(
            scenario, topology, out, meeting, listen, external is not None, store, web or WebSettings()
        )
        try:
            stack._start()
        except BaseException:
            stack.stop()
            raise
        return stack

    @property
    def store_url(self) -> str:
        return self.store or f"sqlite:///{(self.meeting if self.external else self.out).resolve()}/store.db"

    @cached_property
    def engine(self) -> Engine:
        return open_store(self.store_url)

    @property
    def testbed(self) -> Testbed:
        assert self.bed is not None
        return self.bed

    @property
    def web_socket(self) -> Path:
        return self.meeting / "web.sock"

    @property
    def openflow_socket(self) -> Path:
        return self.meeting / "openflow.sock"

    @property
    def token(self) -> str:
        """What changing the policy takes."""
        path = self.meeting / ("sluice/token" if self.external else "token")
        return path.read_text().strip() if path.exists() else ""

    def _start(self) -> None:
        settings = self._testbed_settings()
        self.began_after = flow_store.last_sequence(self.engine)
        observed.forget_processes(self.engine)
        desired.put_topology(self.engine, self.topology)
        version = desired.put_policy(self.engine, self.scenario.policy, "scenario")
        if not self.external:
            (self.meeting / "token").touch(mode=0o600)
            (self.meeting / "token").write_text(secrets.token_urlsafe(24))
            self.services.start("web", self._spawn_web)
            self.start_controller()
        self._provide_kernel()
        self.bed = Testbed.start(self.topology, self._testbed_folder(), **settings)
        wait_until(self._web_answers, "the web process answers", timeout_s=READY_TIMEOUT_S)
        self.wait_applied(version)

    def _provide_kernel(self) -> None:
        """Hold our congestion controls and the setsockopt hook for as long as the stack runs.

        An agent that dies must not take one along, and the connections of the others with it.
        """
        for provided in (*(CongestionControl(name) for name in ours()), SocketHook()):
            try:
                provided.ensure()
                self._kernel.append(provided)
            except EnvironmentLacking as lacking:
                log.warning("%s; agents fall back, and the run says so", lacking)

    def _testbed_folder(self) -> Path:
        return self.meeting / "testbed"

    def _testbed_settings(self) -> Mapping[str, Any]:
        return {
            "controller": f"unix:{self.openflow_socket}",
            "web": f"unix:{self.web_socket}",
            "log_dir": self.out / "log",
            "behaviour": self.scenario.policy.port_behaviour,
            "rto_min_ms": self.scenario.transport.rto_min_ms,
            "initial_window": self.scenario.transport.initial_window,
        }

    def _log(self, name: str) -> Path:
        path = self.out / "log" / f"{name}.log"
        path.parent.mkdir(exist_ok=True)
        return path

    def _spawn_web(self) -> Process:
        argv = [sys.executable, "-m", "webui", "--store", self.store_url, "--unix", str(self.web_socket)]
        argv += ["--token-file", str(self.meeting / "token")]
        argv += ["--listen", self.listen] if self.listen else []
        argv += ["--workers", str(self.web.workers), *retention_argv(self.web.retention)]
        argv += ["--event-log", str(self.web.event_log)] if self.web.event_log else []
        return spawn(argv, log_file=self._log("web"))

    def start_controller(self) -> None:
        self.services.start("controller", self._spawn_controller)

    def _spawn_controller(self) -> Process:
        listen = f"unix:{self.openflow_socket}"
        argv = [sys.executable, "-m", "controller", "--store", self.store_url, "--listen", listen]
        return spawn(argv, log_file=self._log("controller"))

    def _web_answers(self) -> bool:
        self.check()
        try:
            return self.get("health").ok
        except ServerAway:
            return False

    def is_well(self) -> bool:
        """Store, controller, switches and agents are all there, and the web process says so. Restarts what has died."""
        self.check()
        try:
            answer = self.get("health")
            return bool(answer.ok and answer.json()["status"] == "ok")
        except ServerAway:
            return False

    def get(self, what: str) -> Answer:
        """GET from the REST API, over the Unix socket. Raises ServerAway."""
        return self._request("GET", what)

    def put_policy(self, document: Mapping[str, Any]) -> Answer:
        """PUT a policy as a user does, with the token. Raises ServerAway."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return self._request("PUT", "policy", json.dumps(document).encode(), headers)

    def _request(
        self, method: str, what: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        with closing(HttpClient(f"unix:{self.web_socket}", REQUEST_TIMEOUT_S)) as web:
            return web.request(method, f"/api/v1/{what}", body, headers)

    def check(self) -> None:
        """Restart what has died; call this a few times a second."""
        self.services.check()

    def wait_applied(self, version: int) -> None:
        """Wait until every switch stands at this policy version."""

        def applied() -> bool:
            self.check()
            newest = desired.current_policy(self.engine)
            return newest is not None and newest.version >= version and newest.applied_at is not None

        wait_until(applied, f"the switches stand at policy version {version}", timeout_s=READY_TIMEOUT_S)

    def start_agents(self, flows: Sequence[ScheduledFlow]) -> float:
        """Start an agent on every host with its part of the schedule. Traffic begins once all of them report.

        Returns the epoch second at which it begins. Raises TimeoutError if an agent does not report.
        """
        parts = by_source(flows)
        self._start_file.unlink(missing_ok=True)
        since = time.time()
        for host in self.topology.hosts:
            schedule = self._schedule_file(host.name, parts.get(host.name, []))
            self.services.start(f"agent-{host.name}", partial(self._spawn_agent, host.name, schedule))
        names = {host.name for host in self.topology.hosts}
        what = f"the agents report (their logs are in {self.out / 'log'})"
        wait_until(partial(self._all_report, names, since), what, timeout_s=AGENTS_TIMEOUT_S)
        start_at = time.time() + START_LEAD_S
        write_start(self._start_file, start_at)
        return start_at

    @property
    def _start_file(self) -> Path:
        return self.out / "start"

    def _schedule_file(self, host: str, flows: Sequence[ScheduledFlow]) -> Path:
        path = self.out / "schedule" / f"{host}.json"
        path.parent.mkdir(exist_ok=True)
        schedule = Schedule(
            scheme=self.scenario.policy.scheme,
            connections=self.scenario.transport.connections,
            sample_ms=self.scenario.sample_ms,
            max_window=self.scenario.transport.max_window,
            addresses={host.name: host.ipv4 for host in self.topology.hosts},
            addresses6={host.name: host.ipv6 for host in self.topology.hosts},
            flows=tuple(flows),
        )
        path.write_text(json.dumps(write(schedule)))
        return path

    def _agent_folder(self, name: str) -> Path:
        return self.out / "spool" / name

    def flow_samples(self) -> list[dict[str, Any]] | None:
        """What the agents sampled, by time; None when the scenario does not ask for samples."""
        if self.scenario.sample_ms is None:
            return None
        files = [self._agent_folder(host.name) / SAMPLES for host in self.topology.hosts]
        lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
        return sorted(map(json.loads, lines), key=lambda sample: float(sample["at_s"]))

    def _spawn_agent(self, name: str, schedule: Path) -> Process:
        host = self.topology.host_by_name[name]
        argv = [sys.executable, "-m", "hostagent", "--name", name, "--interface", host.interface]
        argv += ["--run-dir", str(self._agent_folder(name)), "--web", f"unix:{self.web_socket}"]
        argv += [
            "--schedule",
            str(schedule),
            "--start-file",
            str(self._start_file),
            "--grace",
            str(self.scenario.grace_s),
        ]
        argv += ["--congestion-control", self.scenario.policy.definition.congestion_control]
        return self.testbed.spawn(name, argv, log_file=self._log(f"agent-{name}"))

    def _all_report(self, names: set[str], since: float) -> bool:
        self.check()
        return names <= {agent.name for agent in observed.all_agents(self.engine) if agent.seen_at > since}

    def start_background(self) -> list[BackgroundLoad]:
        """Start the scenario's long flows; they end with the stack."""
        control = self.scenario.policy.definition.congestion_control
        for number, flow in enumerate(self.scenario.background):
            address = self.topology.host_by_name[flow.to].ipv4
            load = Load(flow.source, flow.to, address, control, flow.rate_bps, FIRST_PORT + number)
            self.background.append(BackgroundLoad(self._spawn_on, load, self.out / "background"))
        return self.background

    def stop_background(self) -> None:
        """Idempotent."""
        for load in self.background:
            load.stop()

    def _spawn_on(self, host: str, argv: Sequence[str], log_file: Path) -> Process:
        return self.testbed.spawn(host, argv, log_file=log_file)

    def records(self, source: str = SCHEDULED) -> list[FlowRecord]:
        """This run's."""
        return flow_store.all_flows(self.engine, source, self.began_after)

    def recorded(self, source: str = SCHEDULED) -> int:
        """How many records this run has so far."""
        return flow_store.count_flows(self.engine, source, self.began_after)

    def thresholds(self) -> list[ThresholdChange]:
        """This run's changes."""
        return observed.threshold_history(self.engine, self.began_at)

    def samples(self) -> list[PortSample]:
        """This run's."""
        return observed.port_history(self.engine, self.began_at)

    def stop_agents(self) -> None:
        """Stop the agents; each records its active flows as unfinished and delivers what it has."""
        self.services.stop("agent-")

    def stop(self) -> None:
        """Stop everything. Stopping twice changes nothing."""
        self.stop_background()
        self.stop_agents()
        self.services.stop("controller")
        if self.bed is not None:
            self.bed.stop()
        self.services.stop()
        for provided in self._kernel:
            provided.close()
        self.engine.dispose()
        shutil.rmtree(self._testbed_folder() if self.external else self.meeting, ignore_errors=True)

    def __enter__(self) -> Stack:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
