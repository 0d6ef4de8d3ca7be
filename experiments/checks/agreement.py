# SPDX-License-Identifier: Apache-2.0
"""Testbed against simulator: the same scenarios and flows, compared by class and flow by flow.

The testbed's runs are those of mismatch_fct. Missing ones, and those with another schedule, are
made here. The simulator repeats them on links like those that the testbed emulates. Only the link
delay is fitted, because software adds time to each hop of the testbed. An idle run of 64-byte
flows on both fabrics gives the difference.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from experiments.kit.draw import NARROW, Line, distribution, grid
from experiments.kit.experiment import (
    Claim,
    Experiment,
    Given,
    Script,
    markdown_table,
    option,
    some_of,
    spread,
)
from experiments.kit.flows import Column, read_flow_columns
from experiments.kit.runners import ATTEMPTS, ONE_ATTEMPT, NamedPoint, as_emulated, named, run_each
from experiments.kit.runs import Run, read_run
from experiments.papers.adaptive_thresholds import common, mismatch_fct
from experiments.papers.adaptive_thresholds.mismatch_fct import VARIANTS
from sluice.commands.arguments import folder
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.policy.schemes import SCHEMES
from sluice.runs.files import SCENARIOS, read_document, scenario_with
from sluice.sweep.points import Point, is_finished
from sluice.terminal import console

CLASSES = {"small": "10 KB", "medium": "1 MB"}
FIGURES = ("mean", "p50", "p99", "slowdown")

TOLERANCE = {("small", "mean"): 0.25, ("medium", "mean"): 0.15}
"""The greatest difference of the median over the seeds. Small flows take a millisecond or two, and
the software's part of that time varies from hop to hop. The time of medium flows depends on the
link and on how flows share it."""
EXPLANATION = "docs/measurements/agreement.md explains what differs"


def figure(run: Run, size_class: str, name: str) -> float:
    """Return a figure of a class in milliseconds; the mean slowdown has no unit."""
    if name == "slowdown":
        return float(run.row[f"slowdown_{size_class}_mean"])
    return float(run.row[f"fct_us_{size_class}_{name}"]) / 1000


def figures(run: Run) -> dict[str, dict[str, float]]:
    return {of: {name: round(figure(run, of, name), 3) for name in FIGURES} for of in CLASSES}


def fct_ms(run: Run, size_class: str) -> Column:
    """Return the FCT of that class's flows, by number."""
    flows = run.flows().by_number
    values: Column = flows.fct_us[flows.size_class == size_class] / 1000
    return values


class Pair(NamedTuple):
    """The runs of a variant with one seed on both fabrics."""

    testbed: Run
    simulator: Run


Pairs = Mapping[str, Sequence[Pair]]
"""Variant → one pair for each seed."""

Settled = tuple[float | None, float | None]
"""Seconds until the threshold settles, on the testbed and on the simulator; None: never."""


def settled_s(run: Run) -> float | None:
    """Return the time in seconds after which the threshold at the receiver's port stays at 10 KB."""
    time_s = common.settles(run.thresholds(common.BOTTLENECK_PORT))
    return None if time_s is None else round(max(time_s, 0.0), 2)


def settling_claim(variant: str, times: Sequence[Settled], interval_s: float) -> Claim:
    """Claim that both fabrics settle with every seed, at most two adjustments apart."""
    alike = all(a is not None and b is not None and abs(a - b) <= 2 * interval_s for a, b in times)
    measured = ", ".join(f"{a} s and {b} s" for a, b in times)
    what = f"{variant}: the threshold settles at 10 KB, testbed and simulator"
    return Claim(what, f"within {2 * interval_s:g} s", measured, alike, EXPLANATION)


def claims_of(runs: Pairs) -> list[Claim]:
    """Claim that the means agree within the tolerance, and that both fabrics order the variants alike."""
    agreement = []
    for variant, pairs in runs.items():
        valid = all(pair.testbed.valid for pair in pairs)
        for (size_class, name), tolerance in TOLERANCE.items():
            by_seed = [
                figure(ours, size_class, name) / figure(theirs, size_class, name) for theirs, ours in pairs
            ]
            theirs, ours = (_median(side, size_class, name) for side in zip(*pairs, strict=True))
            agrees = valid and abs(float(np.median(by_seed)) - 1) <= tolerance
            measured = f"{ours:.3g} over {theirs:.3g} ms: {spread(by_seed)}"
            what = f"{variant}: {CLASSES[size_class]} flows' {name}, simulator over testbed"
            explanation = EXPLANATION if valid else ""
            agreement.append(Claim(what, f"1 ± {tolerance:g}", measured, agrees, explanation))
    return [*agreement, *_order(runs)]


