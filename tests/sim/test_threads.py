# SPDX-License-Identifier: Apache-2.0
"""One run on several threads: their number changes no byte of the results."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sluice.simulator.network
import sluice.simulator.run
from sluice import cli
from sluice.runs.bundle import read_flows
from sluice.simulator import _fabric as core
from sluice.simulator.network import near_ps
from sluice.simulator.taps import Columns, Taps
from tests.sim import kit
from tests.sim.bottleneck import compiled
from tests.sim.kit import FRAME, GBIT, MS, US, Link
from tests.sim.threaded import FABRICS, digest, simulation

pytestmark = pytest.mark.slow

ONLY_TIMEOUTS = {"scheme": {"name": "tcp"}, "simulator": {"duplicate_threshold": 0}}


@pytest.mark.parametrize(
    ("fabric", "scheme"),
    [
        *[("leaf-spine", scheme) for scheme in ("pias", "pfabric", "sluice", "tcp")],
        ("fat-tree", "mlfq-adaptive"),
        ("long links", "dctcp"),
    ],
)
def test_the_number_of_threads_changes_nothing(fabric: str, scheme: str) -> None:
    changes = {"scheme": {"name": scheme}, "fabric": FABRICS[fabric]}
    assert digest(2, **changes) == digest(1, **changes)


LIMITED: dict[str, Any] = {
    "scheme": {"name": "qjump", "throughput_factors": [2]},
    "workload": {"load": 0.2, "shift": {"at": 0.1, "mix": [{"bytes": "20KB", "share": 1.0, "level": 1}]}},
}
"""Nearly all flows wait in their hosts for later epochs."""


@pytest.mark.parametrize(
    "changes",
    [
        ONLY_TIMEOUTS,
        {"simulator": {"multipath": "per-packet", "packets_per_ack": 4}},
        {"simulator": {"links": "emulated"}},
        {"simulator": {"uplink": "kernel", "tick": "1ms"}},
        LIMITED,
    ],
)
def test_the_number_of_threads_changes_nothing_with_other_settings(changes: dict[str, Any]) -> None:
    one = digest(1, seed=2, **changes)
    assert [digest(threads, seed=2, **changes) for threads in (2, 4)] == [one] * 2
    assert digest(1, seed=4, **changes) != one


def test_packets_are_lost_and_timeouts_expire_in_these_runs() -> None:
    ended: list[Columns] = []
    run = simulation(Taps(ended.append), 2, **ONLY_TIMEOUTS)
    run.run()
    assert run.fabric.packets_dropped > 100
    assert sum(int(columns["timeouts"].sum()) for columns in ended) > 10


def test_how_a_run_is_cut_into_pieces_and_the_width_of_calendars_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = digest(2)
    monkeypatch.setattr(sluice.simulator.run, "SLICE_EVENTS", 1000)
    assert digest(2) == expected
    for factor in (0.01, 7):
        monkeypatch.setattr(
            sluice.simulator.network, "near_ps", lambda topology, f=factor: round(f * near_ps(topology))
        )
        assert digest(2) == expected


@dataclass(frozen=True)
class Cut:
    """The part of each rack's hosts, of its leaf's ports up and down, and of each spine; the stage of each part."""

    hosts: Sequence[int]
    up: Sequence[int]
    down: Sequence[int]
    spine: Sequence[int]
    stages: Sequence[int]


WHOLE = Cut([0] * 3, [0] * 3, [0] * 3, [0] * 2, [0])
AT_HOSTS = Cut([1, 2, 3], [0] * 3, [0] * 3, [0] * 2, [0] * 4)
BY_STAGES = Cut([0, 1, 2], [3, 4, 5], [8, 9, 10], [6, 7], [0] * 6 + [1] * 2 + [2] * 3)


def racks(threads: int, cut: Cut, vary: Callable[[int], int] = lambda most: 0) -> kit.Net:
    """Three racks of four hosts and two spines. `vary` adds to the rate and to the delay of each link."""
    leaves, spines, hosts = 3, 2, 4
    net = kit.Net(
        leaves * hosts,
        leaves + spines,
        kit.transport(rto_min_ps=MS),
        parts=len(cut.stages),
        threads=threads,
        stages=cut.stages,
    )

    def link(bps: int, delay_ps: int = 0) -> Link:
        more = {"mark_bytes": 10 * FRAME}
        return Link(bps + vary(GBIT), delay_ps=delay_ps + US + vary(US), buffer_bytes=30 * FRAME, more=more)

    for host in range(leaves * hosts):
        leaf = host // hosts
        parts = cut.hosts[leaf], *{cut.up[leaf], cut.down[leaf]}
        net.add_port(link(10 * GBIT, 20 * US), leaf, parts=parts)
    for host in range(leaves * hosts):
        leaf = host // hosts
        parts = cut.down[leaf], cut.hosts[leaf]
        down = net.add_port(link(10 * GBIT, 20 * US), host, to_host=True, parts=parts)
        net.route(host // hosts, [host], [down])
    for leaf in range(leaves):
        up = [
            net.add_port(link(10 * GBIT), leaves + spine, parts=(cut.up[leaf], cut.spine[spine]))
            for spine in range(spines)
        ]
        net.route(leaf, [host for host in range(leaves * hosts) if host // hosts != leaf], up)
        for spine in range(spines):
            down = net.add_port(link(10 * GBIT), leaf, parts=(cut.spine[spine], cut.down[leaf]))
            net.route(leaves + spine, range(leaf * hosts, (leaf + 1) * hosts), [down])
    return net


def test_without_ties_the_result_is_that_of_the_whole_network() -> None:
    """Each link has a rate and a delay of its own, so that hardly two events have the same time."""
    seed = 3
    rng = np.random.default_rng(seed)
    count = 300
    source = rng.integers(0, 12, count)
    flows = {
        "bytes": np.ceil(10 ** rng.uniform(2, 6, count)),
        "start_ps": np.sort(rng.integers(0, 4 * MS, count)),
        "source": source,
        "sink": (source + rng.integers(1, 12, count)) % 12,
    }

    def run(threads: int, cut: Cut) -> tuple[dict[str, list[int]], list[list[int]], int]:
        links = np.random.default_rng(seed)
        net = racks(threads, cut, lambda most: int(links.integers(most)))
        net.add(**flows)
        results = {name: column.tolist() for name, column in net.finish().items()}
        net.assert_nothing_left()
        return results, net.fabric.port_statistics().tolist(), net.fabric.hops

    expected = run(1, WHOLE)
    assert sum(expected[0]["retransmissions"]) > 90
    assert sum(expected[0]["timeouts"]) > 0
    for cut in (AT_HOSTS, BY_STAGES):
        assert run(1, cut) == expected
        assert run(2, cut) == expected


@pytest.mark.parametrize("cut", [AT_HOSTS, BY_STAGES])
def test_unfinished_flows_and_senders_are_the_same_on_all_threads(cut: Cut) -> None:
    def state(threads: int) -> list[bytes]:
        net = racks(threads, cut)
        net.add(bytes=[10**7] * 11, start_ps=[0] * 11, source=list(range(1, 12)), sink=[0] * 11)
        assert net.run(2 * MS)
        net.fabric.audit()
        return [
            column.tobytes()
            for rows in (net.fabric.unfinished(), net.fabric.senders())
            for column in rows.values()
        ]

    assert state(1) == state(2) == state(3)


def test_an_error_in_a_thread_ends_the_run() -> None:
    net = kit.Net(2, 2, parts=2, threads=2)
    net.add_port(Link(), 0, parts=(0, 0))
    net.add_port(Link(), 1, parts=(1, 1))
    net.add_port(Link(), 1, parts=(0, 1))
    net.flow(0, 1, 1000)
    with pytest.raises(ValueError, match="switch 0 has no route to host 1"):
        net.run(MS)


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The windows, with parts that do next to nothing."""
    here = Path(__file__).parent
    library = compiled(here / "windows.cpp", tmp_path_factory.mktemp("windows"), here / "fake")
    library.run_windows.argtypes = [ctypes.c_uint, ctypes.c_int64, ctypes.c_int64]
    return library


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_windows__a_stage_begins_when_the_earlier_ones_have_ended(windows: ctypes.CDLL, threads: int) -> None:
    assert windows.run_windows(threads, 3000, 10**6) == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_windows__an_error_after_the_last_part_of_a_window_ends_the_run(
    windows: ctypes.CDLL, threads: int
) -> None:
    for fails_at in range(1, 60):
        assert windows.run_windows(threads, 10**6, fails_at) == 1


