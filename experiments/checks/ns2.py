# SPDX-License-Identifier: Apache-2.0
"""DCTCP on our simulator against DCTCP on the ns-2 of PIAS's authors, by flow size.

The scenario is pias-144 at load 0.8, with the flows of the authors' scripts. The first run has our simulator as it
is, which is Linux. The next ones, one for each seed, have all settings as in ns-2. The seed decides when the
connections warm up. Each of the others puts one setting back, to show what it changes, or has other flows.
"""

import csv
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import grid
from experiments.kit.experiment import Claim, Experiment, Given, Script, markdown_table, option
from experiments.kit.flows import read_flow_columns
from experiments.kit.runners import NamedPoint, run_all
from sluice.commands.arguments import load_share
from sluice.policy.figures.metrics import Array
from sluice.policy.units import WIRE_PER_PAYLOAD
from sluice.policy.workload.sizes import SizeCdf
from sluice.runs.files import SCENARIOS, load_cdf, read_document
from sluice.sweep.points import points


class SizeRow(NamedTuple):
    """The flows of a range of sizes."""

    least_packets: int
    """A packet has 1460 bytes of payload."""
    most_packets: int
    flows: int
    mean_us: float
    p50_us: float
    p99_us: float

    @property
    def name(self) -> str:
        return f"{self.least_packets:,}–{self.most_packets:,} packets"


def _rows(hosts: int) -> tuple[SizeRow, ...]:
    """Return ns-2's figures on this number of hosts."""
    with Path(__file__).with_name("ns2_rows.csv").open() as file:
        table = [list(map(int, row)) for row in list(csv.reader(file))[1:]]
    return tuple(SizeRow(*row) for of, *row in table if of == hosts)


class Reference(NamedTuple):
    """A run of ns-2."""

    hosts: int
    flows: int
    fabric: Mapping[str, int]
    rows: Sequence[SizeRow]
    all_mean_us: float


ROWS = _rows(144)
FULL = Reference(144, 100_000, {}, ROWS, 17_256.0)
SMALL = Reference(16, 3000, {"leaves": 2, "spines": 2, "hosts_per_leaf": 8}, _rows(16), 14_579.0)
"""Two racks of eight hosts, two spines, 3,000 flows."""
TAIL_ROWS = 5
"""The first rows, up to 140 packets: their p99 is compared, too."""


RATE_BPS = 1e10
PACKET_BYTES, FRAME_BYTES = 1460, 1500
SCRIPT_MEAN_PACKETS = 1138
"""What the scripts take for the mean size of web search."""
WARM_UP_S, WARM_UP_PACKETS = 0.5, 5
FLOWS_AT_S = 0.9
"""When the scripts' flows begin, from the beginning of the warm-up on."""


class Mrg32k3a:
    """Many generators at once (L'Ecuyer, Operations Research 47(1), 1999, section 4), one for each seed."""

    M1, M2 = 4_294_967_087, 4_294_944_443
    A12, A13, A21, A23 = 1_403_580, 810_728, 527_612, 1_370_589

    def __init__(self, seeds: np.ndarray[Any, Any]) -> None:
        self._first = [seeds.astype(np.int64)] * 3
        self._second = [seeds.astype(np.int64)] * 3

    def next(self) -> Array:
        """Return the next number of each generator, above 0 and below 1."""
        first = (self.A12 * self._first[1] - self.A13 * self._first[0]) % self.M1
        second = (self.A21 * self._second[2] - self.A23 * self._second[0]) % self.M2
        self._first = [*self._first[1:], first]
        self._second = [*self._second[1:], second]
        combined = np.where(first > second, first - second, first - second + self.M1)
        numbers: Array = combined / (self.M1 + 1.0)
        return numbers


def flow_tables(flows: int, load: float, sizes: SizeCdf, hosts: int, seed: int) -> list[dict[str, str]]:
    """Return [[workload.flow]] tables: the warm-up, at times by `seed`, and the first flows from FLOWS_AT_S on."""
    starts_s, size_bytes, source, to = columns(flows, load, sizes, hosts)
    return [
        *_tables(*_warm_up(hosts, seed)),
        *_tables(starts_s + FLOWS_AT_S, size_bytes, source, to),
    ]


