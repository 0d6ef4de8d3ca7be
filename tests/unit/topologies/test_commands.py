# SPDX-License-Identifier: Apache-2.0
"""Commands that make a testbed, its processes, the names within it, and its settings."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sluice import topologies
from sluice.dataplane.port_settings import PortSettings
from sluice.hostagent.port import settings as port_agent
from sluice.hostagent.port.queues import queues
from sluice.hostagent.port.settings import port_settings, read_json, write_json
from sluice.policy.errors import FieldError
from sluice.policy.network.graph import host
from sluice.policy.schema.desired import PortBehaviour
from sluice.topologies import commands, processes
from sluice.topologies.settings import Settings, load_start


def test_network__every_bridge_is_secure_and_has_all_controllers() -> None:
    graph, targets = topologies.build("leaf-spine"), ["tcp:127.0.0.1:6653", "tcp:127.0.0.1:6654"]
    argv = commands.network(graph, controllers=targets, datapath_type="netdev").argv
    for word in ("fail_mode=secure", *(f'target="{target}"' for target in targets)):
        assert argv.count(word) == len(graph.switches)
    assert "controller=@s6_controller0,@s6_controller1" in argv


def test_host__the_minimum_rto_is_in_the_routes_unless_the_kernel_has_a_sysctl() -> None:
    assert (
        commands.host_links(host(1), rto_min_ms=10, initial_window=12).count("initcwnd 12 rto_min 10ms\n")
        == 2
    )
    assert "rto_min" not in commands.host_links(host(1), rto_min_ms=None, initial_window=10)
    assert commands.host_sysctls(10)["net.ipv4.tcp_rto_min_us"] == "10000"
    assert "net.ipv4.tcp_rto_min_us" not in commands.host_sysctls(None)


def test_switch_ports__the_credit_of_the_root_class_is_the_mtu() -> None:
    ports = topologies.build("single", hosts=2, host_rate_bps=50_000_000).ports
    (batch, *offloads) = commands.switch_ports(ports)
    assert batch.stdin is not None
    assert batch.stdin.count("mtu 12500 ") == 2
    assert f"other_config:burst={12_500 * 8}" in queues(ports[0])
    assert [c.argv[:3] for c in offloads] == [["ethtool", "-K", "s1-eth1"], ["ethtool", "-K", "s1-eth2"]]
    assert "tx off" in " ".join(offloads[0].argv)


def test_children__of_this_process() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        assert child.pid in processes.children(os.getpid())
    finally:
        child.communicate()
    assert child.pid not in processes.children(os.getpid())


def test_the_processes_of_a_testbed_start_without_numpy() -> None:
    """It takes a quarter of a second of each start, and no process of a testbed uses it."""
    loaded = (
        "import sys, sluice.topologies.supervisor, sluice.hostagent.port.agent; print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_settings_and_graph_survive_their_file(tmp_path: Path) -> None:
    graph = topologies.build("dumbbell")
    behaviour = PortBehaviour(
        30_000,
        200_000,
        60_000,
        phantom_mark_bytes=6_000,
        mark_chance=0.5,
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
    ("field", "changes"),
    [
        ("web", {"web": "ftp://x"}),
        ("mark_bytes", {"behaviour": PortBehaviour(mark_bytes=0)}),
        ("release_ns", {"behaviour": PortBehaviour(release_ns=-1)}),
    ],
)
def test_settings__refuse_and_name_the_field(tmp_path: Path, field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(FieldError) as error:
        Settings(run_dir=tmp_path, log_dir=tmp_path, **changes)
    assert error.value.field == field


def test_port_settings__the_policy_at_the_edge_and_in_the_core() -> None:
    behaviour = PortBehaviour(8_000, 20_000, 12_000, core_mark_bytes=9_000, sub_queues=32, release_ns=7)
    ports = topologies.build("dumbbell").ports
    settings = {port_settings(port, behaviour) for port in ports}
    assert settings == {
        PortSettings(
            8_000 if port.edge else 9_000, 20_000, 12_000, rate_bps=port.rate_bps, sub_queues=8, release_ns=7
        )
        for port in ports
    }


def test_write_json__replaces_in_one_step_and_leaves_no_part(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert read_json(path) is None
    write_json(path, {"a": 1})
    write_json(path, {"a": 2})
    assert read_json(path) == {"a": 2}
    assert list(tmp_path.iterdir()) == [path]
