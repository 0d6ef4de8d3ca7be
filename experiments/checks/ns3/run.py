# SPDX-License-Identifier: Apache-2.0
"""The same flows on ns-3's TcpDctcp and on our simulator: lone flows, long ones, incasts, losses, web search.

python -m experiments ns3_check [--out DIR] [--flows N]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from experiments.checks.ns3 import cases
from experiments.checks.ns3.explanations import explanation_of
from experiments.checks.ns3.figures import (
    closed_form,
    incast_figures,
    lone_figures,
    long_figures,
    same_paths,
    shipped,
    speeds,
    web_figures,
)
from experiments.checks.ns3.ns3 import make_driver
from experiments.checks.ns3.pairs import Pair, run_pairs, sides, times_us
from experiments.checks.ns3.plot import Times, plot_times
from experiments.kit.verdict import conclude
from policy.errors import SluiceError
from simulator import build as extension
from sluice.terminal import end_in_order


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/ns3_check"))
    parser.add_argument(
        "--flows", type=int, default=3000, help="of each web search run (default: %(default)s)"
    )
    arguments = parser.parse_args(argv)
    end_in_order()
    try:
        return compare(arguments.out, arguments.flows)
    except SluiceError as error:
        print(f"ns3_check: {error}", file=sys.stderr)
        return 2


def compare(out: Path, flows: int) -> int:
    """Every case, the plot and the verdict."""
    extension.build()
    make_driver()
    small = (*cases.lone_cases(), *cases.long_cases(), *cases.incast_cases())
    pairs = {case.name: run_pairs(case, out, shipped=True) for case in small}
    web = cases.web_cases(flows)
    pairs |= {case.name: run_pairs(case, out, shipped=False) for case in web}
    figures = [
        *(figure for case in cases.lone_cases() for figure in lone_figures(case, pairs[case.name])),
        *(figure for case in cases.long_cases() for figure in long_figures(case, pairs[case.name])),
        *(figure for case in cases.incast_cases() for figure in incast_figures(case, pairs[case.name])),
        *(figure for case in web for figure in web_figures(case, pairs[case.name])),
    ]
    plot_times({case.name: _times(pairs[case.name]) for case in web}, out / "ns3_check.png")
    claims = [figure.claim(explanation_of(figure)) for figure in figures]
    claims += [closed_form(case, pairs[case.name]) for case in cases.lone_cases()]
    claims += [same_paths(case, pairs[case.name]) for case in web]
    numbers = {
        "figures": [figure.document() for figure in figures],
        "speed": speeds(pairs),
        "shipped": shipped(pairs),
    }
    return conclude(out, "ns3_check", claims, numbers)


def _times(pairs: list[Pair]) -> Times:
    sizes = np.concatenate([pair.flows.bytes for pair in pairs])
    return Times(sizes, *(times_us(outcomes) for outcomes in sides(pairs)))


if __name__ == "__main__":
    sys.exit(main())
