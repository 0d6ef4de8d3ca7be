# SPDX-License-Identifier: Apache-2.0
"""DATCP's evaluation at the paper's own rate: 1 Gb/s, 75 µs for each link, flows of 100 MB.

It runs datcp_fig08 … datcp_fig14 with `--on simulator`. Each has its folder in `--out`, with a
verdict and a plot. The verdict here has all their claims.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from experiments.kit.experiment import Claim, Experiment, Given, Script, option, read_verdict, some_of
from experiments.kit.main import read_command, run
from experiments.papers.datcp import services, single_link
from sluice.commands.arguments import seed
from sluice.policy.fabrics import SIMULATOR

FIGURES: Mapping[int, Experiment[Any]] = {
    8: single_link.FIG08,
    9: single_link.FIG09,
    10: single_link.FIG10,
    11: single_link.FIG11,
    12: single_link.FIG12,
    13: services.FIG13,
    14: services.FIG14,
}
Verdicts = Mapping[str, Mapping[str, Any]]
"""Name of a figure → its verdict."""


def measure(given: Given) -> Verdicts:
    """Run the figures, each with its own default seeds unless the command line gives seeds."""
    verdicts = {}
    for number in given["figures"]:
        figure, out = FIGURES[number], given.out / FIGURES[number].name
        own = read_command(figure, ["--on", SIMULATOR, *(["--quick"] if given.quick else [])])
        run(figure, replace(own, out=out, seeds=given.seeds or own.seeds))
        verdicts[figure.name] = read_verdict(out)
    return verdicts


def claims(verdicts: Verdicts) -> list[Claim]:
    return [
        Claim(**{**claim, "what": f"{name}: {claim['what']}"})
        for name, verdict in verdicts.items()
        for claim in verdict["claims"]
    ]


EXPERIMENT = Experiment(
    name="datcp_full",
    claim="At the paper's rate DATCP's deadlines, shares, quenching and jobs agree with its figures.",
    figure="Zhang et al., Figs. 8–14",
    minutes=2,
    runner=Script(measure),
    options=(
        option(
            "--seeds", type=seed, nargs="+", help="seeds; each is one run (default: the figure's own seeds)"
        ),
        some_of("--figures", FIGURES, type=int),
    ),
    claims=claims,
    numbers=lambda verdicts: {name: verdict["numbers"] for name, verdict in verdicts.items()},
)
