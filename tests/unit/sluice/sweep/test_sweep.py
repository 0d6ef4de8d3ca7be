# SPDX-License-Identifier: Apache-2.0
"""The points of a sweep, its table, its start, its jobs on a cluster, and its progress."""

import json
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from sluice.cli import main
from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.runs.files import changed, read_document, scenario_from_file
from sluice.runs.folder import SWEEP, describe, entry_of
from sluice.runs.progress import DONE, FAILED, RUNNING, ProgressFile
from sluice.sweep.points import POINT_LOG, STATUS, Point, is_finished, points
from sluice.sweep.run import Cluster, SweepProgress, batches, note, progress_of, run_points, sweep_file
from sluice.sweep.table import figures, headline, rows, terminal_table
from tests.kit.bundles import bundle, document, flow
from tests.kit.pages import DOCS

SCENARIO = """
name = "small"
seed = 5
[fabric]
topology = "single"
hosts = 4
host_rate = "1Gbit"
[scheme]
name = "dctcp"
mark_at = "20pkt"
[workload]
sizes = "web-search"
load = 0.4
flows = 100
"""

PLAN = """
[sweep]
schemes = ["dctcp", "pias", "pias-10KB"]
loads = [0.5, 0.8]
[sweep.scheme.pias]
queues = 3
thresholds = ["10KB", "1MB"]
[sweep.scheme.pias.0.8]
thresholds = ["20KB", "2MB"]
[sweep.scheme.pias.transport]
rto_min = "2ms"
[sweep.scheme.pias-10KB]
name = "pias"
queues = 2
thresholds = ["10KB"]
[sweep.scheme.pias-10KB.simulator]
multipath = "per-packet"
"""


def names(found: Iterable[Point]) -> list[str]:
    return [point.name for point in found]


def only(found: Iterable[Point], name: str) -> Point:
    (point,) = [point for point in found if point.name == name]
    return point


def test_points__every_combination_in_order() -> None:
    found = points(tomllib.loads(SCENARIO), schemes=["tcp", "dctcp"], loads=[0.5, 0.85], seeds=[1, 12])
    assert names(found) == [
        f"{scheme}/load-{load}/seed-{seed:02d}"
        for scheme in ("tcp", "dctcp")
        for load in (0.5, 0.85)
        for seed in (1, 12)
    ]
    last = found[-1].document
    assert (last["scheme"]["name"], last["workload"]["load"], last["seed"]) == ("dctcp", 0.85, 12)


def test_points__without_axes_it_is_the_scenario_itself() -> None:
    document = tomllib.loads(SCENARIO)
    (point,) = points(document)
    assert point.name == "dctcp/load-0.4/seed-05"
    assert point.document == document


@pytest.mark.parametrize(
    ("changes", "given", "expected"),
    [
        ({}, {}, [5, 6, 7, 8, 9]),
        ({}, {"seeds": [3]}, [3]),
        ({}, {"on": "testbed"}, [5]),
        ({}, {"most": 4}, [5]),
        ({"workload.flows": 10_000_000}, {}, [5]),
        ({}, {"loads": [load / 100 for load in range(30, 70, 4)]}, [5] * 10),
    ],
)
def test_points__short_ones_on_the_simulator_have_five_seeds(
    changes: dict[str, object], given: dict[str, Any], expected: list[int]
) -> None:
    wanted = points(changed(tomllib.loads(SCENARIO), changes), **{"on": "simulator", **given})
    assert [(point.seed, point.document["seed"]) for point in wanted] == [(seed, seed) for seed in expected]


def test_points__listed_flows_without_variation_have_one_seed() -> None:
    document = tomllib.loads((DOCS / "reference" / "example-listed-flows.toml").read_text())
    assert len(points(document, on="simulator")) == 5
    assert len(points(changed(document, {"workload.vary": False}), on="simulator")) == 1


