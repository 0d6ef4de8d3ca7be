# SPDX-License-Identifier: Apache-2.0
"""ns-3: its libraries from PyPI, our driver compiled with them, and runs of a scenario through the driver.

It uses only the wheel's C++ headers and libraries. The wheel's Python module does not load on
Python 3.11.
"""

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sluice.policy.errors import EnvironmentLacking
from sluice.policy.network.graph import Port, Topology
from sluice.policy.units import FRAME_BYTES, MSS_BYTES
from sluice.policy.workload.flows import FlowBatch
from sluice.policy.workload.scenario import Scenario

VERSION = "3.44.post0"
LIBRARIES = ("core", "network", "internet", "point-to-point", "traffic-control", "stats")
HERE = Path(__file__).parent
SOURCES = HERE / "driver"
SETUP = HERE.parents[2] / ".setup" / "ns3"
PS_PER_NS, PS_PER_US, PS_PER_S = 10**3, 10**6, 10**12


@dataclass(frozen=True)
class Watch:
    """A port whose backlog is recorded at equal intervals."""

    port: str
    every_ps: int


@dataclass(frozen=True)
class Outcome:
    """The results of a scenario on one simulator. Columns are by flow number."""

    fct_us: np.ndarray
    """nan for an unfinished flow."""
    received_bytes: np.ndarray
    retransmissions: np.ndarray
    timeouts: np.ndarray
    packet_hops: int
    seconds: float
    """CPU time of the run."""
    dropped: int
    marked: int
    backlog_bytes: np.ndarray
    """Backlog of the watched port."""
    port_packets: np.ndarray
    """Packets that each switch port sent, in the topology's order."""


def make_driver() -> Path:
    """Return the compiled driver. It is built if a source is newer. EnvironmentLacking names what
    is missing."""
    driver = SETUP / "driver"
    newest = max(source.stat().st_mtime for source in SOURCES.iterdir())
    if driver.exists() and driver.stat().st_mtime >= newest:
        return driver
    libraries = _libraries()
    argv = ["g++", "-std=c++20", "-O2", "-Wall", "-Wextra", "-isystem", str(libraries / "include")]
    partial = driver.with_suffix(".partial")
    argv += [str(SOURCES / "main.cpp"), "-o", str(partial), f"-L{libraries / 'lib64'}"]
    argv += [f"-Wl,-rpath,{libraries / 'lib64'}", *(f"-lns{VERSION[:4]}-{name}" for name in LIBRARIES)]
    _run(argv, "the driver cannot be compiled against ns-3: install g++ 12 or later")
    return partial.rename(driver)


def _libraries() -> Path:
    """Return the unpacked wheel. It is fetched if it is missing."""
    libraries = SETUP / "wheel" / "ns3"
    if libraries.exists():
        return libraries
    SETUP.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    _run(
        [*argv, "--dest", str(SETUP), f"ns3=={VERSION}"],
        f"PyPI has no wheel ns3 {VERSION} for this Python and machine: only this experiment needs it",
    )
    (wheel,) = SETUP.glob("ns3-*.whl")
    partial = SETUP / "wheel.partial"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(partial)
    partial.rename(SETUP / "wheel")
    wheel.unlink()
    return libraries


def _run(argv: Sequence[str], remedy: str) -> str:
    try:
        result = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise EnvironmentLacking(f"{argv[0]} is not installed; {remedy}") from None
    if result.returncode:
        raise EnvironmentLacking(f"{remedy}:\n{result.stderr[-3000:]}")
    return result.stdout


def run_on_ns3(
    scenario: Scenario,
    topology: Topology,
    flows: FlowBatch,
    until_s: float,
    folder: Path,
    watch: Watch | None = None,
    *,
    mended: bool = True,
) -> Outcome:
    """Run the same flows on ns-3. Its input and output files stay in `folder`.

    `mended` corrects two mistakes of the release (driver/mended.hpp).
    """
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        *network_lines(topology),
        *setting_lines(scenario, topology, until_s, watch, mended=mended),
    ]
    network, rows = "\n".join([*lines, ""]), "\n".join(["id,start_ps,src,dst,bytes", *flow_lines(flows), ""])
    driver, totals = make_driver(), folder / "totals.json"
    is_done = (  # the results come from this driver and this input
        totals.exists()
        and totals.stat().st_mtime > driver.stat().st_mtime
        and (folder / "network.txt").read_text() == network
        and (folder / "flows.csv").read_text() == rows
    )
    if not is_done:
        totals.unlink(missing_ok=True)
        (folder / "network.txt").write_text(network)
        (folder / "flows.csv").write_text(rows)
        argv = [str(driver), *(str(folder / name) for name in ("network.txt", "flows.csv", "ns3.csv"))]
        totals.write_text(_run(argv, "ns-3 failed"))
    return _outcome(folder, topology)


