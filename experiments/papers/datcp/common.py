# SPDX-License-Identifier: Apache-2.0
"""Common parts of datcp_fig08 … datcp_fig14: set-up, scenarios, claims about runs.

Zhang et al., section 4.1, table 1, has one switch with a buffer of 200 KB. It marks by a variant
of RED with 80 KB, 120 KB and 1.0 on the instantaneous queue. The minimum RTO is 10 ms, the maximum
window 50 packets.

The simulator has the paper's values: 1 Gb/s, 75 µs for each link, flows of 100 MB. The testbed has
a tenth of the rate and sizes, so that the deadlines are the same seconds. It has no propagation
delay, because the queue's 6 to 10 ms are much longer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.kit.draw import grid
from experiments.kit.experiment import Claim, Experiment, Given
from experiments.kit.runners import Plan, Planned, RunAfterRun, named, one_group
from experiments.kit.runs import BOTH_FABRICS, Results, Run
from sluice.policy.fabrics import SIMULATOR
from sluice.policy.units import WIRE_PER_PAYLOAD, format_bytes

PAPER_MBPS = 1000.0
SAMPLE_MS = 100
"""The paper computes throughput at intervals of 0.1 s."""
JITTER_S = 0.02
"""Flows that start together start within this time, by seed. Otherwise all runs would begin alike."""
GRACE_S = 40
"""Enough for 400 MB that start at once: the link carries them in 34 s."""
RECEIVER = "h1"

DATCP: Mapping[str, Any] = {"name": "datcp", "mark_min": "80KB", "mark_max": "120KB"}
TCP: Mapping[str, Any] = {"name": "tcp"}

Flow = dict[str, Any]
"""A [[workload.flow]] table. `start_s` (0 by default) is a number, to which the jitter is added."""


@dataclass(frozen=True)
class Setup:
    """The rate of a fabric. Sizes have the same ratio to the paper's as the rate."""

    link_mbps: float
    links: Mapping[str, Any]
    """Further keys of [fabric]."""

    @property
    def goodput_mbps(self) -> float:
        """Payload rate of a full link: 95.6 % of its rate."""
        return self.link_mbps / WIRE_PER_PAYLOAD

    def size_bytes(self, paper_bytes: int) -> int:
        return round(paper_bytes * self.link_mbps / PAPER_MBPS)


SMALL = Setup(100.0, {})
FULL = Setup(PAPER_MBPS, {"link_delay": "75us"})


def setup_of(given: Given) -> Setup:
    return FULL if given.on == SIMULATOR else SMALL


@dataclass(frozen=True)
class Case:
    """A variant of a figure: the flows of a run, and the scheme."""

    flows: Sequence[Flow]
    scheme: Mapping[str, Any] = field(default_factory=lambda: DATCP)


Cases = Callable[[Given, int], Mapping[str, Case]]
"""Returns the figure's variants by name for a seed."""


def plan(cases: Cases) -> Plan:
    """Return a plan of every variant with every seed."""

    def planned(given: Given) -> Mapping[str, Planned]:
        by_seed = {seed: cases(given, seed) for seed in given.seeds}
        return one_group(
            given,
            [
                named(document(seed, variants[variant], setup_of(given)), variant, seed)
                for variant in by_seed[given.seeds[0]]
                for seed, variants in by_seed.items()
            ],
        )

    return planned


def endless(until_s: float, label: str = "background", **keys: Any) -> Flow:
    return {"until": f"{until_s:g}s", "label": label, **keys}


def sized(size_bytes: int, label: str, deadline_s: float | None = None, **keys: Any) -> Flow:
    flow = {"bytes": f"{size_bytes}B", "label": label, **keys}
    return flow if deadline_s is None else flow | {"deadline": f"{deadline_s:g}s"}


def in_time(size_bytes: int, deadline_s: float) -> str:
    """Return the label of a flow with a deadline, for example 100 MB in 4 s."""
    return f"{format_bytes(size_bytes)} in {deadline_s:g} s"


