# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import time

import numpy as np
import pytest
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.policy.wire.records import FlowRecord
from sluice.store.desired import mark_applied, put_policy
from sluice.store.flows import add_flows
from sluice.store.schema import applied, policies
from tests.unit.webui.conftest import Client
from tests.unit.webui.records import record

PATH = "/api/v1/scoreboard"
COUNT = 200


def under(engine: Engine, scheme: str, at_s: float, mean_us: float, source: str = "scheduled") -> int:
    """Put a version in force at a time, with a flow each 0.1 s after it. Returns the version."""
    version = put_policy(engine, Policy.from_document({"scheme": scheme}), "test")
    mark_applied(engine, version)
    with engine.begin() as connection:
        connection.execute(policies.update().where(policies.c.version == version).values(created_at=at_s))
        connection.execute(applied.update().where(applied.c.version == version).values(applied_at=at_s))
    times_us = mean_us * np.random.default_rng(version).lognormal(0, 0.5, COUNT)
    changes = {"scheme": scheme, "source": source, "congestion_control": "sluice_dctcp"}
    records = [
        record(f"{version}/{number}", started_at=at_s + number / 10, fct_us=float(fct_us), **changes)
        for number, fct_us in enumerate(times_us)
    ]
    add_flows(engine, [FlowRecord.from_document(one) for one in records])
    return version


@pytest.fixture
def two_versions(engine: Engine) -> None:
    now = time.time()
    under(engine, "dctcp", now - 60, 4000.0)
    under(engine, "pias", now - 30, 2000.0)


def test_scoreboard__empty_before_the_first_flow(client: Client) -> None:
    assert client.get(PATH).json == {
        "source": "scheduled",
        "against": None,
        "confidence_percent": 95,
        "versions": [],
    }


@pytest.mark.usefixtures("two_versions")
def test_scoreboard__flows_count_from_two_seconds_after_the_application(client: Client) -> None:
    first, second = client.get(PATH).json["versions"]
    assert [(one["version"], one["scheme"]) for one in (first, second)] == [(1, "dctcp"), (2, "pias")]
    assert (first["flows"], second["flows"]) == (COUNT - 20, COUNT - 20)
    assert (first["until"], second["until"]) == (second["since"] - 2, None)


@pytest.mark.usefixtures("two_versions")
def test_scoreboard__compares_with_the_first_or_with_the_chosen_version(client: Client) -> None:
    answer = client.get(PATH).json
    figure = answer["versions"][1]["classes"]["small"]["mean_us"]["against"]
    assert answer["against"] == 1
    assert figure["verdict"] == "better"
    assert figure["ratio"] == pytest.approx(0.5, rel=0.2)
    other = client.get(f"{PATH}?against=2").json["versions"][0]["classes"]["small"]["mean_us"]["against"]
    assert other["verdict"] == "worse"
    assert other["ratio"] == pytest.approx(1 / figure["ratio"])


@pytest.mark.usefixtures("two_versions")
def test_scoreboard__an_unknown_version_leaves_all_without_comparison(client: Client) -> None:
    versions = client.get(f"{PATH}?against=9").json["versions"]
    assert [one["miss_ratio"]["against"] for one in versions] == [None, None]
    assert client.get(f"{PATH}?against=0").status_code == 422


def test_scoreboard__counts_the_chosen_traffic(client: Client, engine: Engine) -> None:
    under(engine, "dctcp", time.time() - 60, 4000.0, source="watched")
    assert client.get(PATH).json["versions"] == []
    assert len(client.get(f"{PATH}?source=watched").json["versions"]) == 1
