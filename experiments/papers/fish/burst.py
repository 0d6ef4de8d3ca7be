# SPDX-License-Identifier: Apache-2.0
"""FISH against PIAS on real switches as a burst grows denser (Zhang and Hu, Fig. 6 and tables 1 and 2).

python -m experiments fish_burst [--out DIR] [--on testbed|simulator] [--seeds 1 … 5] [--flows N] [--gaps 125ms …]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.kit.attempts import markdown, numbers, parser, run_all, show, validity_claims, values
from experiments.kit.paired import Difference, difference, signed
from experiments.kit.verdict import Claim, conclude
from sluice.runs.files import read_document
from sluice.sweep.points import points
from sluice.sweep.table import Row

SCENARIO = Path(__file__).with_name("burst.toml")
GAPS = ("125ms", "12.5ms", "1.25ms")
"""The paper's 1, 0.1 and 0.01 ms, at a 125th of its rate."""
SCHEMES = ("pias", "fish")
FLOWS = 100
CLOSE = 0.04
SMALL = {"small mean": "fct_us_small_mean", "small p99": "fct_us_small_p99"}
LARGE = {"large mean": "fct_us_large_mean"}
WHY = (
    "turns serve all flows alike, a packet a round, a FIFO serves a flow by its window: of the small flows only the "
    "shortest gain, unless the queue is full of others' large windows, as when all start at once (docs/REPRODUCING.md)"
)


def main(argv: list[str] | None = None) -> int:
    made = parser("fish_burst", __doc__, flows=FLOWS, seeds=range(1, 6))
    made.add_argument("--gaps", nargs="+", default=list(GAPS), help="mean time between two starts")
    arguments = made.parse_args(argv)
    document = {**read_document(SCENARIO), "sweep": {"scheme": plans(arguments.gaps)}}
    found = points(
        document,
        schemes=[label(scheme, gap) for gap in arguments.gaps for scheme in SCHEMES],
        seeds=arguments.seeds,
        settings={"workload.flows": arguments.flows, **dict(arguments.set)},
    )
    table = run_all(found, arguments)
    show(f"fish_burst on the {arguments.on}", table)
    (arguments.out / "table.md").write_text(markdown(table))
    return conclude(arguments.out, "fish_burst", claims_of(table, arguments.gaps), numbers(table))


def label(scheme: str, gap: str) -> str:
    return f"{scheme}-{gap}"


def plans(gaps: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Both schemes with the same thresholds and marking, at every gap."""
    return {
        label(scheme, gap): {"name": scheme, "mark_at": "20pkt", "workload": {"interarrival": gap}}
        for gap in gaps
        for scheme in SCHEMES
    }


def claims_of(table: Sequence[Row], gaps: Sequence[str]) -> list[Claim]:
    """Small flows: faster, the more so the denser the burst; large ones: within 4 %."""
    claims = validity_claims(table)
    for gap in gaps:
        for title, column in SMALL.items():
            change = _change(table, column, gap)
            claims.append(
                Claim(f"{title}, gap {gap}: FISH against PIAS", "lower", str(change), change.lower, WHY)
            )
        for title, column in LARGE.items():
            change = _change(table, column, gap)
            close = abs(change.mean) <= CLOSE
            claims.append(Claim(f"{title}, gap {gap}: FISH against PIAS", signed("±4%"), str(change), close))
    return claims


def _change(table: Sequence[Row], column: str, gap: str) -> Difference:
    ours, theirs = (values(table, label(scheme, gap), column) for scheme in ("fish", "pias"))
    return difference(ours, theirs)


if __name__ == "__main__":
    sys.exit(main())
