# SPDX-License-Identifier: Apache-2.0
"""The bundle, and the version of each flow."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.figures.metrics import summarise
from sluice.policy.schema.desired import Policy
from sluice.policy.wire.records import FlowRecord
from sluice.report.runs import find_runs, variants
from sluice.runs.bundle import (
    VersionOf,
    by_run,
    by_time,
    machine_meta,
    policy_rows,
    read_flows,
    read_ports,
    replaced_by_others,
)
from sluice.runs.folder import bundles, describe, entries, entry_of, read_plain
from sluice.runs.progress import progress_file
from sluice.store.desired import PolicyVersion
from sluice.store.observed import PortSample, ThresholdChange
from tests.kit.bundles import document, flow, random_flows, record, sweep, write_bundle

FLOW = record(1)
LOST = record(2, fct_us=None, deadline_us=5.0, met=False, status="unfinished")


def test_write_bundle__holds_what_the_run_produced(tmp_path: Path) -> None:
    summary = write_bundle(
        tmp_path,
        scenario={"name": "x"},
        meta=machine_meta(seed=4),
        flows=[FLOW, LOST],
        thresholds=[ThresholdChange(2.0, "s1:1", 1, (10_000,), 7)],
        samples=[PortSample(1.0, "s1:1", (5, 6), (1, 1))],
        validity_reasons=["the CPU was saturated"],
    )
    assert summary["valid"] == {"ok": False, "reasons": ["the CPU was saturated"], "remarks": []}
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert json.loads((tmp_path / "meta.json").read_text())["seed"] == 4
    rows = read_flows(tmp_path)
    assert [row["slowdown"] for row in rows] == [2.0, None]
    assert rows[1]["status"] == "unfinished"
    assert rows[1]["timeouts"] is rows[1]["path"] is None
    assert "drops" not in summary
    assert read_ports(tmp_path, "thresholds")[0]["thresholds_bytes"] == [10_000]
    assert read_ports(tmp_path, "queues")[0]["queue_bytes"] == [5, 6]


def version(number: int, scheme: str, at_s: float, **fields: Any) -> PolicyVersion:
    return PolicyVersion(number, Policy.from_document({"scheme": scheme, **fields}), "test", at_s, at_s)


VERSIONS = [version(3, "dctcp", -2.0), version(4, "pias", 100.0, mark_at="12pkt")]
"""Flow n of `random_flows` begins at second n, so flows 0 to 99 are the first version's."""


def flows() -> list[FlowRecord]:
    first = random_flows(1, flows=99, scheme="dctcp")
    second = random_flows(1, flows=200, scheme="pias")[100:]
    return [*first, flow(99, 1000, 5e6, scheme="dctcp"), *second]


def write(folder: Path, records: list[FlowRecord], versions: list[PolicyVersion], lived: VersionOf) -> Path:
    write_bundle(
        folder,
        scenario=document("dctcp"),
        meta={"on": "testbed"},
        flows=records,
        policies=policy_rows(versions),
        version_of=lived,
    )
    return folder


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write(tmp_path / "both", flows(), VERSIONS, by_time(VERSIONS))


def test_bundle__each_flow_has_the_version_under_which_it_lived(bundle: Path) -> None:
    rows = read_flows(bundle)
    assert {row["policy_version"] for row in rows[:90]} <= {3, None}
    assert [row["policy_version"] for row in rows[100:102]] == [None, None]  # the hosts settle
    assert {row["policy_version"] for row in rows[102:]} == {4}
    assert rows[99]["policy_version"] is None  # it lived through the change


def test_compare__separates_the_flows_by_version(bundle: Path) -> None:
    runs = find_runs([bundle])
    assert [variant.label for variant in variants(runs)] == ["dctcp", "pias"]
    pias = next(run for run in runs if run.scheme == "pias")
    own = flows()[102:]
    assert pias.summary["fct_us"]["all"] == pytest.approx(summarise(own)["fct_us"]["all"])
    assert len(pias.flows().fct_us) == len(own)
    assert pias.document["scheme"]["mark_at"] == 18_000


def test_compare__leaves_out_flows_of_several_versions_also_if_one_version_has_flows(tmp_path: Path) -> None:
    versions = [VERSIONS[0], version(4, "pias", 5.0)]
    records = [flow(1, 1000, 500.0), flow(2, 1000, 9e6), flow(3, 1000, None)]
    (run,) = find_runs([write(tmp_path / "one", records, versions, by_time(versions))])
    assert (run.version, run.scheme, run.summary["fct_us"]["all"]["n"]) == (3, "dctcp", 1)
    assert run.summary["unfinished"] == 0


def test_compare__refuses_a_bundle_in_which_no_flow_has_one_version(tmp_path: Path) -> None:
    versions = [VERSIONS[0], version(4, "pias", 5.0)]
    folder = write(tmp_path / "none", [flow(2, 1000, 9e6)], versions, by_time(versions))
    with pytest.raises(SluiceError, match="no flow lived wholly under one version"):
        find_runs([folder])


def test_compare__separates_equal_policies_of_different_versions(tmp_path: Path) -> None:
    versions = [version(3, "dctcp", -2.0), version(4, "pias", 50.0), version(5, "dctcp", 100.0)]
    records = random_flows(1, flows=40, scheme="dctcp") + random_flows(1, flows=200, scheme="dctcp")[110:]
    folder = write(tmp_path / "again", records, versions, by_time(versions))
    labels = [variant.label for variant in variants(find_runs([folder]))]
    assert labels == ["dctcp (version 3)", "dctcp (version 5)"]


