# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.policy.errors import EnvironmentLacking, SluiceError
from sluice.policy.fabrics import TESTBED
from sluice.sweep import points, run_points
from sluice.sweep.cluster import HOPS_PER_S, Cluster, batches, limit_minutes, predicted_s
from sluice.sweep.points import Point

SCENARIO: dict[str, Any] = {
    "name": "x",
    "fabric": {"topology": "single", "hosts": 4},
    "scheme": {"name": "dctcp"},
    "workload": {"flows": 1000, "sizes": "web-search", "load": 0.5},
}


def numbered(count: int) -> list[Point]:
    return points(SCENARIO, seeds=range(1, count + 1))


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=40), st.floats(1, 20))
def test_batches__every_point_once_and_no_job_too_long(seconds: list[float], job_minutes: float) -> None:
    wanted = numbered(len(seconds))
    predicted = {point.name: needed for point, needed in zip(wanted, seconds, strict=True)}
    found = batches(wanted, predicted, job_minutes)
    assert sorted(name for names in found.values() for name in names) == sorted(predicted)
    for names in found.values():
        assert len(names) == 1 or sum(predicted[name] for name in names) <= 60 * job_minutes * (1 + 1e-9)


def test_batches__the_longest_points_come_first() -> None:
    wanted = numbered(3)
    predicted = dict(zip((point.name for point in wanted), (10.0, 100.0, 20.0), strict=True))
    assert batches(wanted, predicted, 0.5) == {
        "job-0000": [wanted[1].name],
        "job-0001": [wanted[2].name, wanted[0].name],
    }


def test_predicted_s__grows_with_flows_and_links() -> None:
    (point_s,) = predicted_s(points(SCENARIO, seeds=[1])).values()
    more = {**SCENARIO, "workload": {**SCENARIO["workload"], "flows": 3000}}
    assert [*predicted_s(points(more, seeds=[1])).values()] == [pytest.approx(3 * point_s)]
    farther = {**SCENARIO, "fabric": {"topology": "leaf-spine"}}
    assert min(predicted_s(points(farther, seeds=[1])).values()) > 1.5 * point_s
    mean_bytes = point_s * HOPS_PER_S * 1448 / 1000  # one switch port, 1000 flows
    assert 1.5e6 < mean_bytes < 1.8e6  # web search: 1.6 MB


def test_limit_minutes__leaves_room_for_a_slow_node() -> None:
    assert limit_minutes(["a", "b"], {"a": 60.0, "b": 60.0}) >= 8


def test_options__a_profile_replaces_slurm() -> None:
    assert "slurm" not in Cluster("profile").options(7)
    assert Cluster("profile").options(7)[:2] == ["--jobs", "7"]


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


def test_run_points__the_testbed_does_not_run_on_a_cluster(tmp_path: Any) -> None:
    with pytest.raises(SluiceError, match="only points of the simulator"):
        run_points(numbered(1), tmp_path, on=TESTBED, cluster=Cluster())
