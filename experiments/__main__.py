# SPDX-License-Identifier: Apache-2.0
"""Runs one experiment by its name."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.policy.errors import SluiceError, guess
from sluice.runtime import extras

if TYPE_CHECKING:  # it needs scipy, and `main` says so if that is missing
    from experiments.kit.experiment import Experiment

EXPERIMENTS: Mapping[str, str] = {
    "threshold_convergence": "papers.adaptive_thresholds.convergence:ON_TCP",
    "mismatch_fct": "papers.adaptive_thresholds.mismatch_fct",
    "dyna_fig5": "papers.adaptive_thresholds.convergence:FIG5",
    "dyna_fig6": "papers.adaptive_thresholds.completion_times:FIG6",
    "dyna_fig7": "papers.adaptive_thresholds.completion_times:FIG7",
    "dyna_fig8": "papers.adaptive_thresholds.completion_times:FIG8",
    "dyna_causes": "papers.adaptive_thresholds.completion_times:DYNA_CAUSES",
    "fish_fig6": "papers.fish.figures:FIG6",
    "fish_fig8": "papers.fish.figures:FIG8",
    "fish_fig9": "papers.fish.figures:FIG9",
    "fish_burst": "papers.fish.burst",
    "aemon_fct": "papers.aemon.schemes:FCT",
    "aemon_misses": "papers.aemon.schemes:MISSES",
    "aemon_mix": "papers.aemon.schemes:MIX",
    "ucp_share": "papers.aemon.ucp_share",
    "datcp_fig08": "papers.datcp.single_link:FIG08",
    "datcp_fig09": "papers.datcp.single_link:FIG09",
    "datcp_fig10": "papers.datcp.single_link:FIG10",
    "datcp_fig11": "papers.datcp.single_link:FIG11",
    "datcp_fig12": "papers.datcp.single_link:FIG12",
    "datcp_fig13": "papers.datcp.services:FIG13",
    "datcp_fig14": "papers.datcp.services:FIG14",
    "pias_144": "papers.pias",
    "sluice_fct": "papers.sluice.fct",
    "sluice_bounds": "papers.sluice.bounds",
    "sluice_deadlines": "papers.sluice.deadlines",
    "sluice_shift": "papers.sluice.shift",
    "sluice_conditions": "papers.sluice.conditions",
    "peers": "peers.compare",
    "hpcc_check": "peers.hpcc",
    "homa": "peers.homa",
    "pdq": "peers.pdq",
    "qjump": "peers.qjump",
    "qjump_testbed": "peers.qjump_testbed",
    "agreement": "checks.agreement",
    "itself": "checks.itself",
    "ns2_check": "checks.ns2",
    "ns3_check": "checks.ns3.run",
    "ns3_speed": "checks.ns3.run:SPEED",
    "scheme_tour": "checks.scheme_tour",
    "scheme_order": "checks.scheme_tour:ORDER",
    "hostile": "checks.hostile.run",
    "hostile_ends": "checks.hostile.ends",
    "http_sizes": "checks.http_sizes.run",
    "validity": "checks.validity",
    "live_switch": "checks.live_switch",
    "racks": "checks.racks.run",
    "steps": "checks.steps.run",
    "perimeter": "checks.perimeter.run",
    "fabrics": "checks.fabrics",
    "soak": "checks.soak",
    "random_faults": "checks.random_faults",
}
"""Name of an experiment → its module below `experiments`. EXPERIMENT there, or the name after the colon, holds it."""

_USAGE = """usage: python -m experiments NAME [options]

Runs one experiment: it makes the runs that are missing, draws the figure, and says which of the
claims hold. Bundles, plot and verdict.json go to results/NAME.

  python -m experiments NAME --quick       a verdict within a few minutes, from few flows and seeds
  python -m experiments NAME --help        the claim, and the options of that experiment
  python -m experiments --claims DIR …     the claims of finished experiments as a Markdown table

After `make setup`, `make experiment NAME=… ARGS="--quick"` does the same."""


def load(name: str) -> Experiment[Any]:
    """Return the experiment of that name. Imports only its module."""
    path, _, constant = EXPERIMENTS[name].partition(":")
    module = importlib.import_module(f"experiments.{path}")
    experiment: Experiment[Any] = getattr(module, constant or "EXPERIMENT")
    place = "/".join(path.split(".")[:2])
    return replace(experiment, name=name, place=place, about=experiment.about or module.__doc__)


def load_all() -> list[Experiment[Any]]:
    """Return all experiments. Those of a folder follow each other."""
    return [load(name) for name in EXPERIMENTS]


def main(argv: Sequence[str]) -> int:
    """Run the experiment or print the list that the arguments name. Returns the exit code."""
    for library in ("matplotlib", "scipy"):
        extras.need(library, "python -m experiments", "experiments")
    from experiments.kit.experiment import claims_table, read_verdict
    from experiments.kit.main import listing
    from experiments.kit.main import main as run_by_words

    match list(argv):
        case [] | ["-h" | "--help", *_]:
            print(_USAGE, *listing(load_all()), sep="\n")
        case ["--claims", _, *_]:
            print(claims_table([read_verdict(Path(folder)) for folder in argv[1:]]))
        case [name, *words] if name in EXPERIMENTS:
            return run_by_words(load(name), words)
        case [name, *_]:
            raise SluiceError(
                f"there is no experiment {name}{guess(name, EXPERIMENTS)}; the names are {', '.join(EXPERIMENTS)}"
            )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except SluiceError as error:
        print(f"experiments: {error}", file=sys.stderr)
        sys.exit(2)
