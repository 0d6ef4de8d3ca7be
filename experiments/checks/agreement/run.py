# SPDX-License-Identifier: Apache-2.0
"""Testbed against simulator: the same scenario files, the same flows, compared class by class and flow by flow.

The testbed's runs are those of mismatch_fct (made here, as root, where they are missing or of another
schedule); the simulator repeats them on links as the testbed emulates them. The only thing that is fitted
is the link delay: a testbed's hop takes software's time, so an idle run of 64-byte flows is made on both,
and the simulator's links get what is missing.

python -m experiments agreement [--out DIR] [--testbed DIR] [--seeds 1 2 3] [--flows 800] [--variants …]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.checks.agreement.compare import Pair, claims, read_side, settled_s, settling_claim, table
from experiments.checks.agreement.fabrics import fitted_delay_us, on_simulator, on_testbed
from experiments.checks.agreement.plot import plot
from experiments.kit.verdict import conclude
from experiments.papers.adaptive_thresholds.mismatch_fct import VARIANTS
from sluice.runs.files import SCENARIOS, read_document, scenario_with
from sluice.terminal import console, end_in_order

Runs = dict[str, list[Pair]]
"""By variant, one for each seed."""

CHANGES: Mapping[str, Mapping[str, Any]] = {
    "as compared": {},
    "real links": {"simulator": {"links": "real"}},
    "no link delay": {"fabric": {"link_delay": "0us"}},
    "an ACK for each packet": {"simulator": {"packets_per_ack": 1}},
    "hosts' own ports do not mark": {"simulator": {"uplink": "free"}},
    "hosts' own ports take no time": {"simulator": {"uplink": "unshaped"}},
}
"""One thing changed at a time on the simulator, for one variant: what the differences depend on."""
CHANGED_VARIANT = "dctcp"


def main(argv: list[str] | None = None) -> int:
    given = _arguments(argv)
    end_in_order()
    chosen = [variant for variant in VARIANTS if variant.name in given.variants]
    delay_us = fitted_delay_us(given.out)
    console.print(f"link delay of the simulator: {delay_us:.1f} us, as the testbed's idle round trip asks")
    document = read_document(SCENARIOS / "paper-mix.toml")
    runs: Runs = {}
    settling: dict[str, list[tuple[float | None, float | None]]] = {}
    for variant in chosen:
        for seed in given.seeds:
            name = f"{variant.name}-seed{seed}"
            tables = {"scheme": variant.scheme, "workload": {"flows": given.flows}}
            _, resolved = scenario_with(document, name=name, seed=seed, **tables)
            ours = on_simulator(resolved, given.out / "simulator" / name, delay_us)
            theirs = on_testbed(resolved, given.testbed / name, ours)
            if variant.scheme["name"] == "mlfq-adaptive":
                settling.setdefault(variant.name, []).append((settled_s(theirs), settled_s(ours)))
            runs.setdefault(variant.name, []).append(Pair(read_side(theirs), read_side(ours)))
    changes = _changes(given, document, delay_us) if CHANGED_VARIANT in runs else {}
    plot(runs, given.out / "agreement.png")
    (given.out / "agreement.md").write_text("\n".join(table(runs)) + "\n")
    numbers = {"link_delay_us": delay_us, "figures": _numbers(runs), "simulator changed": changes}
    interval_s = document["scheme"]["interval_ms"] / 1000
    settled = [settling_claim(variant, times, interval_s) for variant, times in settling.items()]
    return conclude(given.out, "agreement", [*claims(runs), *settled], numbers)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/agreement"))
    parser.add_argument(
        "--testbed", type=Path, default=Path("results/mismatch_fct"), help="the testbed's bundles"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument(
        "--flows", type=int, default=800, help="per run (default: %(default)s, about 35 s on the testbed)"
    )
    names = [variant.name for variant in VARIANTS]
    parser.add_argument("--variants", nargs="+", choices=names, default=names, help="default: all")
    return parser.parse_args(argv)


def _changes(given: argparse.Namespace, document: Mapping[str, Any], delay_us: float) -> dict[str, Any]:
    """Figures of the simulator with one thing changed, first seed."""
    scheme = next(variant.scheme for variant in VARIANTS if variant.name == CHANGED_VARIANT)
    found = {}
    for what, tables in CHANGES.items():
        name = f"{CHANGED_VARIANT}-{what.replace(' ', '-').replace(chr(39), '')}"
        changed = {**tables, "scheme": scheme, "workload": {"flows": given.flows}}
        _, resolved = scenario_with(document, name=name, seed=given.seeds[0], **changed)
        bundle = on_simulator(resolved, given.out / "changed" / name, delay_us)
        found[what] = read_side(bundle).figures()
    return found


def _numbers(runs: Runs) -> dict[str, Any]:
    return {
        variant: [{name: side.document() for name, side in pair._asdict().items()} for pair in of_variant]
        for variant, of_variant in runs.items()
    }


if __name__ == "__main__":
    sys.exit(main())
