# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluice import topologies
from sluice.dataplane.port_settings import PortSettings
from sluice.hostagent.port import settings as port_agent
from sluice.hostagent.port.settings import port_settings, read_json, write_json
from sluice.policy.errors import FieldError
from sluice.policy.schema.desired import PortBehaviour
from sluice.topologies.settings import Settings, load_start


def test_settings_and_graph_survive_their_file(tmp_path: Path) -> None:
    graph = topologies.build("dumbbell")
    behaviour = PortBehaviour(
        30_000,
        200_000,
        60_000,
        6_000,
        urgent_first=True,
        mark_by="queue",
        last_queue=1,
        last_mark_factor=3,
        core_mark_bytes=50_000,
        shares=(0.9, 0.1),
        sub_queues=8,
        release_ns=1_000_000,
    )
    settings = Settings(
        run_dir=tmp_path, log_dir=tmp_path / "log", web="unix:/x/web.sock", rto_min_ms=5, behaviour=behaviour
    )
    settings.save(graph)
    assert load_start(settings.start_file) == (settings, graph)
    of_the_agent = port_agent.PortAgentSettings(run_dir=tmp_path, web=settings.web, behaviour=behaviour)
    assert port_agent.load_start(settings.start_file) == (of_the_agent, graph)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("datapath", "dpdk"),
        ("web", "ftp://x"),
        ("rto_min_ms", 0),
        ("initial_window", 0),
    ],
)
def test_settings__refuse_and_name_the_field(tmp_path: Path, name: str, value: Any) -> None:
    with pytest.raises(FieldError) as error:
        Settings(run_dir=tmp_path, log_dir=tmp_path, **{name: value})
    assert error.value.field == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mark_bytes", 0),
        ("mark_max_bytes", 10),
        ("phantom_mark_bytes", 0),
        ("buffer_bytes", 0),
        ("sub_queues", -1),
        ("release_ns", -1),
    ],
)
def test_settings__refuse_impossible_behaviour(tmp_path: Path, name: str, value: int) -> None:
    fields: dict[str, Any] = {name: value}
    with pytest.raises(FieldError) as error:
        Settings(run_dir=tmp_path, log_dir=tmp_path, behaviour=PortBehaviour(**fields))
    assert error.value.field == name


def test_settings__a_core_threshold_that_no_port_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FieldError, match="mark_bytes"):
        Settings(run_dir=tmp_path, log_dir=tmp_path, behaviour=PortBehaviour(1_000, core_mark_bytes=-1))


def test_port_settings__the_policy_at_the_edge_and_in_the_core() -> None:
    behaviour = PortBehaviour(8_000, 20_000, 12_000, core_mark_bytes=9_000, sub_queues=32, release_ns=7)
    ports = topologies.build("dumbbell").ports
    settings = {port_settings(port, behaviour) for port in ports}
    assert settings == {
        PortSettings(port.rate_bps, 8_000 if port.edge else 9_000, 20_000, 12_000, None, 95, 8, 7)
        for port in ports
    }


def test_write_json__replaces_in_one_step_and_leaves_no_part(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert read_json(path) is None
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert read_json(path) == {"a": 2}
    assert list(tmp_path.iterdir()) == [path]
