# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policy.desired import Policy
from policy.metrics import summarise
from policy.records import FlowRecord
from sluice.report.runs import find_runs, variants
from sluice.runs.bundle import read_flows, write_bundle
from sluice.runs.versions import by_run, by_time, policy_rows
from store.desired import PolicyVersion
from tests.unit.sluice.bundles import document, flow, random_flows


def version(number: int, scheme: str, at_s: float, **fields: Any) -> PolicyVersion:
    return PolicyVersion(number, Policy.from_document({"scheme": scheme, **fields}), "test", at_s, at_s)


VERSIONS = [version(3, "dctcp", -2.0), version(4, "pias", 100.0, mark_at="12pkt")]
"""Flow n of `random_flows` begins at second n, so flows 0 to 99 are the first version's."""


def flows() -> list[FlowRecord]:
    first = random_flows(1, flows=99, scheme="dctcp")
    second = random_flows(1, flows=200, scheme="pias")[100:]
    return [*first, flow(99, 1000, 5e6, scheme="dctcp"), *second]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = tmp_path / "both"
    write_bundle(
        folder,
        scenario=document("dctcp"),
        meta={"on": "testbed"},
        flows=flows(),
        thresholds=[],
        samples=[],
        validity_reasons=[],
        policies=policy_rows(VERSIONS),
        version_of=by_time(VERSIONS),
    )
    return folder


def test_bundle__each_flow_has_the_version_under_which_it_lived(bundle: Path) -> None:
    rows = read_flows(bundle)
    assert {row["policy_version"] for row in rows[:90]} <= {3, None}
    assert [row["policy_version"] for row in rows[100:102]] == [None, None]  # the hosts settle
    assert {row["policy_version"] for row in rows[102:]} == {4}
    assert rows[99]["policy_version"] is None  # it lived through the change


def test_bundle__has_every_version_with_all_its_fields(bundle: Path) -> None:
    rows = json.loads((bundle / "policies.json").read_text())
    assert [(row["version"], row["policy"]["scheme"]) for row in rows] == [(3, "dctcp"), (4, "pias")]
    assert Policy.from_document(rows[1]["policy"]) == VERSIONS[1].policy


def test_compare__separates_the_flows_by_version(bundle: Path) -> None:
    runs = find_runs([bundle])
    assert [variant.label for variant in variants(runs)] == ["dctcp", "pias"]
    pias = next(run for run in runs if run.scheme == "pias")
    own = flows()[102:]
    assert pias.summary["fct_us"]["all"] == pytest.approx(summarise(own)["fct_us"]["all"])
    assert len(pias.flows().fct_us) == len(own)
    assert pias.document["scheme"]["mark_at"] == 18_000


def test_by_run__the_version_of_the_flows_run() -> None:
    import pyarrow as pa

    rows = pa.table({"id": ["a/1", "b/2", "c/3"]})
    assert by_run({"a": 1, "b": 2})(rows).tolist() == [1, 2, 0]
