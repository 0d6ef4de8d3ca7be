# SPDX-License-Identifier: Apache-2.0
"""Run one experiment by its name: python -m experiments NAME [its options]."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping

EXPERIMENTS: Mapping[str, str] = {
    "threshold_convergence": "papers.adaptive_thresholds.threshold_convergence",
    "mismatch_fct": "papers.adaptive_thresholds.mismatch_fct",
    "dyna_fig5": "papers.adaptive_thresholds.fig5",
    "dyna_fig6": "papers.adaptive_thresholds.fig6",
    "dyna_fig7": "papers.adaptive_thresholds.fig7",
    "dyna_fig8": "papers.adaptive_thresholds.fig8",
    "fish_fig6": "papers.fish.fig6",
    "fish_fig8": "papers.fish.fig8",
    "fish_fig9": "papers.fish.fig9",
    "fish_burst": "papers.fish.burst",
    "aemon_fct": "papers.aemon.fct",
    "aemon_misses": "papers.aemon.misses",
    "aemon_mix": "papers.aemon.mix",
    "ucp_share": "papers.aemon.ucp_share",
    "datcp_fig08": "papers.datcp.fig08",
    "datcp_fig09": "papers.datcp.fig09",
    "datcp_fig10": "papers.datcp.fig10",
    "datcp_fig11": "papers.datcp.fig11",
    "datcp_fig12": "papers.datcp.fig12",
    "datcp_fig13": "papers.datcp.fig13",
    "datcp_fig14": "papers.datcp.fig14",
    "datcp_full": "papers.datcp.full",
    "pias_144": "papers.pias.pias_144",
    "agreement": "checks.agreement.run",
    "ns3_check": "checks.ns3.run",
    "scheme_tour": "checks.scheme_tour.run",
    "live_switch": "checks.live_switch.run",
    "soak": "checks.soak.run",
    "random_faults": "checks.random_faults.run",
}
"""Name of an experiment → its module below `experiments`."""


def main(argv: list[str]) -> int:
    """Run the experiment that the first word names with the words that follow."""
    if not argv or argv[0] not in EXPERIMENTS:
        print(f"name one of these experiments: {', '.join(EXPERIMENTS)}", file=sys.stderr)
        return 2
    return int(importlib.import_module(f"experiments.{EXPERIMENTS[argv[0]]}").main(argv[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