def _order(runs: Pairs) -> Iterator[Claim]:
    """Claim which of two variants is faster, if the testbed's means of small flows differ by a quarter."""
    means = {
        variant: [_median(side, "small", "mean") for side in zip(*pairs, strict=True)]
        for variant, pairs in runs.items()
    }
    apart = [(a, b) for a in means for b in means if means[a][0] < 0.75 * means[b][0]]
    same = sum(means[a][1] < means[b][1] for a, b in apart)
    if apart:
        what = "of two variants that differ by a quarter, the same one is faster for 10 KB flows"
        yield Claim(what, f"{len(apart)} pairs", f"{same}", same == len(apart))


def _median(runs: Sequence[Run], size_class: str, name: str) -> float:
    """Return the median over the seeds."""
    return float(np.median([figure(run, size_class, name) for run in runs]))


def table_of(runs: Pairs) -> str:
    """Return a Markdown table of medians over the seeds: testbed / simulator."""
    rows = []
    for variant, pairs in runs.items():
        by_side = list(zip(*pairs, strict=True))
        retransmissions = " / ".join(
            f"{np.median([run.row['retransmissions'] for run in side]):g}" for side in by_side
        )
        for size_class, title in CLASSES.items():
            cells = (
                " / ".join(f"{_median(sides, size_class, name):.3g}" for sides in by_side) for name in FIGURES
            )
            by_flow = np.median(
                [
                    np.nanmedian(fct_ms(ours, size_class) / fct_ms(theirs, size_class))
                    for theirs, ours in pairs
                ]
            )
            rows.append((variant, title, *cells, f"{by_flow:.2f}", retransmissions))
    figures = ("mean ms", "p50 ms", "p99 ms", "slowdown")
    return markdown_table(("variant", "flows", *figures, "flow by flow", "retransmissions"), rows)


TINY_BYTES = 64
CROSSINGS = 6
"""How often a one-packet flow on a new connection crosses a link: SYN, SYN-ACK and data cross two
links each."""
SAME_START_S = 0.02
"""Greatest difference of two starts in one schedule: senders start late, but less than this.
Another schedule differs by more from its first flow on."""


def idle_document() -> dict[str, Any]:
    """Return a scenario with one tiny flow at a time on the network of paper-mix. Its FCT is the round trip."""
    document = read_document(SCENARIOS / "paper-mix.toml")
    workload = {"mix": [{"bytes": f"{TINY_BYTES}B", "share": 1.0, "from": ["h3"]}], "pattern": "many-to-one"}
    idle = {**workload, "to": "h1", "interarrival": "50ms", "flows": 200}
    return {
        **document,
        "name": "idle",
        "scheme": {"name": "dctcp", "mark_at": "20pkt"},
        "workload": idle,
    }


def fitted_delay_us(out: Path, attempts: int) -> float:
    """Return the link delay with which an idle flow takes as long on the simulator as on the testbed."""
    scenario, resolved, _ = scenario_with(idle_document())
    point = NamedPoint("idle", None, scenario.seed, resolved, "simulator")
    ours = on_simulator(point, out / "idle", 0.0)
    theirs = on_testbed(replace(point, folder="testbed"), out / "idle", ours, attempts)
    measured, without = (float(np.nanmedian(run.flows().fct_us)) for run in (theirs, ours))
    return round(max(0.0, (measured - without) / CROSSINGS), 1)


def on_simulator(point: Point, folder: Path, delay_us: float) -> Run:
    """Run a scenario of the testbed on the simulator."""
    emulated = replace(point, document=as_emulated(point.document, delay_us))
    run_each([emulated], folder, SIMULATOR, 1)
    return read_run(emulated, folder)


def on_testbed(point: Point, folder: Path, ours: Run, attempts: int) -> Run:
    """Return the same run on the testbed. It is made unless a bundle with exactly the flows of
    `ours` exists."""
    bundle = folder / point.name
    if is_finished(folder, point) and not same_flows(bundle, ours.bundle):
        (bundle / "summary.json").unlink()
    run_each([point], folder, TESTBED, attempts)
    return read_run(point, folder)


def same_flows(testbed: Path, simulator: Path) -> bool:
    """Whether both bundles have the same schedule: the same sizes at the same times of the run."""
    theirs, ours = (read_flow_columns(bundle).by_number for bundle in (testbed, simulator))
    if len(theirs) != len(ours):
        return False
    late_s = np.abs(theirs.started_s - ours.started_s)
    return bool((theirs.bytes == ours.bytes).all() and np.median(late_s) < SAME_START_S)


CHANGES: Mapping[str, Mapping[str, Any]] = {
    "as compared": {},
    "real links": {"simulator": {"links": "real"}},
    "no link delay": {"fabric": {"link_delay": "0us"}},
    "an ACK for each packet": {"simulator": {"packets_per_ack": 1}},
    "timers without ticks": {"simulator": {"tick": "0s"}},
    "hosts' own ports as a switch's": {"simulator": {"uplink": "fabric"}},
    "hosts without small queues": {"simulator": {"uplink": "free"}},
    "hosts' own ports take no time": {"simulator": {"uplink": "unshaped"}},
}
"""Changes of the simulator, each made alone for one variant. They show what the differences depend on."""
CHANGED_VARIANT = "dctcp"
DARK = "0.2"


