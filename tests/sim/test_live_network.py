# SPDX-License-Identifier: Apache-2.0
"""A simulated network that follows a clock: what it writes to the store, and how it obeys a policy. The tests pass
the time, so they wait for nothing.
"""

import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from sluice.controller.recorder import Recorder, Write
from sluice.controller.state import Desired
from sluice.policy.figures.scoreboard import SETTLE_S
from sluice.policy.schema.desired import Policy
from sluice.policy.wire.agents import PortHeartbeat
from sluice.policy.workload.scenario import Scenario
from sluice.runs.files import scenario_with
from sluice.runs.live.network import Instant, LiveNetwork
from sluice.runs.simulator_run import run_on_simulator
from sluice.runs.tour import scheme_table, tour_policies
from sluice.simulator.flows import FlowSource
from sluice.store import desired, observed
from sluice.store.desired import mark_applied, put_policy, put_topology
from sluice.store.flows import all_flows
from sluice.store.observed import latest_thresholds
from sluice.store.schema import applied, policies
from sluice.topologies import build_topology
from sluice.webui.scoreboard import scoreboard_document

pytestmark = pytest.mark.slow

DOCUMENT: dict[str, Any] = {
    "name": "live",
    "fabric": {
        "topology": "leaf-spine",
        "leaves": 2,
        "spines": 1,
        "host_rate": "100Mbit",
        "core_rate": "200Mbit",
        "link_delay": "10us",
    },
    "scheme": {
        "name": "mlfq-adaptive",
        "queues": 2,
        "thresholds": ["10MB"],
        "percentiles": [50],
        "window_ms": 1000,
        "interval_ms": 200,
        "mark_at": "12pkt",
    },
    "workload": {
        "sizes": "web-search-bytes",
        "pattern": "all-to-all",
        "load": 0.5,
        "scale": 0.05,
        "flows": 10**6,
    },
    "deadlines": {"share": 0.5, "min": "10ms", "max": "100ms"},
    "transport": {"rto_min": "10ms"},
}
EPOCH_S = 1_800_000_000.0
STEP_S = 0.01


class Direct(Recorder):
    """Writes each row at once, in the caller's thread."""

    def __init__(self, engine: Engine) -> None:
        super().__init__("", lambda desired: None)
        self._direct = engine

    def _enqueue(self, write: Write) -> None:
        write(self._direct)


class Driven:
    """A network with a clock that stands still between two calls."""

    def __init__(self, engine: Engine, **changed: Any) -> None:
        self.engine = engine
        self.scenario: Scenario = scenario_with({**DOCUMENT, **changed})[0]
        self.topology = build_topology(self.scenario)
        self.now_s = 100.0
        desired.put_topology(engine, self.topology)
        self.network = LiveNetwork(self.scenario, self.topology, "run", Direct(engine), self.instant)
        self.put(self.scenario.policy)

    @property
    def instant(self) -> Instant:
        return Instant(self.now_s, EPOCH_S + self.now_s)

    def put(self, policy: Policy) -> int:
        """Make this the desired policy, as a PUT and the recorder do. Return its version."""
        version = desired.put_policy(self.engine, policy, "test")
        self.network.want(Desired(self.topology, version, policy))
        return version

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.now_s += STEP_S
            self.network.step(self.instant)

    def events(self, kind: str) -> list[Any]:
        return [row["document"] for row in observed.events_of(self.engine, kind, 0)]


@pytest.fixture
def driven(engine: Engine) -> Driven:
    return Driven(engine)


def test_first_step__the_policy_is_applied_at_every_port_and_switch(driven: Driven, engine: Engine) -> None:
    driven.run(STEP_S)
    current = desired.current_policy(engine)
    assert current is not None
    assert current.applied_at is not None
    thresholds = latest_thresholds(engine)
    assert thresholds.keys() == driven.topology.port_by_id.keys()
    assert {change.policy_version for change in thresholds.values()} == {1}
    switches = observed.all_switches(engine)
    assert [(row["name"], row["connected"], row["policy_version"]) for row in switches] == [
        (switch.name, True, 1) for switch in driven.topology.switches
    ]
    assert driven.events("policy-applied") == [{"version": 1, "scheme": "mlfq-adaptive"}]


