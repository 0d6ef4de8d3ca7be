# SPDX-License-Identifier: Apache-2.0
"""Figures of completed flows, and the scoreboard of schemes."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.policy.wire.records import SIZE_CLASSES, FlowRecord
from sluice.store.desired import mark_applied, put_policy
from sluice.store.flow_queries import FlowColumns, flow_columns
from sluice.store.flows import add_flows
from sluice.store.observed import PortSample, ThresholdChange
from sluice.store.schema import applied, policies
from sluice.webui import figures
from sluice.webui.figures import RecentFlows
from tests.unit.webui.conftest import Client
from tests.unit.webui.records import record

PATH = "/api/v1/scoreboard"
COUNT = 100


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


def test_scoreboard__counts_the_chosen_traffic(client: Client, engine: Engine) -> None:
    under(engine, "dctcp", time.time() - 60, 4000.0, source="watched")
    assert client.get(PATH).json["versions"] == []
    assert len(client.get(f"{PATH}?source=watched").json["versions"]) == 1


Row = tuple[float, float | None, str, bool | None]
"""(at, fct_us or None, size class, met or None)"""


def columns(rows: Sequence[Row]) -> FlowColumns:
    """Return the rows as columns."""
    at, fct, size_class, met = zip(*rows, strict=True) if rows else ((),) * 4
    return FlowColumns(
        at=np.array(at, dtype=float),
        fct_us=np.array(fct, dtype=float),
        slowdown=np.array(fct, dtype=float) / 1000,
        size_class=np.array([SIZE_CLASSES.index(name) for name in size_class], dtype=np.uint8),
        scheme=np.zeros(len(at), dtype=np.int32),
        has_deadline=np.array([m is not None for m in met], dtype=bool),
        missed=np.array([m is False for m in met], dtype=bool),
        watched=np.zeros(len(at), dtype=bool),
    )


FLOWS = st.lists(
    st.tuples(
        st.floats(1000, 1060),
        st.one_of(st.none(), st.floats(1, 1e7)),
        st.sampled_from(["small", "medium", "large"]),
        st.sampled_from([None, True, False]),
    ),
    max_size=80,
)


@given(FLOWS, st.sampled_from([0.5, 2.0, 7.0]))
def test_fct_series__each_bin_is_what_numpy_says_of_its_flows(rows: list[Row], bin_s: float) -> None:
    series = figures.fct_series(columns(rows), 1000, 1060, bin_s)
    for i, start in enumerate(series["at"]):
        inside = [
            f for at, f, c, _ in rows if at // bin_s == start // bin_s and f is not None and c == "small"
        ]
        assert series["small"]["n"][i] == len(inside)
        if not inside:
            assert series["small"]["mean"][i] is series["small"]["p99"][i] is None
            continue
        assert series["small"]["mean"][i] == pytest.approx(np.mean(inside), rel=1e-6, abs=0.1)
        for share in (50, 95, 99):
            assert series["small"][f"p{share}"][i] == pytest.approx(
                np.percentile(inside, share), rel=1e-9, abs=0.1
            )


@given(FLOWS)
def test_series__no_flow_is_lost_between_bins(rows: list[Row]) -> None:
    flows = columns(rows)
    assert sum(figures.fct_series(flows, 1000, 1060, 2)["all"]["n"]) == sum(
        f is not None for _, f, _, _ in rows
    )
    series = figures.deadline_series(flows, 1000, 1060, 2)
    totals = figures.deadline_totals(flows)
    assert (sum(series["n"]), sum(series["missed"])) == (totals["n"], totals["missed"])


def sample(at: float, *counts: int) -> PortSample:
    return PortSample(at, "s1:1", counts, counts)


def test_port_rates__a_counter_that_went_back_gives_no_rate() -> None:
    rates = figures.port_rates([sample(1, 500, 10), sample(2, 0, 0), sample(3, 125, 0), sample(3, 250, 0)])[
        "s1:1"
    ]
    assert [rate["rate_bps"] for rate in rates] == [1000]


def test_thinned__keeps_the_last_of_each_port_and_interval() -> None:
    changes = [
        ThresholdChange(at, port, 1, (1000,), 9) for at in (0.1, 0.2, 0.9, 1.5) for port in ("s1:1", "s1:2")
    ]
    kept = figures.thinned(changes, 1)
    assert [(c.at, c.port) for c in kept] == [(0.9, "s1:1"), (0.9, "s1:2"), (1.5, "s1:1"), (1.5, "s1:2")]
    assert figures.thinned(changes, 0) == changes


def add(engine: Engine, first: int, count: int, **changes: Any) -> None:
    add_flows(
        engine, [FlowRecord.from_document(record(f"f{i}", **changes)) for i in range(first, first + count)]
    )


def same(one: FlowColumns, other: FlowColumns) -> bool:
    def rows(columns: FlowColumns) -> list[tuple[Any, ...]]:
        arrays = (columns.at, columns.size_class, columns.scheme, columns.has_deadline, columns.missed)
        return sorted(zip(*arrays, strict=True))

    return rows(one) == rows(other)


def test_since__is_what_the_store_says(engine: Engine) -> None:
    recent = RecentFlows(engine)
    assert len(recent.since(time.time() - 60)) == 0
    for turn in range(4):
        add(engine, turn * 10, 10, started_at=time.time() - 30 * turn, scheme=f"scheme{'x' * turn}")
        for window_s in (10, 45, 100):
            at = time.time() - window_s
            assert same(recent.since(at), flow_columns(engine, at))
    assert len(recent.since(time.time() - 200)) == 40


def test_since__reads_each_record_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    recent = RecentFlows(engine)
    add(engine, 0, 50)
    read: list[int] = []
    original = FlowColumns.from_rows

    def counted(rows: Sequence[tuple[Any, ...]]) -> FlowColumns:
        read.append(len(rows))
        return original(rows)

    monkeypatch.setattr(FlowColumns, "from_rows", staticmethod(counted))
    for _ in range(5):
        assert len(recent.since(time.time() - 60)) == 50
    add(engine, 50, 1)
    assert len(recent.since(time.time() - 60)) == 51
    assert sum(read) == 51


def test_since__forgets_what_is_older_than_the_span(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [time.time()]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    recent = RecentFlows(engine)
    for turn in range(3):
        add(engine, turn, 1)
        recent.since(clock[0] - 10)
        clock[0] += 1
    clock[0] += figures.SPAN_S
    recent.since(clock[0] - 10)
    assert len(recent._flows) == 0


def test_since__a_full_memory_gives_the_newest_flows_and_asks_the_store_only_for_the_past(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "MOST_COLUMNS", 45)
    recent = RecentFlows(engine)
    began = time.time() - 900
    for turn in range(12):
        add(engine, turn * 10, 10, started_at=began + turn)
        recent.since(time.time() - 0.001)
    asked: list[float] = []
    monkeypatch.setattr(figures, "flow_columns", lambda _, at, until: asked.append(until))
    held = recent.since(began - 60)
    assert len(held) == 45
    assert set(held.at // 1) == {(began + turn + 0.002) // 1 for turn in range(7, 12)}
    assert not asked
    recent.since(began - 60, began + 60)
    assert asked == [began + 60]
