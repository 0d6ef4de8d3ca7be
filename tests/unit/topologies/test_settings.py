# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

import topologies
from policy.errors import FieldError
from topologies.settings import Settings, load_start, read_json, write_json


def test_settings_and_graph_survive_their_file(tmp_path):
    graph = topologies.build("dumbbell")
    settings = Settings(tmp_path, tmp_path / "log", web="unix:/x/web.sock", mark_bytes=30_000, rto_min_ms=5)
    settings.save(graph)
    assert load_start(settings.start_file) == (settings, graph)


@pytest.mark.parametrize(
    ("name", "value"),
    [("datapath", "dpdk"), ("web", "http://x"), ("rto_min_ms", 0), ("initial_window", 0)],
)
def test_settings__refuse_and_name_the_field(tmp_path, name, value):
    with pytest.raises(FieldError) as error:
        Settings(tmp_path, tmp_path, **{name: value})
    assert error.value.field == name


def test_write_json__replaces_in_one_step_and_leaves_no_part(tmp_path):
    path = tmp_path / "x.json"
    assert read_json(path) is None
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert read_json(path) == {"a": 2}
    assert list(tmp_path.iterdir()) == [path]
