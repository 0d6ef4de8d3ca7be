# SPDX-License-Identifier: Apache-2.0
"""A running Sluice on one machine: web process, testbed, controller, host agents, and their results.

    with Stack.start(scenario, topology, out) as stack:
        stack.start_agents(flows)
        ...                        # call stack.check() a few times a second

A simulated one (`SimulatedStack`) has one process instead of testbed, controller and agents.

Agents reach the web process over a Unix socket, so management traffic never crosses the emulated links. The kernel's
parts that the agents share last as long as the stack. It takes space from the disk at its start, and gives it back at
its end, so that its bundle has room.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

from sqlalchemy import Engine

from sluice.dataplane.congestion import kernel_parts
from sluice.dataplane.shared_resource import Provided
from sluice.hostagent.port.settings import write_json
from sluice.hostagent.traffic import SAMPLES, write_schedule
from sluice.policy.fabrics import SIMULATOR, TESTBED, check_fabric
from sluice.policy.network.graph import Host, Topology
from sluice.policy.retention import FOR_EVER
from sluice.policy.wire.agents import SimulatorHeartbeat
from sluice.policy.wire.records import SCHEDULED, FlowRecord, Schedule, ScheduledFlow
from sluice.policy.workload.scenario import Scenario
from sluice.runs.files import refuse_times
from sluice.runs.live import SIMULATOR_AGENT
from sluice.runs.services import FIRST_PORT, BackgroundLoad, Load, Process, Services, service_argv
from sluice.runs.validity import HostDelays, RunWatch
from sluice.runtime.http_client import Answer, HttpClient, ServerAway
from sluice.runtime.process import keep_short, spawn
from sluice.runtime.wait import wait_until
from sluice.store import desired, observed
from sluice.store import flows as flow_store
from sluice.store.ages import age_s
from sluice.store.desired import PolicyVersion
from sluice.store.engine import open_store
from sluice.store.observed import PortSample, ThresholdChange
from sluice.topologies.commands import LINK_CLASS
from sluice.topologies.testbed import Testbed
from sluice.webui.service import retention_argv

log = logging.getLogger(__name__)


RESERVE_BYTES = 32 * 1024 * 1024
"""For the last records, and for the bundle of about 200,000 flows."""


class Reserve:
    """A file without content that holds space. `release` gives it back."""

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        self._path, self._size = path, size
        self.take()

    def take(self) -> None:
        """Hold the space. A second call does nothing."""
        try:
            with self._path.open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, self._size)
        except OSError as error:
            log.warning(
                "the disk has no %d MB to reserve for the bundle: %s", self._size >> 20, error.strerror
            )
            self.release()

    def release(self) -> None:
        """Give the space back. A second call does nothing."""
        self._path.unlink(missing_ok=True)


READY_TIMEOUT_S = 120.0
REQUEST_TIMEOUT_S = 30.0
AGENTS_TIMEOUT_S = 180.0
MOST_VERSIONS = 1000
START_LEAD_S = 0.3
"""From the moment when all agents are ready to the first flow. Each agent has read the start time by then."""


@dataclass
class Stack:
    """All processes of a run. `start` makes it; leaving the context stops all of them in order."""

    fabric: ClassVar[str] = TESTBED
    scenario: Scenario
    topology: Topology
    out: Path
    """Folder of store, logs, schedules and spools. It stays after the run."""
    meeting: Path
    """Folder of the management sockets. Its path is short, because a socket's has at most 107 bytes."""
    listen: str | None
    external: bool
    """Whether web process, controller and store belong to another stack."""
    store: str | None = None
    """URL of the store. None: a file in the run's folder."""
    web: Sequence[str] = ()
    """More options of the web process."""
    began_at: float = field(default_factory=time.time)
    """Older rows of the store belong to other runs."""
    began_after: int = 0
    """Flow records up to this sequence number belong to other runs."""
    first_version: int = 1
    """Earlier versions of the policy belong to other runs."""
    services: Services = field(init=False)
    bed: Testbed | None = None
    background: list[BackgroundLoad] = field(default_factory=list)
    host_delays: HostDelays = field(default_factory=HostDelays)
    """Of the agents that have ended."""
    _kernel: list[Provided] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.reserve = Reserve(self.out / "reserve")
        self.services = Services(self.meeting)

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
        web: Sequence[str] = (),
        **own: Any,
    ) -> Self:
        """Start web process, testbed and controller, and wait until the switches have applied the policy.

        `listen` is a TCP address for the web process; without it only agents can reach it.
        `external` is the folder of a web process and a controller that already run (the services
        of docker-compose.yml). `store` is the URL of a store that outlives the run, SQLite or
        PostgreSQL. `web` are more options of the web process, `own` fields of a kind of stack.
        """
        check_fabric(scenario.policy, cls.fabric)
        refuse_times(scenario)
        out.mkdir(parents=True, exist_ok=True)
        meeting, is_external = external or Path(tempfile.mkdtemp(prefix="sluice-")), external is not None
        stack = cls(scenario, topology, out, meeting, listen, is_external, store, web, **own)
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

    @cached_property
    def watch(self) -> RunWatch:
        """What the machine does to the packets of this run."""
        return RunWatch(self.testbed)

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
    def token_file(self) -> Path:
        """The file with the token, which only its owner can read."""
        return self.meeting / ("sluice/token" if self.external else "token")

    @property
    def token(self) -> str:
        """The token that a policy change needs."""
        return self.token_file.read_text().strip() if self.token_file.exists() else ""

    def _start(self) -> None:
        version = self._write_desired()
        if not self.external:
            (self.meeting / "token").touch(mode=0o600)
            (self.meeting / "token").write_text(secrets.token_urlsafe(24))
            self.services.start("web", self._spawn_web)
        self.start_network()
        self.wait(self._web_answers, "the web process answers")
        self.wait_applied(version)

    def start_network(self) -> None:
        """Start what carries out the policy, and its controller."""
        if not self.external:
            self.start_controller()
        self._kernel.extend(kernel_parts())
        self.bed = Testbed.start(
            self.topology,
            self._testbed_folder(),
            controller=f"unix:{self.openflow_socket}",
            web=f"unix:{self.web_socket}",
            log_dir=self.out / "log",
            behaviour=self.scenario.policy.port_behaviour,
            rto_min_ms=self.scenario.transport.rto_min_ms,
            initial_window=self.scenario.transport.initial_window,
        )

    def _write_desired(self) -> int:
        """Write the network and the scenario's policy to the store. Return the policy's version."""
        self.began_after = flow_store.last_sequence(self.engine)
        observed.forget_processes(self.engine)
        desired.put_topology(self.engine, self.topology)
        self.first_version = desired.put_policy(self.engine, self.scenario.policy, "scenario")
        return self.first_version

    def _testbed_folder(self) -> Path:
        return self.meeting / "testbed"

    def _log(self, name: str) -> Path:
        path = self.out / "log" / f"{name}.log"
        path.parent.mkdir(exist_ok=True)
        return path

    def _spawn_web(self, env: Mapping[str, str]) -> Process:
        argv = [*service_argv("web"), "--store", self.store_url, "--unix", str(self.web_socket)]
        argv += ["--token-file", str(self.meeting / "token")]
        argv += ["--listen", self.listen] if self.listen else []
        # A store of its own ends with the run, so it keeps all, and no record needs to be on the device at once.
        argv += [*retention_argv(FOR_EVER), "--no-fsync" if self.store is None else "--fsync"]
        return spawn([*argv, *self.web], log_file=self._log("web"), env=env)

    def start_controller(self) -> None:
        self.services.start("controller", self._spawn_controller)

    def _spawn_controller(self, env: Mapping[str, str]) -> Process:
        argv = [*service_argv("controller"), "--store", self.store_url]
        argv += ["--listen", f"unix:{self.openflow_socket}"]
        return spawn(argv, log_file=self._log("controller"), env=env)

    def _web_answers(self) -> bool:
        try:
            return self.get("health").ok
        except ServerAway:
            return False

    def is_well(self) -> bool:
        """Restart processes that died. Return whether the web process reports that all components work."""
        self.check()
        try:
            answer = self.get("health")
            return bool(answer.ok and answer.json()["status"] == "ok")
        except ServerAway:
            return False

    def get(self, what: str) -> Answer:
        """Send a GET to the REST API, over the Unix socket. Raises ServerAway."""
        return self._request("GET", what)

    def put_policy(self, document: Mapping[str, Any]) -> Answer:
        """Send a PUT of a policy with the token, as a user does. Raises ServerAway."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return self._request("PUT", "policy", json.dumps(document).encode(), headers)

    def _request(
        self, method: str, what: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        with closing(HttpClient(f"unix:{self.web_socket}", REQUEST_TIMEOUT_S)) as web:
            return web.request(method, f"/api/v1/{what}", body, headers)

    def check(self) -> None:
        """Restart processes that died or hang. Call this a few times a second."""
        self.services.check()
        keep_short(self.out / "log")

    def wait(self, ready: Callable[[], bool], what: str, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Restart processes that die until this is true. `what` says it. Raises TimeoutError."""

        def checked() -> bool:
            self.check()
            return ready()

        wait_until(checked, what, timeout_s=timeout_s)

    def wait_applied(self, version: int) -> None:
        """Wait until every switch has applied this policy version."""

        def applied() -> bool:
            newest = desired.progress(self.engine)
            return newest.version >= version and newest.applied_at is not None

        self.wait(applied, f"the switches have applied policy version {version}")

    def start_agents(self, flows: Sequence[ScheduledFlow]) -> float:
        """Start agents and then the traffic. Returns the epoch second of the first flow. See `prepare_agents`."""
        self.prepare_agents(flows)
        start_at = time.time() + START_LEAD_S
        self.start_traffic(start_at)
        return start_at

    def prepare_agents(self, flows: Sequence[ScheduledFlow]) -> None:
        """Start an agent on every host with its part of the schedule, and wait until all of them report.

        Their traffic starts with `start_traffic`. Raises TimeoutError if an agent does not report.
        """
        whole = self._schedule(flows)
        self._start_file.unlink(missing_ok=True)
        since_s = age_s(self.engine)
        for host in self.topology.hosts:
            schedule = self.out / "schedule" / f"{host.name}.json.gz"
            schedule.parent.mkdir(exist_ok=True)
            write_schedule(schedule, whole.of_host(host.name))
            self.services.start(f"agent-{host.name}", partial(self._spawn_agent, host, schedule))
        names = {host.name for host in self.topology.hosts}

        def all_report() -> bool:
            agents = observed.all_agents(self.engine)
            return names <= {agent.name for agent in agents if agent.seen_s > since_s}

        what = f"the agents report (their logs are in {self.out / 'log'})"
        self.wait(all_report, what, AGENTS_TIMEOUT_S)

    def _schedule(self, flows: Sequence[ScheduledFlow]) -> Schedule:
        """Return the schedule of all hosts with these flows."""
        transport = self.scenario.transport
        return Schedule(
            scheme=self.scenario.policy.scheme,
            connections=transport.connections,
            sample_ms=self.scenario.sample_ms,
            max_window=transport.max_window,
            addresses={host.name: host.ipv4 for host in self.topology.hosts},
            addresses6={host.name: host.ipv6 for host in self.topology.hosts},
            flows=tuple(flows),
        )

    def start_traffic(self, start_at: float) -> None:
        """Let the first flow start at this epoch second. Every agent has read it after START_LEAD_S."""
        write_json(self._start_file, start_at)

    @property
    def _start_file(self) -> Path:
        return self.out / "start"

    def _agent_folder(self, name: str) -> Path:
        return self.out / "spool" / name

    def flow_samples(self) -> list[dict[str, Any]] | None:
        """Return the agents' samples, by time; None if the scenario requests no samples."""
        if self.scenario.sample_ms is None:
            return None
        files = [self._agent_folder(host.name) / SAMPLES for host in self.topology.hosts]
        lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
        return sorted(map(json.loads, lines), key=lambda sample: float(sample["at_s"]))

    def _spawn_agent(self, host: Host, schedule: Path, env: Mapping[str, str]) -> Process:
        scenario = self.scenario
        argv = [*service_argv("agent"), "--name", host.name, "--interface", host.interface]
        argv += ["--run-dir", str(self._agent_folder(host.name)), "--web", f"unix:{self.web_socket}"]
        argv += ["--schedule", str(schedule), "--start-file", str(self._start_file)]
        argv += ["--grace", str(scenario.grace_s), "--queues-at", LINK_CLASS]
        argv += ["--tags", scenario.transport.tags, "--no-fsync"]  # a power failure ends the run anyway
        argv += ["--congestion-control", scenario.policy.definition.congestion_control]
        return self.testbed.spawn(host.name, argv, log_file=self._log(f"agent-{host.name}"), env=env)

    def start_background(self) -> list[BackgroundLoad]:
        """Start the scenario's long flows, which end with the stack."""
        control = self.scenario.policy.definition.congestion_control

        def spawn_on(host: str, argv: Sequence[str], log_file: Path) -> Process:
            return self.testbed.spawn(host, argv, log_file=log_file)

        for number, flow in enumerate(self.scenario.background):
            address = self.topology.host_by_name[flow.to].ipv4
            load = Load(flow.source, flow.to, address, control, flow.rate_bps, FIRST_PORT + number)
            self.background.append(BackgroundLoad(spawn_on, load, self.out / "background"))
        return self.background

    def stop_background(self) -> None:
        """Stop the long flows. Stopping twice changes nothing."""
        for load in self.background:
            load.stop()

    def records(self, source: str = SCHEDULED) -> list[FlowRecord]:
        """Return this run's records."""
        return flow_store.all_flows(self.engine, source, self.began_after)

    def recorded(self, source: str = SCHEDULED) -> int:
        """Return how many records this run has so far."""
        return flow_store.count_flows(self.engine, source, self.began_after)

    def policies(self) -> list[PolicyVersion]:
        """Return this run's versions of the policy, in the order of their numbers."""
        history = desired.policy_history(self.engine, MOST_VERSIONS)
        return [version for version in reversed(history) if version.version >= self.first_version]

    def thresholds(self) -> list[ThresholdChange]:
        """Return this run's threshold changes."""
        return observed.threshold_history(self.engine, self.began_at)

    def samples(self) -> list[PortSample]:
        """Return this run's port samples."""
        return observed.port_history(self.engine, self.began_at)

    def stop_agents(self) -> None:
        """Stop the agents. Each records its active flows as unfinished and delivers its records."""
        names = [service.name for service in self.services.running]
        ending = {name.removeprefix("agent-") for name in names if name.startswith("agent-")}
        self.services.stop("agent-")
        beats = observed.host_heartbeats(self.engine) if ending else {}
        self.host_delays.add(beat for name, beat in beats.items() if name in ending)

    def stop(self) -> None:
        """Stop all processes. Stopping twice changes nothing."""
        self.reserve.release()
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