def document(seed: int, case: Case, setup: Setup) -> dict[str, Any]:
    """Return a scenario in which all flows go to one host, each from a host of its own or a named one."""
    jitter = np.random.default_rng(seed).uniform(0, JITTER_S, len(case.flows))
    placed = []
    for host, (flow, jitter_s) in enumerate(zip(case.flows, jitter, strict=True), start=2):
        keys = {key: value for key, value in flow.items() if key not in ("start_s", "from")}
        start_us = round((flow.get("start_s", 0.0) + jitter_s) * 1e6)
        ends = {"from": flow.get("from", f"h{host}"), "to": RECEIVER}
        placed.append({**ends, "start": f"{start_us}us", **keys})
    return {
        "sample": f"{SAMPLE_MS}ms",
        "grace": f"{GRACE_S}s",
        "fabric": {
            "topology": "single",
            "hosts": max(int(flow["from"][1:]) for flow in placed),
            "host_rate": f"{setup.link_mbps:g}Mbit",
            "buffer": "200KB",
            **setup.links,
        },
        "scheme": dict(case.scheme),
        "transport": {"rto_min": "10ms", "max_window": 50},
        "workload": {"flow": placed, "vary": False},
    }


def experiment(
    number: int,
    claim: str,
    *,
    cases: Cases,
    claims: Callable[[Results], Sequence[Claim]],
    seeds: Sequence[int] = (1, 2, 3),
    quick: Mapping[str, Any] | None = None,
    **fields: Any,
) -> Experiment[Results]:
    """Return the experiment for a figure of the paper. Its last claim is that all runs are valid."""

    def all_claims(results: Results) -> list[Claim]:
        valid, total = sum(run.valid for run in results.runs.runs), len(results.runs.runs)
        return [*claims(results), Claim("valid runs", f"{total}", f"{valid}", valid == total)]

    return Experiment(
        claim=claim,
        figure=f"Zhang et al., Fig. {number}",
        runner=RunAfterRun(plan(cases)),
        on=BOTH_FABRICS,
        seeds=seeds,
        claims=all_claims,
        quick={"seeds": (1,), **(quick or {})},
        **fields,
    )


BACKGROUND = "#8c8c8c"
DEADLINE = "#aa3377"
OTHER = "#4477aa"
COLOURS = {"background": BACKGROUND}
STYLES = ("-", "--", ":", "-.")
MOST_PANELS = 3


def throughputs(
    titles: Mapping[str, str] | None = None, *, colours: Mapping[str, str] = COLOURS, top: float = 0.6
) -> Callable[[Results], Figure]:
    """Return a drawing with a panel for each variant, of its first seed's run.

    `titles`: variant → title of its panel; None: the first three variants by their names.
    `colours`: label of a flow → colour; other flows have that of a deadline. `top`: end of the
    axis as a part of the link's rate.
    """

    def draw(results: Results) -> Figure:
        shown = titles or {name: name for name in results.runs.variants[:MOST_PANELS]}
        width = max(6.5, 4.0 * len(shown)) / len(shown)
        figure, [panels] = grid(1, len(shown), width=width, height=3.6, sharex=True, sharey=True)
        for axes, (variant, title) in zip(panels, shown.items(), strict=True):
            _draw_run(axes, results.runs.at(variant)[0], colours)
            axes.set(title=title, xlabel="seconds", xlim=(0, None))
            axes.set_ylim(0, top * setup_of(results.given).link_mbps)
        panels[0].set_ylabel("throughput (Mb/s)")
        panels[0].legend(frameon=False, fontsize="small")
        return figure

    return draw


def _draw_run(axes: Axes, run: Run, colours: Mapping[str, str]) -> None:
    """Draw a run. Flows of one label share a colour and an entry of the legend."""
    seen: dict[str, int] = {}
    for index, flow in enumerate(run.listed.flows):
        nth = seen[flow.label] = seen.get(flow.label, -1) + 1
        colour, label = colours.get(flow.label, DEADLINE), flow.label if nth == 0 else None
        style = STYLES[nth % len(STYLES)]
        axes.plot(*run.listed.rates(index), color=colour, linestyle=style, linewidth=1.2, label=label)
        if flow.deadline_s is not None:
            axes.axvline(flow.start_s + flow.deadline_s, color=colour, linewidth=0.6, alpha=0.5)
