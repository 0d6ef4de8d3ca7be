# SPDX-License-Identifier: Apache-2.0
"""What one link allows (M/G/1): mean FCT and slowdown under the best orders of service, with and without sizes."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from experiments.kit.experiment import Claim, Experiment, Given, Script, markdown_table, option
from experiments.kit.runs import noted
from experiments.papers.sluice.traffic import pias_thresholds
from sluice.commands.arguments import load_share
from sluice.policy.schemes import SCHEMES
from sluice.policy.thresholds.online import FLOOR_BYTES, delay_terms
from sluice.policy.thresholds.port_traffic import EDGES, TYPICAL_BYTES
from sluice.policy.thresholds.static import known_delays, optimal_thresholds
from sluice.policy.workload.sizes import Sizes
from sluice.runs.files import load_cdf

Floats = npt.NDArray[np.float64]
RATE_BPS, ROUND_TRIP_S = 10e9, 70e-6
POINTS = 4000
"""Sizes that represent the distribution, each with the same probability."""
AGES = 500
"""Points of bytes sent at which Gittins's index is computed."""
PIAS, BEST_FOR_MEAN = "PIAS's thresholds", "best 8 levels for the mean"
GITTINS = "Gittins (best without sizes)"
SMALL, LARGE = 100e3, 10e6
"""Bounds of the size classes in bytes."""
AROUND = {"300 KB": 3e5, "500 KB": 5e5, "1 MB": 1e6}


class Link:
    """An M/G/1 queue. Times are in bytes of the link. `flow`: the sizes, sorted, each with the same probability."""

    def __init__(self, flow: Floats, load: float) -> None:
        self.flow = np.sort(flow)
        self.rate = load / self.flow.mean()
        """Arrivals in the time of a byte."""
        self._sums = np.concatenate([[0.0], np.cumsum(self.flow)])
        self._squares = np.concatenate([[0.0], np.cumsum(self.flow**2)])

    def larger(self, x: npt.ArrayLike) -> Floats:
        """P(S > x)."""
        return np.asarray(1 - np.searchsorted(self.flow, x, side="right") / len(self.flow))

    def up_to(self, x: npt.ArrayLike, power: int = 1) -> Floats:
        """E[S^p; S <= x], for p = 1 and 2."""
        sums = self._sums if power == 1 else self._squares
        return np.asarray(sums[np.searchsorted(self.flow, x, side="right")] / len(self.flow))

    def cut(self, x: npt.ArrayLike, power: int = 1) -> Floats:
        """E[min(S, x)^p], for p = 1 and 2."""
        return np.asarray(self.up_to(x, power) + np.asarray(x, float) ** power * self.larger(x))


def processor_sharing(link: Link) -> Floats:
    """Mean time of each flow: all share the link equally."""
    return np.asarray(link.flow / (1 - link.rate * link.flow.mean()))


def least_attained(link: Link) -> Floats:
    """The flow that has sent least goes first (Kleinrock, Queueing Systems, vol. 2, section 4.6)."""
    x = link.flow
    left = 1 - link.rate * link.cut(x)
    return np.asarray((x + link.rate * link.cut(x, 2) / 2 / left) / left)


def shortest_remaining(link: Link) -> Floats:
    """The flow with the fewest bytes left goes first (Schrage and Miller, 1966)."""
    x = link.flow
    left = 1 - link.rate * link.up_to(x)
    waits = link.rate * (link.up_to(x, 2) + x**2 * link.larger(x)) / 2 / left**2
    steps = np.diff(x, prepend=0.0)
    before = 1 - link.rate * link.up_to(np.concatenate([[0.0], x[:-1]]))
    return np.asarray(waits + np.cumsum(steps / before))


