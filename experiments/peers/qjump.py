# SPDX-License-Identifier: Apache-2.0
"""QJUMP's guarantee and its price: the latency of level 1 beside full-rate TCP, and against the throughput factor.

Hosts send one receiver messages of a frame. Each sends as many as its limit allows, just before the turn of two epochs
and again just after it: the most that the bound assumes. Then it rests until they have arrived. Beside them, each host
sends TCP without end to the receiver and to its neighbour.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.kit.draw import Line, grid, legend_below
from experiments.kit.experiment import Claim, Experiment, Given
from experiments.kit.flows import read_flow_columns
from experiments.kit.runners import Planned, ShortRuns, named, one_group
from experiments.kit.runs import Results, all_finished
from sluice.policy.units import MSS_BYTES, NS_PER_US
from sluice.runs.files import read_document, scenario_with

SCENARIO = Path(__file__).with_name("qjump.toml")
HOSTS = [f"h{number}" for number in range(1, 17)]
BURSTS, QUICK_BURSTS = 50, 10
REST_EPOCHS = 4
"""From one burst to the next at factor 1; at factor f, f times as long."""
NEAR = 0.1
"""Messages are sent within this part of an epoch before and after its end."""
FACTORS = (1, 2, 4, 8)
QJUMP, TCP, DCTCP = "QJUMP", "TCP", "DCTCP"
LINES = {"all hosts": Line("all hosts", "#cc3311"), "one host of f": Line("one host of f", "#0000cc")}


def variants(hosts: int = len(HOSTS), factors: Sequence[int] = FACTORS) -> dict[str, tuple[str, int, int]]:
    """Variant → its scheme, its throughput factor, and how many hosts send to the receiver."""
    found = {name: (name.lower(), 1, hosts - 1) for name in (QJUMP, TCP, DCTCP)}
    for factor in factors[1:]:
        for who, some in zip(LINES, (hosts, hosts // factor), strict=True):
            if some > 1:  # the receiver is one of the hosts
                found[f"{who}, f = {factor}"] = ("qjump", factor, some - 1)
    return found


def floods(hosts: Sequence[str], until_ns: int) -> list[dict[str, Any]]:
    """TCP without end from each host to the first one, and to its neighbour."""
    pairs = [*((host, hosts[0]) for host in hosts[1:]), *zip(hosts, [*hosts[1:], hosts[0]], strict=True)]
    return [{"from": a, "to": b, "until": f"{until_ns}ns"} for a, b in pairs]


def epoch_ns(scenario: Path = SCENARIO) -> int:
    """The network epoch of the scenario, which is the bound."""
    flow = {"from": "h2", "to": "h1", "bytes": "1KB"}
    return scenario_with(read_document(scenario), workload={"flow": [flow]}).scenario.policy.epoch or 0


def messages_of(factor: int, senders: int, bursts: int, seed: int) -> list[dict[str, Any]]:
    """Return the messages: `factor` of each sender before each turn, and as many after it."""
    rng, epoch, found = np.random.default_rng([seed, factor, senders]), epoch_ns(), []
    for burst in range(1, bursts + 1):
        for source in rng.permutation(HOSTS[1:])[:senders]:
            offsets = rng.uniform(0, NEAR * epoch, (2, factor)) * [[-1], [1]]
            for start_ns in np.floor(burst * REST_EPOCHS * factor * epoch + offsets).ravel():
                found.append({"from": str(source), "to": HOSTS[0], "start": f"{start_ns:.0f}ns"})
    return [{**message, "bytes": f"{MSS_BYTES}B", "level": 1} for message in found]


def plan(given: Given) -> Mapping[str, Planned]:
    document, bursts, points = read_document(SCENARIO), QUICK_BURSTS if given.quick else BURSTS, []
    for variant, (scheme, factor, senders) in variants().items():
        own = {"throughput_factors": [factor]} if scheme == "qjump" else {}
        until_ns = (bursts + 1) * REST_EPOCHS * factor * epoch_ns()
        for seed in given.seeds:
            flows = [*floods(HOSTS, until_ns), *messages_of(factor, senders, bursts, seed)]
            tables: dict[str, Any] = {"scheme": {"name": scheme, **own}, "workload": {"flow": flows}}
            points.append(named(document, variant, seed, **tables))
    return one_group(given, points)


def columns(bundle: Path) -> dict[str, float]:
    """The worst latency of the messages over the bound; infinite with an unfinished one."""
    latency_us = np.nan_to_num(read_flow_columns(bundle).fct_us, nan=np.inf)
    return {"worst": float(latency_us.max()) * NS_PER_US / epoch_ns()}


def claims(results: Results) -> list[Claim]:
    verdict = [all_finished(results.runs, "unfinished messages")]
    for variant in variants():
        worst, bounded = max(results.runs.values("worst", variant)), variant.startswith((QJUMP, "one host"))
        what = f"{variant}: worst latency over the bound, {epoch_ns() / NS_PER_US:.1f} µs"
        limit, holds = ("≤ 1", worst <= 1) if bounded else ("> 1", worst > 1)
        verdict.append(Claim(what, limit, f"{worst:.2f}", holds))
    return verdict


def draw(results: Results) -> Figure:
    """The worst latency against the throughput factor."""
    figure, [[panel]] = grid(1, 1, width=4.5)
    for marker, (who, line) in zip("os", LINES.items(), strict=True):
        names = [QJUMP, *(f"{who}, f = {factor}" for factor in FACTORS[1:])]
        worst = [max(results.runs.values("worst", name)) for name in names]
        panel.plot(FACTORS, worst, marker=marker, label=line.title, color=line.colour)
    panel.axhline(1, color="0.4", linestyle="--")
    panel.set(xlabel="throughput factor f", ylabel="worst latency over the bound", xticks=FACTORS)
    legend_below(figure, panel)
    return figure


EXPERIMENT = Experiment(
    claim="QJUMP's first level has a bounded latency beside any load; a higher throughput factor gives it up.",
    figure="Grosvenor et al., NSDI 2015, section 3",
    minutes=2,
    runner=ShortRuns(plan, columns=columns),
    seeds=(1, 2, 3),
    quick={"seeds": (1,)},
    claims=claims,
    draw=draw,
)
