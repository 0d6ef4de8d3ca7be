# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sluice.policy.errors import SluiceError
from sluice.runs.files import read_document, scenario_from_file, setting
from sluice.sweep import points
from sluice.sweep.points import Point

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
        "tcp/load-0.5/seed-01",
        "tcp/load-0.5/seed-12",
        "tcp/load-0.85/seed-01",
        "tcp/load-0.85/seed-12",
        "dctcp/load-0.5/seed-01",
        "dctcp/load-0.5/seed-12",
        "dctcp/load-0.85/seed-01",
        "dctcp/load-0.85/seed-12",
    ]
    last = found[-1].document
    assert (last["scheme"]["name"], last["workload"]["load"], last["seed"]) == ("dctcp", 0.85, 12)


def test_points__without_axes_it_is_the_scenario_itself() -> None:
    document = tomllib.loads(SCENARIO)
    (point,) = points(document)
    assert point.name == "dctcp/load-0.4/seed-05"
    assert point.document == document


def test_points__an_axis_given_twice_is_run_once() -> None:
    assert len(points(tomllib.loads(SCENARIO), loads=[0.5, 0.5], seeds=[1, 1])) == 1


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


def test_points__a_quoted_load_is_the_same_load() -> None:
    plan = PLAN.replace("[sweep.scheme.pias.0.8]", '[sweep.scheme.pias."0.8"]')
    assert points(tomllib.loads(SCENARIO + plan)) == points(tomllib.loads(SCENARIO + PLAN))


def test_points__one_schemes_settings_are_not_anothers() -> None:
    found = points(tomllib.loads(SCENARIO), schemes=["dctcp", "tcp"])
    assert [point.document["scheme"] for point in found] == [
        {"name": "dctcp", "mark_at": "20pkt"},
        {"name": "tcp"},
    ]


def test_points__settings_are_over_everything() -> None:
    found = points(
        tomllib.loads(SCENARIO + PLAN), settings={"transport.rto_min": "7ms", "fabric.buffer": "90KB"}
    )
    assert {point.document["transport"]["rto_min"] for point in found} == {"7ms"}
    assert {point.document["fabric"]["buffer"] for point in found} == {"90KB"}


def test_points__the_document_is_left_as_it_was() -> None:
    document = tomllib.loads(SCENARIO + PLAN)
    points(document, settings={"fabric.buffer": "90KB"})
    assert document == tomllib.loads(SCENARIO + PLAN)


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("workload.flows=10", ("workload.flows", 10)),
        ("transport.rto_min=2ms", ("transport.rto_min", "2ms")),
        ('scheme.thresholds=["1KB", "2KB"]', ("scheme.thresholds", ["1KB", "2KB"])),
        ("workload.scale=0.5", ("workload.scale", 0.5)),
    ],
)
def test_setting__toml_or_text(text: str, expected: tuple[str, Any]) -> None:
    assert setting(text) == expected


@pytest.mark.parametrize("text", ["workload.flows", "=3", "workload..flows=3"])
def test_setting__says_how_it_is_written(text: str) -> None:
    with pytest.raises(SluiceError, match="must be key=value"):
        setting(text)


def test_scenario_from_file__a_plan_for_sweeps_does_not_keep_a_scenario_from_running(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO + PLAN)
    assert scenario_from_file(path)[1] == tomllib.loads(SCENARIO)
    assert len(points(read_document(path))) == 6