def test_store__has_records_thresholds_samples_and_heartbeats_of_the_traffic(
    driven: Driven, engine: Engine
) -> None:
    driven.run(2.2)
    records, ports = all_flows(engine), driven.topology.port_by_id
    assert len(records) > 20
    for record in records:
        assert record.fct_us is not None
        assert record.ideal_us is not None
        assert record.timeouts is not None
        assert record.fct_us >= 0.99 * record.ideal_us
        ended_at = record.started_at + record.fct_us / 1e6 - EPOCH_S
        assert 100.0 <= ended_at <= driven.now_s + 1e-3
        assert (record.scheme, record.congestion_control) == ("mlfq-adaptive", "sluice_dctcp")
    assert len({record.id for record in records}) == len(records)
    assert any(record.met is True for record in records)
    adapted = [change for change in latest_thresholds(engine).values() if change.flows]
    assert adapted
    assert all(change.thresholds_bytes < (10_000_000,) for change in adapted)
    assert {sample.port for sample in observed.port_history(engine, 0)} == ports.keys()
    last = observed.newest_port_samples(engine)
    for sample in last:
        assert sum(sample.queue_bytes) <= 2.2 * ports[sample.port].rate_bps / 8
    carried = sum(sum(s.queue_bytes) for s in last if ports[s.port].edge)
    assert carried > 0.5 * sum(record.bytes for record in records) > 0
    hosts = observed.host_heartbeats(engine)
    assert hosts.keys() == driven.topology.host_by_name.keys()
    assert all(beat.flows_active >= 0 for beat in hosts.values())
    (beat_of_ports,) = port_heartbeats(engine)
    assert beat_of_ports.behaviour == driven.scenario.policy.port_behaviour
    assert sum(queue.marked for queues in beat_of_ports.ports.values() for queue in queues) > 0
    beat = observed.simulation(engine)
    assert beat is not None
    assert beat.dilation == 1.0
    assert beat.simulated_s == pytest.approx(beat.elapsed_s, abs=0.05)
    driven.network.finish(driven.instant)
    last_records = all_flows(engine)[len(records) :]
    unfinished = [record for record in last_records if record.status == "unfinished"]
    assert unfinished
    assert all(record.fct_us is None and record.reason for record in unfinished)
    ended = [
        beat.flows_finished + beat.flows_unfinished for beat in observed.host_heartbeats(engine).values()
    ]
    assert sum(ended) == len(all_flows(engine))


def port_heartbeats(engine: Engine) -> list[PortHeartbeat]:
    beats = [row.heartbeat for row in observed.all_agents(engine)]
    return [beat for beat in beats if isinstance(beat, PortHeartbeat)]


@pytest.mark.parametrize("scheme", ["pfabric", "d3", "pdq", "homa", "fish", "qjump"])
def test_policy__another_one_is_in_force_at_the_next_step(engine: Engine, scheme: str) -> None:
    driven = Driven(engine)
    driven.run(0.5)
    epoch = {"epoch": "1ms"} if scheme == "qjump" else {}
    version = driven.put(Policy.from_document({"scheme": scheme, **epoch}))
    driven.run(STEP_S)
    applied = desired.policy_version(engine, version)
    assert applied is not None
    assert applied.applied_at is not None
    assert {change.policy_version for change in latest_thresholds(engine).values()} == {version}
    driven.run(1.0)
    assert {record.scheme for record in all_flows(engine)[-5:]} == {scheme}
    assert {beat.policy_version for beat in observed.host_heartbeats(engine).values()} == {version}


def test_policy__flows_keep_the_scheme_under_which_they_started_and_marks_follow_it(
    driven: Driven, engine: Engine
) -> None:
    driven.run(1.0)
    driven.put(Policy.from_document({"scheme": "tcp"}))
    driven.run(2.0)
    (before,) = port_heartbeats(engine)
    driven.run(1.5)
    (after,) = port_heartbeats(engine)
    assert after.ports.keys() == before.ports.keys()
    sent, marked = (
        [[getattr(q, what) for p in b.ports.values() for q in p] for b in (before, after)]
        for what in ("packets", "marked")
    )
    assert sum(sent[1]) > sum(sent[0])
    assert sum(marked[1]) == pytest.approx(sum(marked[0]), abs=50), "only earlier flows are marked"
    for record in all_flows(engine):
        began_s = record.started_at - EPOCH_S
        if abs(began_s - 101.0) > 0.2:
            assert record.scheme == ("tcp" if began_s > 101.0 else "mlfq-adaptive")


def test_policy__that_the_scenario_excludes_is_refused_and_the_one_before_stays(engine: Engine) -> None:
    driven = Driven(engine, simulator={"multipath": "per-packet"})
    driven.run(STEP_S)
    version = driven.put(Policy.from_document({"scheme": "d3"}))
    driven.run(STEP_S)
    (refused,) = driven.events("policy-refused")
    assert refused["version"] == version
    assert "per-flow" in refused["problem"]
    assert {change.policy_version for change in latest_thresholds(engine).values()} == {1}
    driven.run(1.0)
    assert {record.scheme for record in all_flows(engine)} == {"mlfq-adaptive"}