@dataclass(frozen=True)
class Agreement:
    """The results of the comparison."""

    delay_us: float
    interval_s: float
    """Time between two adjustments of a threshold."""
    pairs: Pairs
    settling: Mapping[str, Sequence[Settled]]
    """For the variants that adapt: one pair of times for each seed."""
    changed: Mapping[str, Any]
    """The simulator's figures under CHANGES."""


def measure(given: Given) -> Agreement:
    document = read_document(SCENARIOS / "paper-mix.toml")
    delay_us = fitted_delay_us(given.out, given["attempts"])
    console.print(f"link delay of the simulator: {delay_us:.1f} us, by the testbed's idle round trip")
    pairs: dict[str, list[Pair]] = {}
    settling: dict[str, list[Settled]] = {}
    points = mismatch_fct.plan(given)[""].points
    for point in [point for point in points if point.scheme in given["variants"]]:
        ours = on_simulator(point, given.out / "simulator", delay_us)
        theirs = on_testbed(point, given["testbed"], ours, given["attempts"])
        pairs.setdefault(point.scheme, []).append(Pair(theirs, ours))
        if VARIANTS[point.scheme]["name"] == "mlfq-adaptive":
            settling.setdefault(point.scheme, []).append((settled_s(theirs), settled_s(ours)))
    changed = _changed(given, document, delay_us) if CHANGED_VARIANT in pairs else {}
    return Agreement(delay_us, document["scheme"]["interval_ms"] / 1000, pairs, settling, changed)


def _changed(given: Given, document: Mapping[str, Any], delay_us: float) -> dict[str, Any]:
    """Return the simulator's figures with one thing changed, for the first seed."""
    by_change = {}
    for what, tables in CHANGES.items():
        folder = f"{CHANGED_VARIANT}-{what.replace(' ', '-').replace(chr(39), '')}"
        changed = {**tables, "scheme": VARIANTS[CHANGED_VARIANT], "workload": {"flows": given.flows}}
        point = named(document, CHANGED_VARIANT, given.seeds[0], folder, **changed)
        by_change[what] = figures(on_simulator(point, given.out / "changed", delay_us))
    return by_change


def claims(measured: Agreement) -> list[Claim]:
    settled = [
        settling_claim(variant, times, measured.interval_s) for variant, times in measured.settling.items()
    ]
    return [*claims_of(measured.pairs), *settled]


def numbers(measured: Agreement) -> dict[str, Any]:
    by_variant = {
        variant: [
            {
                side: {**figures(run), "retransmissions": run.row["retransmissions"], "valid": run.valid}
                for side, run in pair._asdict().items()
            }
            for pair in pairs
        ]
        for variant, pairs in measured.pairs.items()
    }
    return {"link_delay_us": measured.delay_us, "figures": by_variant, "simulator changed": measured.changed}


def draw(measured: Agreement) -> Figure:
    """Draw the FCT of all seeds together: a column for each variant, a row for each class."""
    figure, rows = grid(len(CLASSES), len(measured.pairs), width=2.6, height=2.5)
    for row, (size_class, title) in zip(rows, CLASSES.items(), strict=True):
        for axes, (variant, pairs) in zip(row, measured.pairs.items(), strict=True):
            colour = SCHEMES[VARIANTS[variant]["name"]].colour
            for side, line in (("testbed", DARK), ("simulator", colour)):
                values = np.concatenate([fct_ms(getattr(pair, side), size_class) for pair in pairs])
                distribution(axes, values, Line(side, line, width=NARROW))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_title(f"{variant}\n{title}" if row is rows[0] else title, fontsize="small")
            axes.legend(frameon=False, fontsize="x-small", loc="lower right")
        row[0].set_ylabel("flows")
    for axes in rows[-1]:
        axes.set_xlabel("FCT (ms)", fontsize="small")
    return figure


QUICK = {
    "seeds": (1,),
    "flows": 300,
    "testbed": Path("results/mismatch_fct-quick"),
    "variants": ["adaptive-from-1000KB", "pias-10KB", "dctcp"],
}
EXPERIMENT = Experiment(
    claim="Testbed and simulator agree on the same flows: means within 25 % (10 KB) and 15 % (1 MB).",
    minutes=15,
    runner=Script(measure, (ATTEMPTS,), ONE_ATTEMPT),
    on=(TESTBED,),
    seeds=(1, 2, 3),
    flows=800,
    options=(
        option("--testbed", "folder of mismatch_fct", type=folder, default=Path("results/mismatch_fct")),
        some_of("--variants", VARIANTS, "variants of mismatch_fct"),
    ),
    quick=QUICK,
    claims=claims,
    numbers=numbers,
    draw=draw,
    table=lambda measured: table_of(measured.pairs) + "\n",
)