def levels(thresholds_bytes: tuple[int, ...]) -> Callable[[Link], Floats]:
    """Feedback queues: the model of policy/thresholds/online.py, with processor sharing inside a level."""

    def times(link: Link) -> Floats:
        x = link.flow
        edges = np.array([0.0, *thresholds_bytes, np.inf])
        level = np.searchsorted(edges, x, side="left") - 1
        begin, end = edges[level], np.minimum(edges[level + 1], x[-1])
        before = 1 - link.rate * link.cut(begin)
        reached = (link.rate * link.cut(begin, 2) / 2 / before + begin) / before
        own = x - begin + 2 * reached * link.rate * (link.cut(x) - link.cut(begin))
        return np.asarray(reached + own / (1 - link.rate * link.cut(end)))

    return times


def best_for_mean(sizes: Sizes, load: float, queues: int) -> tuple[int, ...]:
    """The thresholds with the least mean time, by the model of policy/thresholds/online.py."""
    model = known_delays(sizes, load, queues)

    def unweighted(sums: Floats) -> Floats:
        terms = np.diff(sums, axis=1) * (TYPICAL_BYTES + FLOOR_BYTES)
        return np.concatenate([np.zeros((1, 1)), np.cumsum(terms, axis=1)], axis=1)

    alike = replace(
        model,
        weight=unweighted(model.weight),
        weighted_bytes=unweighted(model.weighted_bytes),
        weighted_load=unweighted(model.weighted_load),
    )
    best, _ = delay_terms(alike, queues).best()
    return tuple(int(edge) for edge in EDGES[best[0]])


def gittins(link: Link) -> Floats:
    """The best order without sizes: the flow that most probably ends soon goes first.

    Index: Gittins, 1989. Times: Scully, Harchol-Balter, Scheller-Wolf, "SOAP", SIGMETRICS 2018, theorem 5.5.
    """
    ages = np.unique(np.concatenate([[0.0], np.geomspace(link.flow[0] / 2, link.flow[-1], AGES)]))
    rank = _ranks(link, ages)
    at = np.searchsorted(ages, link.flow, side="left") - 1  # the last interval in which the flow is served
    times = np.empty(len(link.flow))
    for last in np.unique(at):
        here = at == last
        begun, rate = _soap_time(link, ages, rank, int(last))
        times[here] = begun + (link.flow[here] - ages[last]) / rate
    return times


def _ranks(link: Link, ages: Floats) -> Floats:
    """The inverse of the index for flows that have sent ages[i] to ages[i + 1]."""
    left, served = link.larger(ages), link.cut(ages)
    ranks = []
    for i in range(len(ages) - 1):
        ends = (left[i] - left[i + 1 :]) / np.maximum(served[i + 1 :] - served[i], 1e-12)
        ranks.append(1 / max(float(ends.max()), 1e-15))
    return np.array(ranks)


def _soap_time(link: Link, ages: Floats, rank: Floats, last: int) -> tuple[float, float]:
    """Mean time until a flow that ends in interval `last` begins it, and its rate of service there."""
    worst = rank[: last + 1].max()
    old = np.flatnonzero(np.diff(np.concatenate([[False], rank <= worst, [False]]).astype(int)))
    runs = [(ages[begin], ages[end]) for begin, end in zip(old[::2], old[1::2], strict=True)]
    squares = 0.0
    for begin, end in runs:
        second = float(link.cut(end, 2)) - float(link.cut(begin, 2))
        first = float(link.cut(end)) - float(link.cut(begin))
        squares += second - 2 * begin * first  # E[(min(S, end) - begin)^2; S > begin]
    first_end = runs[0][1] if runs and runs[0][0] == 0 else 0.0
    busy_old = link.rate * float(link.cut(first_end))
    wait = link.rate / 2 * squares / ((1 - busy_old) * (1 - link.rate * _new(link, ages, rank, worst)))
    own, later = 0.0, float(rank[last])
    for i in range(last - 1, -1, -1):
        later = max(later, rank[i])
        own += (ages[i + 1] - ages[i]) / (1 - link.rate * _new(link, ages, rank, later))
    return wait + own, 1 - link.rate * _new(link, ages, rank, float(rank[last]))