def _outcome(folder: Path, topology: Topology) -> Outcome:
    totals = json.loads((folder / "totals.json").read_text())
    table = np.loadtxt(folder / "ns3.csv", delimiter=",", skiprows=1, dtype=np.int64, ndmin=2)
    return Outcome(
        fct_us=np.where(table[:, 1] < 0, np.nan, table[:, 1] / PS_PER_US),
        received_bytes=table[:, 2],
        retransmissions=table[:, 3],
        timeouts=table[:, 4],
        packet_hops=totals["packet_hops"],
        seconds=totals["seconds"],
        dropped=totals["dropped"],
        marked=totals["marked"],
        backlog_bytes=np.asarray(totals["watched"], np.int64),
        port_packets=np.asarray([totals["sent"][i] for i in queue_numbers(topology)]),
    )


def links(topology: Topology) -> list[Port]:
    """Return one port of each link: the switch's at a host's link, the first of two between switches."""
    seen: set[tuple[str, int]] = set()
    chosen = []
    for port in topology.ports:
        if (port.switch, port.number) not in seen:
            chosen.append(port)
            seen.add((port.peer, port.peer_port))
    return chosen


def queue_numbers(topology: Topology) -> list[int]:
    """Return the queue numbers of the switches' ports. A link has two queues; its listed port has
    the first one."""
    number = {}
    for i, port in enumerate(links(topology)):
        number[port.switch, port.number] = 2 * i
        number[port.peer, port.peer_port] = 2 * i + 1
    return [number[port.switch, port.number] for port in topology.ports]


def network_lines(topology: Topology) -> Iterator[str]:
    """Yield nodes (hosts, then switches), links and routes. Equal-cost ports are in the simulator's order."""
    nodes = [host.name for host in topology.hosts] + [switch.name for switch in topology.switches]
    number = {name: i for i, name in enumerate(nodes)}
    yield f"nodes {len(topology.hosts)} {len(topology.switches)}"
    for port in links(topology):
        yield f"link {number[port.switch]} {number[port.peer]} {port.rate_bps} {port.delay_ns * PS_PER_NS}"
    link_of = dict(zip(topology.ports, (queue // 2 for queue in queue_numbers(topology)), strict=True))
    for switch in topology.switches:
        for host in topology.hosts:
            ports = topology.next_ports(switch.name, host.name)
            ways = " ".join(str(link_of[port]) for port in ports)
            yield f"route {number[switch.name]} {number[host.name]} {ways}"


def setting_lines(
    scenario: Scenario, topology: Topology, until_s: float, watch: Watch | None, *, mended: bool
) -> Iterator[str]:
    """Yield the settings that the simulator derives from the same tables (simulator/network.py, ports.py)."""
    settings = {
        "payload_bytes": MSS_BYTES,
        "header_bytes": FRAME_BYTES - MSS_BYTES,
        "mark_bytes": scenario.policy.port_marking.mark_bytes,
        "buffer_bytes": scenario.policy.buffer,
        "initial_window": scenario.transport.initial_window,
        "rto_min_ps": scenario.transport.rto_min_us * PS_PER_US,
        "rto_initial_ps": scenario.simulator.rto_initial_us * PS_PER_US,
        "packets_per_ack": scenario.simulator.packets_per_ack,
        "ack_delay_ps": scenario.simulator.ack_delay_ns * PS_PER_NS,
        "end_ps": round(until_s * PS_PER_S),
        "mended": int(mended),
    }
    if watch:
        at = [port.id for port in links(topology)].index(watch.port)
        settings |= {"watch_link": at, "watch_first": 1, "watch_every_ps": watch.every_ps}
    for name, value in settings.items():
        yield f"set {name} {value}"


def flow_lines(flows: FlowBatch) -> Iterator[str]:
    start_ps = np.rint(flows.start_s * PS_PER_S).astype(np.int64)
    for i in range(len(flows)):
        yield f"{flows.first + i},{start_ps[i]},{flows.src[i]},{flows.dst[i]},{flows.bytes[i]}"
