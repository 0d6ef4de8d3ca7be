# SPDX-License-Identifier: Apache-2.0
"""The work of a run, and how long it will take."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.runs import prediction
from sluice.runs.files import Resolved, scenario_with
from sluice.runs.prediction import Work, check_length, predicted_s, predicted_total_s, predicted_work
from sluice.sweep.points import Point, predicted_works
from tests.kit.known import known


def work(on: str = SIMULATOR, fabric: dict[str, Any] | None = None, **workload: Any) -> float:
    document = {
        "name": "x",
        "fabric": {"topology": "single", "hosts": 4, "host_rate": "100Mbit"} if fabric is None else fabric,
        "scheme": {"name": "dctcp"},
        "workload": {"mix": [{"bytes": "100KB", "share": 1.0}], "flows": 100, "load": 0.5} | workload,
    }
    return known(predicted_work(scenario_with(document), on))


def test_on_the_simulator_it_is_the_bytes_that_cross_ports() -> None:
    assert work(flows=900) == pytest.approx(9 * work())
    assert work(load=0.1) == work()
    assert work(scale=2.0) == pytest.approx(2 * work(), rel=0.01)
    assert work() == pytest.approx(100 * 100_000, rel=0.1)
    assert work(fabric={"topology": "leaf-spine", "hosts_per_leaf": 1}) == 3 * work()


def test_on_the_testbed_it_is_the_time_in_which_flows_start() -> None:
    assert work(TESTBED, load=0.1) == pytest.approx(5 * work(TESTBED))
    assert work(TESTBED) == pytest.approx(100 * 8 * 100_000 / (0.5 * 4 * 1e8), rel=0.1)


def test_a_shift_counts_both_sizes() -> None:
    shift = {"at": 0.25, "mix": [{"bytes": "1MB", "share": 1.0}]}
    assert work(shift=shift) == pytest.approx((0.25 + 0.75 * 10) * work(), rel=0.01)


def test_listed_flows_count_by_themselves() -> None:
    document = {
        "name": "x",
        "fabric": {"topology": "single", "hosts": 3, "host_rate": "8Mbit"},
        "scheme": {"name": "dctcp"},
        "workload": {
            "flow": [{"from": "h1", "to": "h2", "bytes": "1MB"}, {"from": "h3", "to": "h2", "until": "2s"}]
        },
    }
    assert predicted_work(scenario_with(document), SIMULATOR) == 3_000_000
    assert predicted_work(scenario_with(document), TESTBED) == 2.0


def test_a_document_that_is_no_scenario_has_unknown_work() -> None:
    (work,) = predicted_works([Point("dctcp", None, 1, {})], SIMULATOR).values()
    assert work.amount is None


def resolved(flows: int, scheme: str = "dctcp") -> Resolved:
    document = {
        "name": "x",
        "fabric": {"topology": "single", "hosts": 4, "host_rate": "100Mbit"},
        "scheme": {"name": scheme},
        "workload": {"sizes": "web-search", "load": 0.5, "flows": flows},
    }
    return scenario_with(document)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The schemes whose pace was measured. The pace is 1 million hops a second, for pias 2 million."""
    asked: list[str] = []

    def pace(resolved: Resolved) -> float:
        asked.append(resolved.scenario.policy.scheme)
        return 2e6 if asked[-1] == "pias" else 1e6

    monkeypatch.setattr(prediction, "hops_per_s", pace)
    monkeypatch.setattr("sluice.simulator.build.is_fresh", lambda: True)
    return asked


def test_predicted__grows_with_the_flows_and_a_short_run_is_not_measured(measured: list[str]) -> None:
    short, longer = predicted_s(resolved(100), SIMULATOR), predicted_s(resolved(1000), SIMULATOR)
    assert short is not None
    assert longer == pytest.approx(10 * short)
    assert measured == []


def test_predicted__a_long_run_follows_the_measured_pace(measured: list[str]) -> None:
    slow = predicted_s(resolved(10_000_000), SIMULATOR)
    fast = predicted_s(resolved(10_000_000, "pias"), SIMULATOR)
    assert measured == ["dctcp", "pias"]
    assert slow is not None
    assert fast == pytest.approx(slow / 2)


def test_predicted_total__each_scheme_is_measured_once_and_jobs_share_the_work(measured: list[str]) -> None:
    runs = [resolved(10_000_000, scheme) for scheme in ("dctcp", "pias") for _ in range(3)]
    works = [Work("", predicted_work(run, SIMULATOR), run.document) for run in runs]
    one, four = predicted_total_s(works, SIMULATOR), predicted_total_s(works, SIMULATOR, jobs=4)
    assert sorted(measured) == ["dctcp", "dctcp", "pias", "pias"]
    assert four is not None
    assert one == pytest.approx(4 * four)


def test_predicted__the_testbed_runs_in_real_time() -> None:
    """4 hosts of 100 Mb/s at load 0.5: 25 MB each second in all."""
    seconds, half = predicted_s(resolved(1000), TESTBED), predicted_s(resolved(500), TESTBED)
    assert seconds is not None
    assert half == pytest.approx(seconds / 2)
    assert 30 < seconds < 150


def test_hops_per_s__is_measured_within_its_time() -> None:
    pytest.importorskip("sluice.simulator._fabric", reason="the simulator's core is not compiled")
    assert prediction.hops_per_s(resolved(10_000_000), probe_s=0.2) > 10_000


def test_check_length__without_a_terminal_a_long_run_needs_the_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    check_length(3000.0, False)
    check_length(None, False)
    with pytest.raises(SluiceError, match=r"about 3 h 0 min.*--yes"):
        check_length(10_800.0, False)
    check_length(10_800.0, True)
    assert "about 3 h" in capsys.readouterr().err
