# SPDX-License-Identifier: Apache-2.0
"""A whole new figure, as short as one is: marks or none, against load."""

from collections.abc import Mapping

from experiments.kit.draw import Panel, against_load, line_of
from experiments.kit.experiment import Claim, Experiment, Given
from experiments.kit.runners import SET, Planned, ShortRuns, axes, one_group
from experiments.kit.runs import Results, all_finished, below_one

SCENARIO = {
    "name": "marks",
    "fabric": {"topology": "single", "hosts": 4, "host_rate": "1Gbit", "buffer": "2MB"},
    "scheme": {"name": "dctcp"},
    "workload": {
        "mix": [{"bytes": "10KB", "share": 0.8}, {"bytes": "1MB", "share": 0.2}],
        "pattern": "many-to-one",
        "to": "h1",
    },
}
SMALL = "fct_us_small_mean"


def plan(given: Given) -> Mapping[str, Planned]:
    return one_group(given, axes(given, SCENARIO, schemes=["dctcp", "tcp"]))


def claims(results: Results) -> list[Claim]:
    ratios = results.runs.ratio_by_load(SMALL, "dctcp", "tcp")
    return [below_one("small flows' mean FCT, DCTCP/TCP", ratios), all_finished(results.runs)]


EXPERIMENT = Experiment(
    claim="Marks keep queues short, so short flows finish sooner.",
    figure="nobody, Fig. 1",
    minutes=1,
    about=__doc__,
    runner=ShortRuns(plan),
    seeds=(1, 2, 3),
    loads=(0.5, 0.7),
    flows=2000,
    options=(SET,),
    quick={"seeds": (1,), "loads": (0.7,), "flows": 300},
    claims=claims,
    draw=against_load([Panel("small", SMALL, "ms", 1e-3)], {s: line_of(s) for s in ("dctcp", "tcp")}),
)
