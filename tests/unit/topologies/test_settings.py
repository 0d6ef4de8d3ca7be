# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

import topologies
from dataplane.port import PortSettings
from policy.errors import FieldError
from policy.marking import PortMarking
from topologies.settings import Settings, load_start, port_settings, read_json, write_json


def test_settings_and_graph_survive_their_file(tmp_path):
    graph = topologies.build("dumbbell")
    marking = {"mark_bytes": 30_000, "mark_max_bytes": 60_000, "phantom_mark_bytes": 6_000}
    settings = Settings(tmp_path, tmp_path / "log", web="unix:/x/web.sock", rto_min_ms=5, **marking)
    settings.save(graph)
    assert load_start(settings.start_file) == (settings, graph)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("datapath", "dpdk"),
        ("web", "http://x"),
        ("rto_min_ms", 0),
        ("initial_window", 0),
        ("mark_bytes", 0),
        ("mark_max_bytes", 10),
        ("phantom_mark_bytes", 0),
        ("buffer_bytes", 0),
    ],
)
def test_settings__refuse_and_name_the_field(tmp_path, name, value):
    with pytest.raises(FieldError) as error:
        Settings(tmp_path, tmp_path, **{name: value})
    assert error.value.field == name


def test_settings__the_marking_of_the_ports(tmp_path):
    settings = Settings(tmp_path, tmp_path, mark_bytes=8_000, mark_max_bytes=12_000, buffer_bytes=20_000)
    assert settings.marking == PortMarking(8_000, 20_000, 12_000, None)
    assert port_settings(10**8, settings.marking) == PortSettings(10**8, 8_000, 20_000, 12_000, None)


def test_write_json__replaces_in_one_step_and_leaves_no_part(tmp_path):
    path = tmp_path / "x.json"
    assert read_json(path) is None
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert read_json(path) == {"a": 2}
    assert list(tmp_path.iterdir()) == [path]