def _tables(starts_s: Array, size_bytes: Array, source: Array, to: Array) -> list[dict[str, str]]:
    return [
        {"from": f"h{a + 1}", "to": f"h{b + 1}", "bytes": f"{int(n)}B", "start": f"{round(s * 1e9)}ns"}
        for s, n, a, b in zip(starts_s, size_bytes, source, to, strict=True)
    ]


def _warm_up(hosts: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Return the columns of the warm-up: each connection sends five packets at a random time."""
    source, to = (hosts_of_pairs.astype(int) for hosts_of_pairs in _pairs(hosts))
    starts_s = np.random.default_rng(seed).uniform(0, WARM_UP_S, len(source))
    order = np.argsort(starts_s)
    size_bytes = np.full(len(source), WARM_UP_PACKETS * PACKET_BYTES)
    return starts_s[order], size_bytes, source[order], to[order]


def _pairs(hosts: int) -> tuple[Array, Array]:
    """Return the sender and the receiver of each connection, in the order of the scripts."""
    to, source = (pair.ravel() for pair in np.mgrid[0:hosts, 0:hosts])
    pairs = source != to
    return source[pairs], to[pairs]


def columns(flows: int, load: float, sizes: SizeCdf, hosts: int) -> tuple[Array, Array, Array, Array]:
    """Return start in seconds, size in bytes, sender and receiver of the first flows, by start."""
    source, to = _pairs(hosts)
    gaps, places = Mrg32k3a(17 * source + 1244 * to), Mrg32k3a(33 * source + 4369 * to)
    mean_gap_s = SCRIPT_MEAN_PACKETS * FRAME_BYTES * 8 / (load * RATE_BPS) * (hosts - 1)

    start_s, table = np.zeros(len(to)), np.empty((4, 0))
    while np.count_nonzero(table[0] < start_s.min()) < flows:
        start_s = start_s - mean_gap_s * np.log(gaps.next())
        table = np.hstack([table, np.stack([start_s, sizes.at(places.next())[0], source, to])])
    first = np.argsort(table[0], kind="stable")[:flows]
    starts_s, size_bytes, senders, receivers = table[:, first]
    return starts_s, size_bytes, senders.astype(int), receivers.astype(int)


PAYLOAD_BYTES, HEADER_BYTES = PACKET_BYTES, 40
LOAD = 0.8
FIRST_FLOWS = Path(__file__).with_name("ns2_first_flows.csv")
NS2: Mapping[str, Any] = {
    "first_alpha": 1 / 16,
    "cut": "at-once",
    "bounds": "from-first",
    "changes": "by-advance",
    "keep": "threshold",
    "timeout": "fixed",
    "probe_after": 5,
    "ends": "ack",
    "fractions": "keep",
    "alpha_counts": "acks",
    "after_timeout": "spare",
    "busy": "open",
    "sack_option": "2B",
    "payload": f"{PAYLOAD_BYTES}B",
    "headers": f"{HEADER_BYTES}B",
}
TOGETHER = {"timeout": ("timeout", "probe_after"), "payload": ("payload", "headers")}
"""Settings that only make sense together."""
AS_LINUX, AS_NS2 = "Linux", "ns-2"
POISSON, BY_SWITCH = "ns-2 with Poisson flows", "ns-2 without multipath"
MARK_BYTES = 64 * (PAYLOAD_BYTES + HEADER_BYTES)
"""ns-2 marks the packet with which more than 65 wait."""
MEAN_TOLERANCE, TAIL_TOLERANCE, ALL_TOLERANCE = 0.05, 0.10, 0.03


@dataclass(frozen=True)
class Side:
    """A run: the figures of each row, as in the reference."""

    rows: Sequence[SizeRow]
    all_mean_us: float
    reference: Reference = FULL

    def ratios(self, figure: str) -> list[float]:
        """Return ours over ns-2's for each row."""
        return [
            float(getattr(ours, figure)) / float(getattr(theirs, figure))
            for ours, theirs in zip(self.rows, self.reference.rows, strict=True)
        ]

    @property
    def all_ratio(self) -> float:
        return self.all_mean_us / self.reference.all_mean_us


Sides = Mapping[str, Side]


def variants() -> dict[str, dict[str, Any]]:
    """Return the name of each run → its [simulator.tcp]."""
    tables: dict[str, dict[str, Any]] = {AS_LINUX: {}, AS_NS2: dict(NS2)}
    for key in NS2:
        if key in ("probe_after", "headers"):
            continue
        without = TOGETHER.get(key, (key,))
        tables[f"ns-2 without {key}"] = {k: v for k, v in NS2.items() if k not in without}
    return tables | {POISSON: dict(NS2), BY_SWITCH: dict(NS2)}


SMALL_NETWORK = option(
    "--small", "two racks of eight hosts and 3,000 flows: all runs take a few minutes", action="store_true"
)


def measure(given: Given) -> Sides:
    runs_of = {name: [_point(name, tcp, given)] for name, tcp in variants().items()}
    runs_of[AS_NS2] += [_point(AS_NS2, NS2, given, seed) for seed in given.seeds[1:]]
    runs_of |= {f"{scheme} at {load:g}": [_as_ns2(scheme, load, given)] for scheme, load in given["also"]}
    run_all([point for runs in runs_of.values() for point in runs], given.out, given.jobs)
    return {name: side(given, runs) for name, runs in runs_of.items()}


def _point(name: str, tcp: Mapping[str, Any], given: Given, seed: int | None = None) -> NamedPoint:
    point = _as_ns2("dctcp", LOAD, given, seed)
    document: dict[str, Any] = {**point.document, "name": f"ns2-{name}"}
    if "payload" not in tcp:
        document["scheme"] = {**document["scheme"], "mark_at": "65pkt"}
    if name == POISSON:
        document["workload"] = {
            "sizes": "web-search",
            "pattern": "all-to-all",
            "flows": _flows(given),
            "load": round(LOAD * WIRE_PER_PAYLOAD * PAYLOAD_BYTES / (PAYLOAD_BYTES + HEADER_BYTES), 4),
        }
    document["simulator"] = {**document["simulator"], "tcp": dict(tcp)}
    if name in (AS_LINUX, BY_SWITCH):
        document["simulator"]["multipath"] = "per-packet"
    return NamedPoint(name, LOAD, point.seed, document, f"{name.replace(' ', '-')}-{point.seed}")


def _as_ns2(scheme: str, load: float, given: Given, seed: int | None = None) -> NamedPoint:
    """Return a run of pias-144 with a scheme, with the flows of the authors' scripts at this load."""
    seeds = [given.seeds[0] if seed is None else seed]
    (point,) = points(read_document(SCENARIOS / "pias-144.toml"), schemes=[scheme], loads=[load], seeds=seeds)
    document, reference = dict(point.document), _reference(given)
    document["workload"] = {
        "flow": flow_tables(_flows(given), load, load_cdf("web-search"), reference.hosts, point.seed),
        "vary": False,
    }
    document["fabric"] = {**document["fabric"], **reference.fabric}
    document["simulator"] = {**document["simulator"], "multipath": "per-packet-and-host", "tcp": dict(NS2)}
    if "mark_at" in document["scheme"]:
        document["scheme"] = {**document["scheme"], "mark_at": f"{MARK_BYTES}B"}
    return NamedPoint(scheme, load, point.seed, document, f"{scheme}-{load:g}")


def _reference(given: Given) -> Reference:
    return SMALL if given["small"] else FULL


def _flows(given: Given) -> int:
    return min(given.flows, _reference(given).flows)


def scheme_at_load(text: str) -> tuple[str, float]:
    """Read "pias:0.6". Raises argparse.ArgumentTypeError."""
    scheme, _, load = text.partition(":")
    try:
        return scheme, load_share(load)
    except ArgumentTypeError:
        raise ArgumentTypeError(
            f"{text!r}: write a scheme of pias-144 and a load below 1, for example pias:0.6"
        ) from None


ALSO = option(
    "--also",
    "another run as ns-2, for example pias:0.6; its ratios are to ns-2's DCTCP at load 0.8; may be repeated",
    type=scheme_at_load,
    action="append",
    default=[],
    metavar="SCHEME:LOAD",
)


def side(given: Given, runs: Sequence[NamedPoint]) -> Side:
    """Return the figures of all flows of these runs together, without those of the warm-up."""
    parts = []
    for point in runs:
        flows = read_flow_columns(given.out / point.name)
        flows = flows.of(flows.started_s >= (FLOWS_AT_S if "flow" in point.document["workload"] else 0))
        parts.append(np.stack([flows.bytes, flows.fct_us]))
    size_bytes, fct_us = np.hstack(parts)
    packets = -(-size_bytes // PAYLOAD_BYTES)
    rows = []
    for row in ROWS:
        of_row_us = fct_us[(packets >= row.least_packets) & (packets <= row.most_packets)]
        mean_us = p50_us = p99_us = np.nan
        if len(of_row_us):
            mean_us = float(of_row_us.mean())
            p50_us, p99_us = map(float, np.percentile(of_row_us, (50, 99)))
        rows.append(row._replace(flows=len(of_row_us), mean_us=mean_us, p50_us=p50_us, p99_us=p99_us))
    return Side(rows, float(fct_us.mean()), _reference(given))


def claims(sides: Sides) -> list[Claim]:
    ours, verdict = sides[AS_NS2], []
    for what, rows, tolerance in (("mean", ROWS, MEAN_TOLERANCE), ("p99", ROWS[:TAIL_ROWS], TAIL_TOLERANCE)):
        ratios = zip(rows, ours.ratios(f"{what}_us"), strict=False)
        verdict += [_close(f"{row.name}: {what}", ratio, tolerance) for row, ratio in ratios]
    return [*verdict, _close("all flows: mean", ours.all_ratio, ALL_TOLERANCE)]


def _close(what: str, ratio: float, tolerance: float) -> Claim:
    return Claim(f"{what}, ours/ns-2", f"1 ± {tolerance:g}", f"{ratio:.2f}", abs(ratio - 1) <= tolerance)


def numbers(sides: Sides) -> dict[str, Any]:
    return {
        name: {"all_mean_us": ours.all_mean_us, "rows": [row._asdict() for row in ours.rows]}
        for name, ours in sides.items()
    }


def table(sides: Sides) -> str:
    """Return the ratio of the means, ours over ns-2's: a row for each size, a column for each run."""
    sizes = [*(f"{row.least_packets:,}–{row.most_packets:,}" for row in ROWS), "all"]
    columns = [[*ours.ratios("mean_us"), ours.all_ratio] for ours in sides.values()]
    rows = zip(sizes, *([f"{ratio:.2f}" for ratio in column] for column in columns), strict=True)
    return markdown_table(("packets", *sides), rows, " --- ") + "\n"


def draw(sides: Sides) -> Figure:
    """Draw the ratio of mean and p99 over the size of the flow, for both TCPs."""
    figure, rows = grid(1, 2, width=4.5, height=3.2, sharey=True)
    at = [np.sqrt(row.least_packets * row.most_packets) for row in ROWS]
    for axes, (label, key) in zip(rows[0], (("mean", "mean_us"), ("p99", "p99_us")), strict=True):
        for name, colour in ((AS_LINUX, "#0b6e99"), (AS_NS2, "#d9730d")):
            axes.plot(at, sides[name].ratios(key), "o-", color=colour, label=f"our simulator as {name}")
        axes.axhline(1, color="0.4", linewidth=0.8)
        axes.set(xscale="log", xlabel="size of the flow (packets)", title=f"FCT, {label}")
    rows[0][0].set_ylabel("ours / ns-2")
    rows[0][0].legend(frameon=False)
    return figure


EXPERIMENT = Experiment(
    claim="With ns-2's TCP, our simulator gives the FCTs of PIAS's authors' ns-2 at each flow size.",
    minutes=50,
    runner=Script(measure, (ALSO, SMALL_NETWORK)),
    seeds=(1, 2, 3),
    flows=100_000,
    quick={"flows": 2000},
    claims=claims,
    numbers=numbers,
    draw=draw,
    table=table,
)