IDLE = """
import os, subprocess, sys
from tests.sim.threaded import digest

other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
try:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    flows = {"sizes": "web-search", "pattern": "all-to-all", "load": 0.8, "flows": 8}
    assert digest(2, workload=flows) == digest(1, workload=flows)
finally:
    other.kill()
"""


def test_threads_end_at_idle_priority_beside_a_busy_process() -> None:
    """Threads that only wait must leave the core to those which others wait for."""
    subprocess.run([sys.executable, "-c", IDLE], check=True)


@pytest.mark.parametrize(
    "settings", [{"control": "d3"}, {"control": "pdq"}, {"control": "datcp"}, {"keeps_threshold": True}]
)
def test_the_core_refuses_parts_for_what_needs_both_ends(settings: dict[str, Any]) -> None:
    given = {name: core.Control[value] if name == "control" else value for name, value in settings.items()}
    with pytest.raises(ValueError, match="several parts"):
        kit.Net(2, 2, kit.transport(**given), parts=2)


def test_a_link_between_parts_must_take_time() -> None:
    net = kit.Net(2, 2, parts=2)
    net.add_port(Link(delay_ps=0, more={"burst_bytes": FRAME}), 1, parts=(0, 1))
    with pytest.raises(ValueError, match="must take time"):
        net.run(MS)