def test_points__the_scenario_says_axes_that_the_caller_does_not() -> None:
    found = points(tomllib.loads(SCENARIO + PLAN), loads=[0.3])
    assert names(found) == [f"{name}/load-0.3/seed-05" for name in ("dctcp", "pias", "pias-10KB")]


def test_points__settings_of_a_scheme_and_of_its_loads() -> None:
    found = points(tomllib.loads(SCENARIO + PLAN))
    low, high = (only(found, f"pias/load-{load}/seed-05").document for load in (0.5, 0.8))
    assert low["scheme"] == {"name": "pias", "queues": 3, "thresholds": ["10KB", "1MB"]}
    assert high["scheme"]["thresholds"] == ["20KB", "2MB"]
    assert low["transport"] == high["transport"] == {"rto_min": "2ms"}
    variant = only(found, "pias-10KB/load-0.8/seed-05").document
    assert variant["scheme"] == {"name": "pias", "queues": 2, "thresholds": ["10KB"]}
    assert "transport" not in variant
    assert (variant["simulator"], "simulator" in low) == ({"multipath": "per-packet"}, False)


def test_points__settings_are_over_everything() -> None:
    found = points(
        tomllib.loads(SCENARIO + PLAN), settings={"transport.rto_min": "7ms", "fabric.buffer": "90KB"}
    )
    assert {point.document["transport"]["rto_min"] for point in found} == {"7ms"}
    assert {point.document["fabric"]["buffer"] for point in found} == {"90KB"}


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"schemes": ["dctpc"]}, r'dctpc/load-0\.4/seed-05: scheme\.name: "dctpc" is not a scheme'),
        ({"loads": [1.5]}, r"dctcp/load-1\.5/seed-05: workload\.load"),
        ({"schemes": ["../dctcp"]}, "cannot name a folder"),
        ({"settings": {"seed": 3}}, "seed is an axis of the sweep; set it with --seeds"),
        ({"settings": {"workload.flaws": 3}}, r"workload\.flaws"),
        ({"settings": {"name.x": 3}}, "name is not a table"),
    ],
)
def test_points__errors_name_the_point_and_the_key(axes: dict[str, Any], message: str) -> None:
    with pytest.raises(SluiceError, match=message):
        points(tomllib.loads(SCENARIO), **axes)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("[sweep]\nload = [0.5]", r"sweep\.load"),
        ("[sweep]\nloads = 0.5", "must be a list"),
        ("[sweep]\nscheme = 3", r"sweep\.scheme\.dctcp: must be a table"),
        ("[sweep.scheme.dctcp]\ntransport = 3", r"sweep\.scheme\.dctcp\.transport: must be a table"),
        ("[sweep.scheme.dctcp]\nmark = 3", r"scheme\.mark"),
    ],
)
def test_points__a_plan_with_an_error_is_refused(plan: str, message: str) -> None:
    with pytest.raises(SluiceError, match=message):
        points(tomllib.loads(f"{SCENARIO}\n{plan}\n"))


def test_scenario_from_file__a_plan_for_sweeps_does_not_keep_a_scenario_from_running(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO + PLAN)
    assert scenario_from_file(path)[1] == tomllib.loads(SCENARIO)
    assert len(points(read_document(path))) == 6


def point(
    folder: Path, scheme: str, seed: int, fct_us: float, *, unfinished: int = 0, reasons: Sequence[str] = ()
) -> Point:
    """Return a point and write its bundle, with one flow and some that did not finish."""
    made = Point(scheme, 0.5, seed, document(scheme, seed))
    flows = [flow(1, 5000, fct_us, scheme=scheme), *(flow(9 + i, 5000, None) for i in range(unfinished))]
    bundle(folder / made.name, made.document, flows, reasons=reasons)
    return made


def text(table: Sequence[dict[str, Any]], width: int = 200) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(terminal_table(table))
    return capture.get()


