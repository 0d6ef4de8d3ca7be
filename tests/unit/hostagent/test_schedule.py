# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import asdict, fields

import pytest

from hostagent.schedule import ScheduledFlow, load_schedule, schedule_from_document
from policy.errors import FieldError
from policy.workload import Flow
from tests.unit.hostagent.flows import flow


def document(**changes):
    flows = [asdict(flow(2, 0.5)), asdict(flow(1, 0.2)), {**asdict(flow(3)), "src": "h9"}]
    return {
        "connections": "new",
        "scheme": "pias",
        "addresses": {"h2": "10.0.0.2"},
        "flows": flows,
    } | changes


def test_fields_are_those_of_the_policy():
    assert [f.name for f in fields(ScheduledFlow)] == [f.name for f in fields(Flow)]


def test_own_flows_by_start_time():
    loaded = schedule_from_document(document(), "h1")
    assert [f.id for f in loaded.flows] == ["run/1", "run/2"]
    assert loaded.last_s == 0.5
    assert (loaded.scheme, loaded.persistent) == ("pias", False)


def test_optional_fields__absent_or_given():
    plain = {
        name: value for name, value in asdict(flow(1)).items() if name not in ("until_s", "quench", "label")
    }
    endless = {**asdict(flow(2)), "until_s": 7.5, "importance": 2.0, "label": "b"}
    loaded = schedule_from_document(document(flows=[plain, endless], sample_ms=100, max_window=50), "h1")
    assert not loaded.flows[0].endless
    assert loaded.flows[1].endless
    assert (loaded.flows[1].importance, loaded.flows[1].label, loaded.flows[1].quench) == (2.0, "b", "never")
    assert loaded.last_s == 7.5
    assert (loaded.sample_ms, loaded.max_window) == (100, 50)


def test_persistent():
    assert schedule_from_document(document(connections="persistent"), "h1").persistent


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"connections": "many"}, "connections"),
        ({"addresses": {}}, "flows[0].dst"),
        ({"flows": [{"id": "x"}]}, "flows[0]"),
        ({"flows": [{**asdict(flow(1)), "quench": "perhaps"}]}, "flows[0].quench"),
        ({"sample_ms": 0}, "sample_ms"),
        ({"max_window": "50"}, "max_window"),
        ({"flows": [{**asdict(flow(1)), "bytes": 39}]}, "flows[0].bytes"),
    ],
)
def test_bad_documents_name_the_field(changes, field):
    with pytest.raises(FieldError) as caught:
        schedule_from_document(document(**changes), "h1")
    assert caught.value.field == field


def test_load__file_missing_or_damaged(tmp_path):
    path = tmp_path / "schedule.json"
    with pytest.raises(FieldError, match="not a readable schedule"):
        load_schedule(path, "h1")
    path.write_text(json.dumps(document())[:-5])
    with pytest.raises(FieldError, match="not a readable schedule"):
        load_schedule(path, "h1")
