# SPDX-License-Identifier: Apache-2.0
"""Deadlines missed against mean FCT under scheme sluice: when deadline flows become urgent, and what urgency does then.

`urgent_after` says from which byte on a deadline flow is in the queue of urgent flows. urgency.py has other effects of
urgency: how much it spares the window at a mark, and a queue for each level. 30 % of the flows have a deadline of 20 to
100 ms. PIAS knows neither sizes nor deadlines, and Karuna knows both. All runs have the same flows.
"""

from collections.abc import Mapping
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure

from experiments.kit.draw import grid, legend_below, line_of
from experiments.kit.experiment import Claim, Experiment, Given, markdown_table, option
from experiments.kit.flows import IMPOSSIBLE, PLAIN, TIMED, deadline_columns
from experiments.kit.runners import Planned, Sweep, axes, one_group
from experiments.kit.runs import Results, all_finished, noted
from experiments.papers.sluice.fct import ALL, GROUPS, MISSES, SLOWDOWN, document_of
from sluice.runtime import plugins

URGENT_AFTER = ("0B", "100KB", "1MB", "3MB", "10MB")
"""Values of the setting. The last one is the default of the scheme."""
OTHERS = ("pias", "karuna")
GOAL_MEAN = 0.85
EFFECTS = {"ucp": "o-", "d2tcp": "^--", "dctcp": "v:", "levels": "x-."}
"""What urgency does → style of its line. The first one is the scheme's own; the last one has a queue for each level."""
PLUGIN = Path(__file__).with_name("urgency.py")
SIXTEEN_HOSTS = {"leaves": 2, "spines": 2, "hosts_per_leaf": 8}


def variant(urgent_after: str, effect: str = "ucp") -> str:
    return f"{_scheme(effect)}-{urgent_after}"


def _scheme(effect: str) -> str:
    return "sluice" if effect == "ucp" else f"sluice-{effect}"


def ours(given: Given) -> list[str]:
    """Return all variants of sluice, effect by effect."""
    return [variant(value, effect) for effect in given["effects"] for value in given["urgent_after"]]


def plan(given: Given) -> Mapping[str, Planned]:
    if set(given["effects"]) != {"ucp"}:
        plugins.use(PLUGIN)
    document = document_of(GROUPS["deadlines"])
    document["fabric"] |= SIXTEEN_HOSTS if given["small"] else {}
    for effect in given["effects"]:
        for value in given["urgent_after"]:
            scheme = {"name": _scheme(effect), "urgent_after": value}
            document["sweep"]["scheme"][variant(value, effect)] = scheme
    return one_group(given, axes(given, document, schemes=(*OTHERS, *ours(given))))


def claims(results: Results) -> list[Claim]:
    runs, given = results.runs, results.given
    mean = {name: median(runs.ratios(ALL, name, "pias")) for name in ours(given)}
    missed = {name: runs.median(MISSES, name) for name in (*mean, *OTHERS)}
    default = variant(given["urgent_after"][-1], given["effects"][0])
    fast, exact = (min(mean, key=figure.__getitem__) for figure in (mean, missed))
    least = f"least mean FCT over PIAS ({fast})"
    return [
        Claim(f"default: mean FCT over PIAS ({default})", "< 1", f"{mean[default]:.3f}", mean[default] < 1),
        Claim("default: deadlines missed", *_fewer(missed, default, "pias")),
        Claim(least, f"≤ {GOAL_MEAN}", f"{mean[fast]:.3f}", mean[fast] <= GOAL_MEAN),
        Claim(f"fewest deadlines missed ({exact})", *_fewer(missed, exact, "karuna")),
        noted("deadlines that an idle network misses", f"{runs.median(IMPOSSIBLE, 'pias'):.2%}"),
        all_finished(runs),
    ]


def _fewer(missed: Mapping[str, float], ours: str, other: str) -> tuple[str, str, bool]:
    limit = f"< {line_of(other).title} ({missed[other]:.1%})"
    return limit, f"{missed[ours]:.1%}", missed[ours] < missed[other]


def table(results: Results) -> str:
    """Medians over the seeds."""
    runs = results.runs
    heads = ("all, ms", "over PIAS", "with a deadline, ms", "without, ms", "slowdown", "missed, %")
    rows = []
    for name in runs.variants:
        values = (
            runs.median(ALL, name) / 1e3,
            median(runs.ratios(ALL, name, "pias")),
            runs.median(TIMED, name) / 1e3,
            runs.median(PLAIN, name) / 1e3,
            runs.median(SLOWDOWN, name),
            100 * runs.median(MISSES, name),
        )
        rows.append((name, *(f"{value:.3g}" for value in values)))
    return markdown_table(("scheme", *heads), rows) + "\n"


def draw(results: Results) -> Figure:
    figure, [[panel]] = grid(1, 1, width=7.5, height=3.8)
    runs, values = results.runs, results.given["urgent_after"]

    def point(name: str) -> tuple[float, float]:
        return runs.median(ALL, name) / 1e3, 100 * runs.median(MISSES, name)

    line = line_of("sluice")
    for effect in results.given["effects"]:
        points = [point(variant(value, effect)) for value in values]
        label = "levels" if effect == "levels" else f"cut as {effect.upper()}"
        panel.plot(*zip(*points, strict=True), EFFECTS[effect], markersize=5, color=line.colour, label=label)
        if effect == results.given["effects"][0]:
            for value, place in zip(values, points, strict=True):
                panel.annotate(value, place, xytext=(7, -3), textcoords="offset points", fontsize="small")
    for name in OTHERS:
        panel.plot(*point(name), "s", color=line_of(name).colour, label=line_of(name).title)
    panel.set(xlabel="mean FCT of all flows (ms)", ylabel="deadlines missed (%)", ylim=(0, None))
    legend_below(figure, panel)
    return figure


EXPERIMENT = Experiment(
    claim="One setting of sluice chooses between the mean FCT and the deadlines missed.",
    minutes=30,
    runner=Sweep(plan, deadline_columns),
    seeds=(1,),
    flows=40_000,
    options=(
        option(
            "--urgent-after",
            "values of urgent_after, the default of the scheme last",
            nargs="+",
            default=list(URGENT_AFTER),
            metavar="SIZE",
        ),
        option(
            "--effects",
            "what urgency does, the scheme's own first",
            nargs="+",
            choices=list(EFFECTS),
            default=["ucp"],
        ),
        option("--small", "16 hosts in two racks instead of 144 in nine", action="store_true"),
    ),
    quick={"flows": 5000},
    claims=claims,
    table=table,
    draw=draw,
)