NETWORK = "network"


@dataclass
class SimulatedStack(Stack):
    """All processes of a simulated demonstration: the web process and the network. The simulator must be compiled."""

    fabric: ClassVar[str] = SIMULATOR
    document: Mapping[str, Any] = field(default_factory=dict)
    """The scenario, for the process of the network."""
    run_id: str | None = None
    """The first part of each flow's id; None: the network chooses it."""
    hold_s: float | None = None
    """Length of the traffic that `begin_traffic` begins; None: traffic begins with the network and has no end."""

    def _write_desired(self) -> int:
        version = super()._write_desired()
        # The web process judges policies by this row. The network replaces it each second.
        observed.put_agent(self.engine, SIMULATOR_AGENT, SimulatorHeartbeat(os.getpid(), 0.0, 0.0, 1.0))
        return version

    def start_network(self) -> None:
        """Start the network with the policy of `document`, which must be the newest one in the store."""
        (self.out / "scenario.json").write_text(json.dumps(self.document))
        self.services.start(NETWORK, self._spawn_network)

    def _spawn_network(self, env: Mapping[str, str]) -> Process:
        argv = [sys.executable, "-m", "sluice.runs.live", "--store", self.store_url]
        argv += ["--scenario", str(self.out / "scenario.json")]
        argv += ["--run-id", self.run_id] if self.run_id else []
        argv += ["--hold", str(self.hold_s)] if self.hold_s is not None else []
        return spawn(argv, log_file=self._log(NETWORK), env=env)

    def begin_traffic(self) -> None:
        """Begin the traffic of a network that holds it."""
        self.services[NETWORK].process.send_signal(signal.SIGUSR2)

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
