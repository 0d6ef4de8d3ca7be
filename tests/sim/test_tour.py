# SPDX-License-Identifier: Apache-2.0
"""Schemes one after the other in a live network give the same ratios as a run of each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from sluice.controller.state import Desired
from sluice.policy.figures.scoreboard import SETTLE_S
from sluice.policy.schema.desired import Policy
from sluice.runs.files import scenario_with
from sluice.runs.live.network import Instant, LiveNetwork
from sluice.runs.simulator_run import run_on_simulator
from sluice.runs.tour import scheme_table, tour_policies
from sluice.simulator.flows import FlowSource
from sluice.store.desired import mark_applied, put_policy, put_topology
from sluice.store.engine import open_store
from sluice.store.schema import applied, policies
from sluice.webui.scoreboard import scoreboard_document
from tests.sim.test_live_network import DOCUMENT, STEP_S, Direct

STAGE_S = 2.5
DRAIN_S = 2.0
SCHEMES = ("dctcp", "pias")
SCENARIO, _, TOPOLOGY = scenario_with(DOCUMENT)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    yield engine
    engine.dispose()


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


def test_tour__every_stage_offers_the_same_flows() -> None:
    def starts(begin_s: float) -> list[tuple[float, int]]:
        batches = FlowSource(SCENARIO, TOPOLOGY, begin_s, STAGE_S).before(begin_s + 2 * STAGE_S)
        return [
            (round(start_s - begin_s, 6), size)
            for batch in batches
            for start_s, size in zip(batch.start_s.tolist(), batch.bytes.tolist(), strict=True)
        ]

    first = starts(0.0)
    assert starts(5.0) == first
    assert first
    assert first[-1][0] < STAGE_S
