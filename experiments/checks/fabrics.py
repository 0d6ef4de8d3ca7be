# SPDX-License-Identifier: Apache-2.0
"""A three-tier fabric under DCTCP, PIAS and Sluice: equal-cost paths, oversubscription, dead links, link rates.

Each panel changes one thing about the fabric. Where a change takes capacity from the links between switches, the load
is lower for all fabrics of that panel, so that the busiest of these links stays below 0.8.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from experiments.kit.draw import curve, grid, legend_below, line_of
from experiments.kit.experiment import Claim, Experiment, Given
from experiments.kit.runners import SET, Planned, ShortRuns, axes, one_group
from experiments.kit.runs import Results, Runs, all_finished

SCENARIO = Path(__file__).with_name("fabrics.toml")
SCHEMES = {"dctcp": "DCTCP", "pias": "PIAS", "sluice": "Sluice"}
"""Name → title."""
SLOWDOWN = "slowdown_all_mean"
Tables = Mapping[str, Mapping[str, Any]]


def at_rate(gbit: int) -> Tables:
    """Return links of this rate. Marking threshold and buffer hold the same time as 65 and 240 packets at 10 Gb/s."""
    return {
        "fabric": {
            "host_rate": f"{gbit}Gbit",
            "core_rate": f"{2 * gbit}Gbit",
        },
        "scheme": {"mark_at": f"{65 * gbit // 10}pkt", "buffer": f"{36 * gbit}KB"},
    }


PANELS: Mapping[str, Mapping[str, Tables]] = {
    "equal-cost paths": {
        "per flow": {},
        "per packet": {"simulator": {"multipath": "per-packet"}},
    },
    "oversubscription": {
        "1:1": {"workload": {"load": 0.15}},
        "2:1": {"fabric": {"core_rate": "10Gbit"}, "workload": {"load": 0.15}},
        "4:1": {"fabric": {"core_rate": "5Gbit"}, "workload": {"load": 0.15}},
    },
    "dead links": {
        "none": {"workload": {"load": 0.35}},
        "core": {"fabric": {"down": ["s9-s17"]}, "workload": {"load": 0.35}},
        "edge": {"fabric": {"down": ["s1-s9"]}, "workload": {"load": 0.35}},
    },
    "link rate (Gb/s)": {str(gbit): at_rate(gbit) for gbit in (10, 40, 100, 400)},
}
"""Title → name of each fabric → its difference from the scenario."""


def label(scheme: str, panel: str, fabric: str) -> str:
    """Return the scheme of a point, which names a folder."""
    return re.sub(r"[^A-Za-z0-9]+", "-", f"{scheme} {panel} {fabric}")


def variant(scheme: str, tables: Tables) -> dict[str, Any]:
    """Return a scheme on a fabric. Sluice has the buffer of its default, and timeouts above the time that it holds."""
    others = {name: dict(table) for name, table in tables.items() if name != "scheme"}
    own = dict(tables.get("scheme", {}))
    if scheme == "sluice":
        own.pop("buffer", None)
        others["transport"] = {**others.get("transport", {}), "rto_min": "20ms"}
    return {"name": scheme, **own, **others}


def plan(given: Given) -> Mapping[str, Planned]:
    variants = {
        label(scheme, panel, fabric): variant(scheme, tables)
        for panel, fabrics in PANELS.items()
        for fabric, tables in fabrics.items()
        for scheme in SCHEMES
    }
    return one_group(given, axes(given, SCENARIO, variants=variants))


def means(runs: Runs, scheme: str, panel: str) -> list[float]:
    """Return the mean slowdown on each fabric of a panel, over all seeds."""
    return [fmean(runs.values(SLOWDOWN, label(scheme, panel, fabric))) for fabric in PANELS[panel]]


def claims(results: Results) -> list[Claim]:
    runs = results.runs
    verdict = [all_finished(runs)]
    for panel, fabrics in PANELS.items():
        for scheme, other in (("pias", "dctcp"), ("sluice", "pias")):
            pairs = zip(fabrics, means(runs, scheme, panel), means(runs, other, panel), strict=True)
            ratios = {fabric: ours / theirs for fabric, ours, theirs in pairs}
            text = ", ".join(f"{fabric}: {ratio:.2f}" for fabric, ratio in ratios.items())
            what = f"{panel}: mean slowdown of {SCHEMES[scheme]} over {SCHEMES[other]}"
            verdict.append(Claim(what, "lower", text, max(ratios.values()) < 1))
    return verdict


def draw(results: Results) -> Figure:
    figure, [row] = grid(1, len(PANELS), width=2.8)
    for axes_, (panel, fabrics) in zip(row, PANELS.items(), strict=True):
        places = list(range(len(fabrics)))
        for scheme in SCHEMES:
            values = [results.runs.values(SLOWDOWN, label(scheme, panel, fabric)) for fabric in fabrics]
            curve(axes_, places, values, line_of(scheme))
        axes_.set_xticks(places, list(fabrics))
        axes_.set_title(panel, fontsize="medium")
        axes_.set_ylim(1, None)
    row[0].set_ylabel("mean slowdown")
    legend_below(figure, row[0])
    return figure


EXPERIMENT = Experiment(
    claim="On fat trees, PIAS has a lower mean slowdown than DCTCP, whatever paths, failures and rates.",
    minutes=20,
    runner=ShortRuns(plan),
    seeds=3,
    options=(SET,),
    quick={"seeds": 1, "flows": 600},
    claims=claims,
    draw=draw,
)