def test_rows__one_a_point_with_the_figures_of_its_summary(tmp_path: Path) -> None:
    found = rows(tmp_path, [point(tmp_path, "dctcp", 1, 100.0), point(tmp_path, "pias", 1, 50.0)])
    assert [(row["scheme"], row["load"], row["seed"]) for row in found] == [
        ("dctcp", 0.5, 1),
        ("pias", 0.5, 1),
    ]
    summary = json.loads((tmp_path / found[1]["bundle"] / "summary.json").read_text())
    assert found[1]["fct_us_small_p99"] == summary["fct_us"]["small"]["p99"] == 50.0
    assert figures(summary).items() <= found[1].items()


def test_terminal_table__mean_and_deviation_over_the_seeds(tmp_path: Path) -> None:
    found = rows(tmp_path, [point(tmp_path, "dctcp", 1, 1000.0), point(tmp_path, "dctcp", 2, 3000.0)])
    assert "over 2 seeds" in text(found)
    assert "2.00 ± 1.41" in text(found)


def test_terminal_table__seeds_with_the_same_flows_are_said(tmp_path: Path) -> None:
    found = rows(tmp_path, [point(tmp_path, "dctcp", seed, 1000.0) for seed in (1, 2, 3)])
    assert "2 of 3 seeds repeat the flows of another" in text(found)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"unfinished": 2}, "2 flows unfinished"),
        ({"reasons": ["the CPU was saturated"]}, "1 of 1 runs not valid"),
    ],
)
def test_terminal_table__what_is_doubtful_is_said(tmp_path: Path, made: dict[str, Any], said: str) -> None:
    assert said in text(rows(tmp_path, [point(tmp_path, "dctcp", 1, 1000.0, **made)]))


# ── Behaviour that tests/sim/test_sweep.py does not cover. Nothing runs here ───────────────────


def finished_point(folder: Path) -> Point:
    point = Point("dctcp", 0.5, 1, document())
    bundle(folder / point.name, point.document, [flow(1, 5000, 70.0)])
    return point


def test_is_finished__only_of_the_very_same_scenario(tmp_path: Path) -> None:
    point = finished_point(tmp_path)
    assert is_finished(tmp_path, point)
    assert not is_finished(tmp_path, Point("dctcp", 0.5, 1, document(fabric={"hosts": 8})))
    assert not is_finished(tmp_path, Point("dctcp", 0.5, 2, document(seed=2)))


def test_is_finished__half_a_summary_is_none(tmp_path: Path) -> None:
    point = finished_point(tmp_path)
    summary = tmp_path / point.name / "summary.json"
    summary.write_text(summary.read_text()[:-10])
    assert not is_finished(tmp_path, point)


def test_run_points__nothing_to_do_starts_nothing(tmp_path: Path) -> None:
    point = finished_point(tmp_path)
    outcome = run_points([point], tmp_path)
    assert (outcome.finished, outcome.failed) == ([point], {})
    assert not (tmp_path / point.name / POINT_LOG).exists()


def test_run_points__the_testbed_runs_one_at_a_time(tmp_path: Path) -> None:
    with pytest.raises(SluiceError, match="--jobs: must be 1 on the testbed"):
        run_points([finished_point(tmp_path)], tmp_path, on=TESTBED, jobs=2)


def test_run_points__a_folder_keeps_to_one_fabric(tmp_path: Path) -> None:
    run_points([finished_point(tmp_path)], tmp_path)
    with pytest.raises(SluiceError, match="holds a sweep on the simulator; give another folder with --out"):
        run_points([finished_point(tmp_path)], tmp_path, on=TESTBED)


def test_batches__every_point_once_and_no_job_too_long() -> None:
    rng = np.random.default_rng(1)
    for job_minutes in (1.0, 5.0, 20.0):
        wanted = [Point("dctcp", 0.5, seed, {}) for seed in range(40)]
        predicted = {point.name: float(rng.uniform(1, 1000)) for point in wanted}
        found = batches(wanted, predicted, job_minutes)
        assert sorted(name for names in found.values() for name in names) == sorted(predicted)
        for names in found.values():
            assert len(names) == 1 or sum(predicted[name] for name in names) <= 60 * job_minutes