def _new(link: Link, ages: Floats, rank: Floats, below: float) -> float:
    """E of the service that a new flow gets before its rank is `below` or worse."""
    worse = np.flatnonzero(rank >= below)
    return float(link.cut(ages[worse[0]] if len(worse) else ages[-1]))


def sample(sizes: Sizes) -> Floats:
    """Sizes in bytes that represent a distribution."""
    return np.sort(sizes.at((np.arange(POINTS) + 0.5) / POINTS)[0].astype(float))


def figures(flow_bytes: Floats, times_bytes: Floats) -> dict[str, float]:
    """Mean FCT by class, and mean slowdown with a round trip added."""
    fct_s = times_bytes * 8 / RATE_BPS
    slowdown = (fct_s + ROUND_TRIP_S) / (flow_bytes * 8 / RATE_BPS + ROUND_TRIP_S)
    small, large = flow_bytes <= SMALL, flow_bytes > LARGE
    near = {name: np.abs(flow_bytes / size - 1) <= 0.15 for name, size in AROUND.items()}
    return {
        "all, ms": 1e3 * float(fct_s.mean()),
        "small, us": 1e6 * float(fct_s[small].mean()),
        "medium, ms": 1e3 * float(fct_s[~small & ~large].mean()),
        "large, ms": 1e3 * float(fct_s[large].mean()) if large.any() else float("nan"),
        "slowdown": float(slowdown.mean()),
        **{f"at {name}": float(slowdown[chosen].mean()) for name, chosen in near.items()},
    }


Orders = Mapping[str, Mapping[str, float]]
"""Order of service → its figures."""


def measure(given: Given) -> Orders:
    sizes, load = load_cdf(given["sizes"]), float(given["load"])
    pias, sluice = pias_thresholds(given["sizes"], load), SCHEMES["sluice"].thresholds_bytes
    flow = sample(sizes)
    link = Link(flow, load)
    orders: dict[str, Callable[[Link], Floats]] = {
        "one queue, shared equally": processor_sharing,
        PIAS: levels(pias),
        "sluice's first thresholds": levels(sluice),
        "best 8 levels for the slowdown": levels(optimal_thresholds(sizes, load, 8)),
        BEST_FOR_MEAN: levels(best_for_mean(sizes, load, 8)),
        "least attained service": least_attained,
        GITTINS: gittins,
        "shortest remaining (sizes known)": shortest_remaining,
    }
    return {name: figures(flow, times(link)) for name, times in orders.items()}


def table(orders: Orders) -> str:
    headings = ("order", *next(iter(orders.values())))
    rows = ((name, *(f"{value:.3g}" for value in row.values())) for name, row in orders.items())
    return markdown_table(headings, rows, " --- ") + "\n"


def claims(orders: Orders) -> list[Claim]:
    best, with_sizes = orders[GITTINS], orders["shortest remaining (sizes known)"]
    least = min(row["all, ms"] for name, row in orders.items() if "sizes known" not in name)
    saved = 1 - with_sizes["all, ms"] / best["all, ms"]
    return [
        Claim(
            "no order without sizes has a lower mean FCT than Gittins's",
            f"{least:.2f} ms",
            f"{best['all, ms']:.2f} ms",
            best["all, ms"] <= 1.01 * least,
        ),
        noted("best levels for the mean, over PIAS's thresholds", _ratio(orders, BEST_FOR_MEAN)),
        noted("best order without sizes, over PIAS's thresholds", _ratio(orders, GITTINS)),
        noted("what knowing all sizes would save of that mean", f"{saved:.0%}"),
    ]


def _ratio(orders: Orders, order: str) -> str:
    return f"{orders[order]['all, ms'] / orders[PIAS]['all, ms']:.3f}"


EXPERIMENT = Experiment(
    claim="What one link allows: mean FCT and slowdown under the best orders of service.",
    minutes=0.5,
    runner=Script(measure),
    options=(
        option("--sizes", "distribution of flow sizes", default="web-search"),
        option("--load", "load of the link", type=load_share, default=0.8),
    ),
    claims=claims,
    numbers=lambda orders: orders,
    table=table,
)