def test_heartbeats__list_the_flows_under_way_of_their_host(driven: Driven, engine: Engine) -> None:
    driven.run(1.05)
    ended = {record.id for record in all_flows(engine)}
    beats = observed.host_heartbeats(engine)
    running = [(name, flow) for name, beat in beats.items() for flow in beat.running]
    assert running
    assert not ended & {flow.id for _, flow in running}
    assert all(len(beat.running) <= beat.flows_active for beat in beats.values())
    assert all(EPOCH_S <= flow.started_at - 100.0 <= EPOCH_S + driven.now_s for _, flow in running)
    driven.network.finish(driven.instant)
    recorded = {record.id: record for record in all_flows(engine)}
    for name, flow in running:
        record = recorded[flow.id]
        assert (record.src, record.dst, record.bytes) == (name, flow.dst, flow.bytes)
        assert record.deadline_us == pytest.approx(
            None if flow.deadline_at is None else (flow.deadline_at - flow.started_at) * 1e6, abs=1.0
        )
    assert not any(beat.running for beat in observed.host_heartbeats(engine).values())


def test_end_traffic__flows_under_way_end_and_no_new_one_starts(driven: Driven, engine: Engine) -> None:
    driven.run(1.0)
    driven.network.end_traffic()
    driven.run(3.0)
    records = len(all_flows(engine))
    driven.network.finish(driven.instant)
    assert len(all_flows(engine)) == records
    assert all(beat.flows_active == 0 for beat in observed.host_heartbeats(engine).values())


def test_step__says_whether_the_network_is_on_time(driven: Driven) -> None:
    driven.run(STEP_S)
    driven.now_s += 10.0
    assert not driven.network.step(driven.instant)
    steps = 1
    while not driven.network.step(driven.instant):
        steps += 1
    assert steps <= 10, "a long pause is given up, so little is left to catch up"
    beat_s = observed.simulation(driven.engine)
    assert beat_s is not None
    driven.run(1.2)
    after = observed.simulation(driven.engine)
    assert after is not None
    assert after.dilation > 5


# ── Schemes one after the other in a live network give the same ratios as a run of each ────────


STAGE_S = 2.5
DRAIN_S = 2.0
SCHEMES = ("dctcp", "pias")
SCENARIO, _, TOPOLOGY = scenario_with(DOCUMENT)


def in_force_at(engine: Engine, policy: Policy, at_s: float) -> int:
    """Put a policy in force at this time. Return its version."""
    version = put_policy(engine, policy, "test")
    mark_applied(engine, version)
    with engine.begin() as connection:
        connection.execute(policies.update().where(policies.c.version == version).values(created_at=at_s))
        connection.execute(applied.update().where(applied.c.version == version).values(applied_at=at_s))
    return version


def live_stage(engine: Engine, policy: Policy, began_s: float) -> None:
    """Run a stage of a tour that begins at this epoch second."""
    version = in_force_at(engine, policy, began_s)
    scenario, *_ = scenario_with(DOCUMENT, scheme=scheme_table(policy))
    now_s = 0.0

    def at() -> Instant:
        return Instant(now_s, began_s + now_s)

    network = LiveNetwork(scenario, TOPOLOGY, f"stage-{version}", Direct(engine), at(), holds=True)
    network.want(Desired(TOPOLOGY, version, policy))
    begins = True
    while now_s < SETTLE_S + STAGE_S + DRAIN_S:
        if begins and now_s >= SETTLE_S:
            begins = False
            network.begin_traffic(STAGE_S)
        now_s += STEP_S
        network.step(at())
    network.finish(at())


def test_scoreboard__pias_over_dctcp_is_that_of_two_runs(engine: Engine, tmp_path: Path) -> None:
    chosen = tour_policies(SCENARIO, TOPOLOGY, SCHEMES)
    flows = sum(len(batch) for batch in FlowSource(SCENARIO, TOPOLOGY, 0.0, STAGE_S).before(STAGE_S))
    put_topology(engine, TOPOLOGY)
    began_s = time.time() - 100
    for number, policy in enumerate(chosen):
        live_stage(engine, policy, began_s + number * (SETTLE_S + STAGE_S + DRAIN_S))
    dctcp, pias = scoreboard_document(engine, "scheduled", None)["versions"]
    assert dctcp["flows"] == pias["flows"] == flows
    summaries: list[dict[str, Any]] = []
    for policy in chosen:
        resolved = scenario_with(DOCUMENT, scheme=scheme_table(policy), workload={"flows": flows})
        summaries.append(run_on_simulator(resolved, tmp_path / policy.scheme))
    for group in ("small", "medium", "large", "all"):
        run_ratio = summaries[1]["fct_us"][group]["mean"] / summaries[0]["fct_us"][group]["mean"]
        assert pias["classes"][group]["mean_us"]["against"]["ratio"] == pytest.approx(run_ratio, rel=0.1)
    # PIAS helps the small flows of this workload, and the scoreboard is sure of it.
    assert pias["classes"]["small"]["mean_us"]["against"]["verdict"] == "better"