def test_check__says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("snakemake", "snakemake_executor_plugin_slurm"):
        monkeypatch.setitem(sys.modules, library, None)
    for cluster in (Cluster(), Cluster("profile")):
        with pytest.raises(EnvironmentLacking, match=r"pip install 'sluice\[cluster\]'"):
            cluster.check()
    monkeypatch.setattr("sluice.runtime.extras.find_spec", lambda name: name)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(SluiceError, match="there is no sbatch here"):
        Cluster().check()


# ── The progress ───────────────────────────────────────────────────────────────────────────────


POINTS = [Point(scheme, 0.5, 1, document(scheme)) for scheme in ("dctcp", "pias")]


@pytest.fixture
def begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a sweep that has begun. The terminal is wide, because the folder's path has no fixed length."""
    monkeypatch.setenv("COLUMNS", "400")
    config = {"on": SIMULATOR, "points": {point.name: {"scheme": point.scheme} for point in POINTS}}
    (tmp_path / "sweep.json").write_text(json.dumps(config))
    return tmp_path


def test_sweep_file__lives_as_long_as_the_sweep_and_counts_its_points(
    begun: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.runs.progress.WRITE_EVERY_S", 0.0)
    with sweep_file(begun, POINTS, SIMULATOR) as file:
        note(file, SweepProgress(2, 1, 0, {}, 0.5, 30.0))
        known = describe(entry_of(begun.parent, begun.name))
        assert main(["top", "--once", str(begun)]) == 0
    assert (known["kind"], known["state"]) == (SWEEP, "running")
    during = " ".join(capsys.readouterr().out.split())
    assert "dctcp, pias on the simulator, 50%, 1/2 points, about 30 s left" in during
    assert not (begun / "progress.json").exists()
    assert main(["top", "--once", str(begun)]) == 0
    assert "sweep, 0 of 2 points done" in " ".join(capsys.readouterr().out.split())


def status(folder: Path, point: str, state: str, share: float = 0.0) -> None:
    file = ProgressFile(folder / STATUS / point, name="x", scheme="pias", on=SIMULATOR)
    file._end(state=state, share=share)


def test_progress__the_time_left_follows_from_the_work_that_is_over(tmp_path: Path) -> None:
    """Points a and b are those of earlier calls."""
    works = {"c": 1.0, "d": 3.0, "e": None, "f": 2.0}
    assert progress_of(tmp_path, 6, works, 5.0) == SweepProgress(6, 2, 0, {}, 2 / 6, None)
    status(tmp_path, "c", DONE, 1.0)
    status(tmp_path, "d", RUNNING, 0.5)
    found = progress_of(tmp_path, 6, works, 10.0)
    assert (found.finished, found.failed, list(found.running)) == (3, 0, ["d"])
    assert found.remaining_s == pytest.approx(10 * 5.5 / 2.5), "e counts as a mean one"
    assert found.share == pytest.approx((2 + 4 * 2.5 / 8) / 6)
    for point, state in (("d", DONE), ("e", FAILED), ("f", DONE)):
        status(tmp_path, point, state, 1.0)
    assert progress_of(tmp_path, 6, works, 20.0) == SweepProgress(6, 5, 1, {}, 1.0, 0.0)


def test_headline__says_what_is_known() -> None:
    running: Any = {"a": None}
    progress = SweepProgress(12, 7, 1, running, 0.6, 200.0)
    assert headline(progress) == "7 of 12 points done, 1 running, 1 failed, about 3 min left"
    assert headline(SweepProgress(2, 0, 0, {}, 0, None)) == "0 of 2 points done, time left still unknown"
    assert headline(SweepProgress(2, 2, 0, {}, 1, 0.0)) == "2 of 2 points done"
