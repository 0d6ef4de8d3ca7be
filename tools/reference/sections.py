# SPDX-License-Identifier: Apache-2.0
"""The pages with generated tables among written text: rooms of the house, experiments, costs of large networks."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.__main__ import load_all
from experiments.kit.main import README
from experiments.kit.main import table as experiments_table
from tools.reference.markdown import between, code, table

ROOT = Path(__file__).parents[2]
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"
_MANY = 3


def architecture_page() -> str:
    """The architecture page with the table as docs/rooms.toml has it now."""
    rooms = tomllib.loads((ROOT / "docs" / "rooms.toml").read_text())
    rows = []
    for place, (name, room) in enumerate(rooms.items()):
        imports = ", ".join(map(code, room["imports"])) or "nothing"
        if room["imports"] == list(rooms)[:place] and place > _MANY:
            imports = "all rooms above"
        starts = ", ".join(map(code, room["starts"])) or "nothing"
        rows.append((code(f"{name}/"), room["what"], imports, starts))
    return between(
        ARCHITECTURE.read_text(), "rooms", table(("room", "what", "may import", "starts processes of"), rows)
    )


def experiments_page() -> str:
    """The page of all experiments with the table as they describe themselves now."""
    return between(README.read_text(), "experiments", experiments_table(load_all()))


SCALE = ROOT / "docs" / "deploying" / "ten-thousand-switches.md"
COSTS = SCALE.with_name("unit-costs.toml")

INTERVAL_S = 1.0
HEARTBEATS_PER_S = 1.0
RECORDS_PER_S = 1.0
"""Records that a host delivers in a second."""
RECORD_BYTES = 220
SIMULATED_BITS_PER_S = 0.5 * 10e9
"""What each host sends: half of 10 Gb/s."""
LINKS, PACKET_BITS, ACKS = 6, 1500 * 8, 1.25
"""Links of a path between pods, size of a packet, and packets with their ACKs, one for four."""
PODS = (8, 28, 90)

_UNITS = (
    ("controller_us", "a port and interval of the controller, `sluice`", "µs of CPU time"),
    ("controller_kib", "a port in the controller's memory, `sluice`", "KiB"),
    ("heartbeat_us", "a heartbeat at the web process", "µs of CPU time"),
    ("record_us", "a flow record at the web process, with SQLite", "µs of CPU time"),
    ("hop_ns", "a packet-hop of the simulator at 1,024 hosts", "ns of CPU time"),
)


@dataclass(frozen=True)
class FatTree:
    """A fat tree of switches with `pods` ports each, without oversubscription."""

    pods: int

    @property
    def switches(self) -> int:
        return 5 * self.pods**2 // 4

    @property
    def ports(self) -> int:
        return self.switches * self.pods

    @property
    def hosts(self) -> int:
        return self.pods**3 // 4


Costs = Mapping[str, float]
_PLAN: tuple[tuple[str, Callable[[FatTree, Costs], float], str], ...] = (
    ("switches", lambda tree, _: tree.switches, ""),
    ("ports", lambda tree, _: tree.ports, ""),
    ("hosts", lambda tree, _: tree.hosts, ""),
    (
        "controller: ports × cost / interval",
        lambda t, c: t.ports * c["controller_us"] / 1e6 / INTERVAL_S,
        "cores",
    ),
    ("controller: ports × memory", lambda t, c: t.ports * c["controller_kib"] / 2**20, "GiB"),
    (
        "web processes: (hosts + switches) × heartbeats × cost",
        lambda t, c: (t.hosts + t.switches) * HEARTBEATS_PER_S * c["heartbeat_us"] / 1e6,
        "cores",
    ),
    (
        "web processes: hosts × records × cost",
        lambda t, c: t.hosts * RECORDS_PER_S * c["record_us"] / 1e6,
        "cores",
    ),
    ("store: records of a day", lambda t, _: t.hosts * RECORDS_PER_S * 86400 * RECORD_BYTES / 1e9, "GB"),
    (
        "simulator: a second of the network",
        lambda t, c: t.hosts * SIMULATED_BITS_PER_S / PACKET_BITS * ACKS * LINKS * c["hop_ns"] / 1e9 / 3600,
        "hours of a core",
    ),
)


def scale_page() -> str:
    """The page with the tables as unit-costs.toml has them now."""
    costs = tomllib.loads(COSTS.read_text())
    units = table(("unit", "cost", "of"), [(name, f"{costs[key]:,.4g}", of) for key, name, of in _UNITS])
    trees = [FatTree(pods) for pods in PODS]
    headings = ("", *(f"{tree.pods} pods" for tree in trees))
    rows = [(name, *(_shown(cost(tree, costs), unit) for tree in trees)) for name, cost, unit in _PLAN]
    page = between(SCALE.read_text(), "units", f"Measured on {costs['machine']}:\n\n{units}")
    return between(page, "plan", table(headings, rows))


def _shown(value: float, unit: str) -> str:
    """A figure with two digits, or a count with all."""
    if not unit:
        return f"{value:,.0f}"
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f} {unit}" if rounded >= 10 else f"{rounded:g} {unit}"
