# SPDX-License-Identifier: Apache-2.0
"""The runs of Gutiérrez et al., section 4, and their figures, shared by the experiments.

dyna_fig5 … dyna_fig8 read the same runs (dyna.toml): static and dynamic thresholds from 1, 10 and
1000 KB, five loads, several seeds. `CAUSES` changes one thing of the set-up at a time, to explain
differences from the paper's figures.
"""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.kit.experiment import Given
from experiments.kit.flows import Flows, means, percentile, read_flow_columns
from experiments.kit.runners import Planned, axes, one_group, shared_runs
from experiments.kit.runs import Series
from sluice.policy.schemes import SCHEMES
from sluice.runs.files import read_document
from sluice.sweep.points import Point

SCENARIO = Path(__file__).with_name("dyna.toml")
STARTS = ("1KB", "10KB", "1000KB")
FLOWS = 10_000
SHORT_BYTES = 10_000
SETTLED_S = 0.25
"""By this time the ports have adjusted the thresholds once, at 0.2 s, and the flows of that moment
have ended."""
BOTTLENECK_PORT = "s1:1"
"""The switch port of N0, to which all flows go."""
STATIC_COLOUR, DYNAMIC_COLOUR = SCHEMES["pias"].colour, SCHEMES["mlfq-adaptive"].colour

SHARED: Mapping[str, Any] = {
    "minutes": 2,
    "seeds": (1, 2, 3, 4, 5),
    "flows": FLOWS,
    "options": (shared_runs("dyna", ", which dyna_fig5 … dyna_fig8 share"),),
    "quick": {"seeds": (1, 2, 3)},
}
"""Options of dyna_fig5 … dyna_fig8."""


def figures_of(flows: Flows) -> dict[str, float]:
    """Return mean and p99 of short and long flows in microseconds. ValueError: a flow did not finish."""
    fct_us, short = flows.need_finished().fct_us, flows.bytes <= SHORT_BYTES
    groups = {"short": fct_us[short], "long": fct_us[~short]}
    return means(groups) | {f"{name}_p99": percentile(values, 99) for name, values in groups.items()}


def settled(figure: str) -> str:
    """Return the column of the same figure for flows that started after the first adjustment."""
    return f"{figure}_settled"


def columns(bundle: Path) -> dict[str, float]:
    """Return the figures of all flows, and of those after the first adjustment."""
    flows = read_flow_columns(bundle)
    after = figures_of(flows.of(flows.started_s >= SETTLED_S))
    return figures_of(flows) | {settled(name): value for name, value in after.items()}


def plan(given: Given) -> Mapping[str, Planned]:
    """Return every run of the paper's section 4."""
    return one_group(given, axes(given, SCENARIO), runs_folder(given))


def runs_folder(given: Given) -> Path:
    """Return the runs' folder. Runs with another number of flows have a folder of their own."""
    folder: Path = given["runs"]
    return folder if given.flows == FLOWS else folder.with_name(f"{folder.name}-{given.flows}")


def settles(series: Series) -> float | None:
    """Return the time in seconds after which the threshold stays at the short flows' size; None: never."""
    if series[-1][1] != SHORT_BYTES:
        return None
    return next(
        at for i, (at, _) in enumerate(series) if all(threshold == SHORT_BYTES for _, threshold in series[i:])
    )


HEADERS_COUNTED = {
    "mix": [
        {"bytes": "10KB", "share": 0.8, "from": ["h3"]},
        {"bytes": "1028KB", "share": 0.2, "from": ["h2", "h4"]},
    ]
}
"""1000 KB in packets of 1460 bytes with 40 bytes of header each, all of them counted. So the last
28 KB are above a threshold of 1000 KB."""

CAUSES: Mapping[str, Mapping[str, Any]] = {
    "as-is": {},
    "window-10": {"transport": {"connections": "new", "initial_window": 10}},
    "buffer-3600KB": {"fabric": {"buffer": "3600KB"}},
    "no-marks": {"scheme": {"mark_at": "100MB"}},
    "no-marks-3600KB": {"scheme": {"mark_at": "100MB"}, "fabric": {"buffer": "3600KB"}},
    "rto-10ms": {"transport": {"rto_min": "10ms"}},
    "headers-counted": {"workload": HEADERS_COUNTED},
    "headers-window-10": {
        "workload": HEADERS_COUNTED,
        "transport": {"connections": "new", "initial_window": 10},
    },
}
"""Cause → tables of the scenario. Each changes one thing."""


def cause_points(given: Given, causes: Sequence[str], variants: Sequence[str]) -> list[Point]:
    """Return variants of dyna.toml under changed set-ups. A point's scheme is `<cause>-<variant>`."""
    document = read_document(SCENARIO)
    plans, loads = (document["sweep"][key] for key in ("scheme", "loads"))
    schemes = {}
    for cause in causes:
        for variant in variants:
            tables = copy.deepcopy(dict(CAUSES[cause]))
            schemes[f"{cause}-{variant}"] = {**plans[variant], **tables.pop("scheme", {}), **tables}
    sweep = {"scheme": schemes, "schemes": list(schemes), "loads": loads}
    return axes(given, {**document, "sweep": sweep})