def test_the_core_refuses_parts_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="a stage for each"):
        kit.Net(2, 2, parts=2, stages=[0])
    net = kit.Net(2, 2, parts=3)
    with pytest.raises(ValueError, match="far_parts below the number of parts"):
        net.add_port(Link(), 0, parts=(0, 3))
    with pytest.raises(ValueError, match="must not lead back"):
        net.add_port(Link(), 0, parts=(0, 0, 1))
    ports = [net.add_port(Link(), 0, parts=(part, 2)) for part in (0, 1)]
    with pytest.raises(ValueError, match="one part of the network"):
        net.fabric.add_group(ports)


LACKING = """
import resource
from tests.sim.threaded import Taps, simulation

run = simulation(Taps(lambda columns: None), 3)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, resource.RLIM_INFINITY))
run.run()
"""


def test_a_thread_that_the_system_refuses_ends_the_run_with_the_remedy() -> None:
    """A thread's stack of 256 MiB takes more memory than the limit leaves."""
    argv = ["sh", "-c", 'ulimit -s 262144 && exec "$0" -c "$1"', sys.executable, LACKING]
    env = {
        name: value for name, value in os.environ.items() if name != "LD_PRELOAD"
    }  # a sanitizer needs memory
    ended = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "EnvironmentLacking: simulator.threads = 3: the system gives only 1 of 3 threads" in ended.stderr
    assert "set fewer threads" in ended.stderr


def test_run__says_in_one_line_why_one_thread_runs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
        name = "short"
        fabric = {topology = "leaf-spine", link_delay = "1us", host_rate = "1Gbit", core_rate = "2Gbit"}
        scheme = {name = "dctcp"}
        workload = {sizes = "web-search", pattern = "all-to-all", load = 0.2, flows = 20}
    """
    (tmp_path / "short.toml").write_text(text)
    words = ["run", str(tmp_path / "short.toml"), "--on", "simulator", "--out"]
    assert cli.main([*words, str(tmp_path / "whole")]) == 0
    assert "threads:" not in capsys.readouterr().err
    assert cli.main([*words, str(tmp_path / "two"), "--threads", "2"]) == 0
    assert "threads: no link delay is long enough" in capsys.readouterr().err
    assert read_flows(tmp_path / "whole") == read_flows(tmp_path / "two")