def test_by_time__a_flow_of_a_slow_simulation_began_earlier_than_its_record_says() -> None:
    rows = pa.table({"started_at": [99.0, 110.0], "fct_us": [2e6, 2e6], "scheme": ["dctcp", "pias"]})
    versions = [VERSIONS[0], version(4, "pias", 105.0)]
    assert by_time(versions, 1.0)(rows).tolist() == [3, 4]
    assert by_time(versions, 4.0)(rows).tolist() == [3, 0]  # from 104 to 112 s


def test_by_run__a_flow_that_outlived_its_version_counts_for_none() -> None:
    rows = in_runs("a", "a", "a", "b", fct_us=[1e6, 3e6, None, None])
    assert by_run({"a": 1, "b": 2}, {1: 12.0})(rows).tolist() == [1, 0, 0, 2]


def test_replaced_by_others__when_someone_else_changed_the_policy() -> None:
    versions = [version(1, "tcp", 0.0), version(2, "pias", 5.0), version(3, "dctcp", 9.0)]
    other = PolicyVersion(4, versions[0].policy, "web", 11.0, 12.0)
    assert replaced_by_others([*versions, other], "test") == {3: 11.0}


def in_runs(*runs: str, fct_us: list[float | None] | None = None) -> pa.Table:
    """Return flows of these runs that began at 10 s."""
    return pa.table(
        {
            "id": [f"{run}/{i}" for i, run in enumerate(runs)],
            "started_at": [10.0] * len(runs),
            "fct_us": pa.array(fct_us or [1e6] * len(runs), pa.float64()),
        }
    )


KILLED_STATE = {"pid": 1, "born": 1, "name": "", "scheme": "", "on": "simulator", "started_at": 1.0}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a sweep of two points, a run that lives, and a bundle outside that links lead to."""
    root = tmp_path / "runs"
    sweep(root / "deep" / "sweep", ["dctcp", "pias"], [0.5], [1])
    outside = sweep(tmp_path / "outside", ["tcp"], [0.5], [1])
    (root / "link").symlink_to(outside)
    (root / "linked").mkdir()
    (root / "linked" / "scenario.json").symlink_to("/etc/passwd")
    return root


def test_entries__a_sweep_is_one_entry_and_links_are_not_followed(root: Path) -> None:
    assert [(entry.name, entry.kind) for entry in entries(root)] == [("deep/sweep", "sweep")]


def test_describe__a_sweep_counts_its_points_and_a_run_has_its_figures(root: Path) -> None:
    (root / "deep" / "sweep" / "sweep.json").unlink()  # the points are bundles of their own now
    documents = [describe(entry) for entry in entries(root)]
    assert {document["name"] for document in documents} == {
        "deep/sweep/dctcp/load-0.5/seed-01",
        "deep/sweep/pias/load-0.5/seed-01",
    }
    (first, _) = documents
    assert first["state"] == "done"
    assert first["figures"]["classes"]["all"]["n"] > 0


def test_describe__a_run_is_under_way_only_while_its_process_lives(root: Path) -> None:
    with progress_file(root / "a", name="x", scheme="pias", on="simulator"):
        assert describe(entry_of(root, "a"))["state"] == "running"
        kept = json.loads((root / "a" / "progress.json").read_text())
    (root / "a" / "progress.json").write_text(json.dumps({**kept, "born": 1}))
    assert describe(entry_of(root, "a"))["state"] == "lost"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        "../outside",
        "deep/../../outside",
        "/etc",
        "link",
        "linked",
        "deep//sweep",
        "a\0b",
        "x" * 999,
    ],
)
def test_entry_of__no_name_leads_out_of_the_folder(root: Path, name: str) -> None:
    with pytest.raises(FieldError, match="no run"):
        entry_of(root, name)


def test_bundles__one_with_a_link_among_its_files_is_left_out(root: Path) -> None:
    entry = entry_of(root, "deep/sweep")
    first, second = bundles(entry)
    (first / "summary.json").rename(root / "elsewhere.json")
    (first / "summary.json").symlink_to(root / "elsewhere.json")
    assert bundles(entry) == [second]


def test_sweep__an_interrupted_point_is_not_finished(root: Path) -> None:
    entry = entry_of(root, "deep/sweep")
    first, second = bundles(entry)
    names = {str(path.relative_to(entry.path)): {"scheme": "x"} for path in (first, second)}
    (entry.path / "sweep.json").write_text(json.dumps({"on": "simulator", "points": names}))
    assert (describe(entry)["state"], describe(entry)["finished"]) == ("done", 2)
    (entry.path / "progress.json").write_text(json.dumps(KILLED_STATE))
    assert describe(entry)["reason"] == ""  # its last point had ended
    meta = json.loads((first / "meta.json").read_text())
    (first / "meta.json").write_text(json.dumps({**meta, "interrupted": True}))
    assert (describe(entry)["state"], describe(entry)["finished"]) == ("partial", 1)
    assert "killed?" in describe(entry)["reason"]
    assert bundles(entry) == [second]


def test_read_plain__neither_links_nor_pipes_nor_what_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("{}")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "text").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    assert read_plain(tmp_path / "file") == {}
    assert [read_plain(tmp_path / name) for name in ("link", "text", "pipe", "missing")] == [None] * 4
