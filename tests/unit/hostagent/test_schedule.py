# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from sluice.hostagent.traffic import load_schedule, write_schedule
from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import write
from sluice.policy.wire.records import Schedule
from tests.unit.hostagent.flows import flow


def document(**changes: Any) -> dict[str, Any]:
    flows = [asdict(flow(2, 0.5)), asdict(flow(1, 0.2)), {**asdict(flow(3)), "src": "h9"}]
    return {"scheme": "pias", "addresses": {"h2": "10.0.0.2"}, "flows": flows} | changes


def load(folder: Path, **changes: Any) -> Schedule:
    path = folder / "schedule.json"
    path.write_text(json.dumps(document(**changes)))
    return load_schedule(path, "h1")


def test_load__own_flows_by_start_time(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    assert [f.id for f in loaded.flows] == ["run/1", "run/2"]
    assert loaded.last_s == 0.5
    assert (loaded.scheme, loaded.persistent) == ("pias", False)


def test_load__what_a_runner_writes(tmp_path: Path) -> None:
    schedule = Schedule(
        "pias",
        "persistent",
        100,
        50,
        {"h2": "10.0.0.2"},
        {"h2": "fd00::2"},
        (flow(1), flow(2, 0.5, deadline_us=3e3)),
    )
    path = tmp_path / "schedule.json.gz"
    write_schedule(path, schedule)
    assert load_schedule(path, "h1") == schedule
    path.write_text(json.dumps(write(schedule)))
    assert load_schedule(path, "h1") == schedule
    assert schedule.names == {"10.0.0.2": "h2", "fd00::2": "h2"}


def test_load__optional_fields_are_absent_or_given(tmp_path: Path) -> None:
    optional = ("until_s", "quench", "label")
    plain = {name: value for name, value in asdict(flow(1)).items() if name not in optional}
    endless = {**asdict(flow(2)), "until_s": 7.5, "importance": 2.0, "label": "b"}
    loaded = load(tmp_path, flows=[plain, endless], sample_ms=100, max_window=50)
    assert not loaded.flows[0].endless
    assert loaded.flows[1].endless
    assert (loaded.flows[1].importance, loaded.flows[1].label, loaded.flows[1].quench) == (2.0, "b", "never")
    assert loaded.last_s == 7.5
    assert (loaded.sample_ms, loaded.max_window) == (100, 50)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"connections": "many"}, "connections"),
        ({"addresses": {}}, "flows[0].dst"),
        ({"flows": [{"id": "x"}]}, "flows[0].start_s"),
        ({"flows": [{**asdict(flow(1)), "quench": "perhaps"}]}, "flows[0].quench"),
        ({"flows": [{**asdict(flow(1)), "size": 5}]}, "flows[0].size"),
        ({"sample_ms": 0}, "sample_ms"),
        ({"max_window": "50"}, "max_window"),
        ({"flows": [{**asdict(flow(1)), "bytes": 39}]}, "flows[0].bytes"),
    ],
)
def test_load__bad_documents_name_the_field(tmp_path: Path, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        load(tmp_path, **changes)
    assert caught.value.field == field


def test_write__an_hour_of_flows_is_small(tmp_path: Path) -> None:
    flows = tuple(flow(number, number / 7, deadline_us=3e3 + number) for number in range(5000))
    path = tmp_path / "schedule.json.gz"
    write_schedule(path, Schedule("pias", addresses={"h2": "10.0.0.2"}, flows=flows))
    assert path.stat().st_size < 40 * len(flows)
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(FieldError, match="not a readable schedule"):
        load_schedule(path, "h1")


def test_load__file_missing_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    with pytest.raises(FieldError, match="not a readable schedule"):
        load_schedule(path, "h1")
    path.write_text(json.dumps(document())[:-5])
    with pytest.raises(FieldError, match="not a readable schedule"):
        load_schedule(path, "h1")
