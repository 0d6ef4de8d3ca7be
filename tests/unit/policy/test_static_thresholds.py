# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sluice.policy import tags
from sluice.policy.errors import FieldError
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes import SCHEMES
from sluice.policy.thresholds import static
from sluice.policy.workload.sizes import Mix, MixPart, SizeCdf, Sizes
from sluice.runs.files import load_cdf
from tests.kit.flows import mean_slowdown

PACKET_BYTES = 1460
WEB_SEARCH, DATA_MINING = load_cdf("web-search"), load_cdf("data-mining")
MIX = Mix((MixPart(10_000, 0.8), MixPart(1_000_000, 0.2)))
SMOOTH = SizeCdf("smooth", (1e3, 1e6), (0.0, 1.0))


@cache
def flows_of(sizes: Sizes) -> static._FlowSizes:
    return static._FlowSizes(sizes, 1.0)


def pias_objective(sizes: Sizes, load: float, thresholds_bytes: npt.ArrayLike) -> float:
    """Return T of `static` for any thresholds, in packet times."""
    flows, thresholds = flows_of(sizes), np.asarray(thresholds_bytes, float)
    entered = np.concatenate([[1.0], flows.larger(thresholds)])
    busy = load * np.concatenate([flows.up_to(thresholds) / flows.mean, [1.0]])
    return float(np.sum(entered / (1 - busy)))


PUBLISHED = {  # in packets, from the scripts of PIAS's ns-2 evaluation
    ("web-search", 0.9): (759, 1132, 1456, 1737, 2010, 2199, 2325),
    ("web-search", 0.8): (909, 1329, 1648, 1960, 2143, 2337, 2484),
    ("web-search", 0.7): (999, 1305, 1564, 1763, 1956, 2149, 2309),
    ("web-search", 0.6): (956, 1381, 1718, 2028, 2297, 2551, 2660),
    ("web-search", 0.5): (1059, 1412, 1643, 1869, 2008, 2115, 2184),
    ("data-mining", 0.9): (750, 1083, 1416, 13705, 14952, 21125, 28253),
    ("data-mining", 0.8): (745, 1083, 1391, 13689, 14936, 21149, 27245),
    ("data-mining", 0.7): (907, 1301, 1619, 12166, 12915, 21313, 26374),
    ("data-mining", 0.6): (840, 1232, 1617, 11950, 12238, 21494, 25720),
    ("data-mining", 0.5): (805, 1106, 1401, 10693, 11970, 21162, 22272),
}
DISTRIBUTIONS = {"web-search": WEB_SEARCH, "data-mining": DATA_MINING}


@pytest.mark.parametrize(("name", "load"), PUBLISHED)
def test_pias_thresholds__are_at_least_as_good_as_the_published_ones(name: str, load: float) -> None:
    sizes = DISTRIBUTIONS[name]
    ours = pias_objective(sizes, load, static.pias_thresholds(sizes, load, 8))
    published = pias_objective(sizes, load, [p * PACKET_BYTES for p in PUBLISHED[name, load]])
    assert ours <= published
    assert published < 1 / (1 - load) * 2  # otherwise the objective would not be theirs


@pytest.mark.parametrize(("name", "load"), PUBLISHED)
def test_optimal_thresholds__are_better_than_the_published_ones_and_those_than_one_queue(
    name: str, load: float
) -> None:
    sizes = DISTRIBUTIONS[name]
    delays = static.known_delays(sizes, load, 8)

    def slowdown(thresholds: Sequence[int]) -> float:
        return float(mean_slowdown(delays, np.asarray([[tags.edge_index(t) for t in thresholds]]))[0])

    published = slowdown([p * PACKET_BYTES for p in PUBLISHED[name, load]])
    assert slowdown(static.optimal_thresholds(sizes, load, 8)) <= published
    assert published < slowdown([tags.EDGES_BYTES[-1]] * 7)


@pytest.mark.parametrize("load", [0.5, 0.95, 0.99])
def test_pias_thresholds__the_grid_costs_less_than_a_thousandth(load: float) -> None:
    """Sizes without any step, so the best threshold is between two sizes of the grid."""
    found = static.pias_thresholds(SMOOTH, load, 3)
    least = pias_objective(SMOOTH, load, found)
    for i in range(2):
        for factor in np.linspace(0.97, 1.03, 61):
            moved = [size * (factor if i == k else 1) for k, size in enumerate(found)]
            assert pias_objective(SMOOTH, load, moved) >= least * (1 - 1e-3)


@pytest.mark.parametrize("queues", [1, 2, 8])
@pytest.mark.parametrize("load", [0.01, 0.99])
def test_pias_thresholds__increase_and_are_a_policys(queues: int, load: float) -> None:
    found = static.pias_thresholds(DATA_MINING, load, queues, scale=2.0)
    assert len(found) == queues - 1
    assert all(1 <= lower < upper <= 10**9 for lower, upper in pairwise(found))


def test_pias_objective__one_threshold_by_hand() -> None:
    """80 % of 10 KB, 20 % of 1 MB, load 0.8, threshold 10 KB: 1 / (1 - 0.8 * 10/208) + 0.2 / (1 - 0.8)."""
    assert pias_objective(MIX, 0.8, [10_000]) == pytest.approx(1 / (1 - 0.8 * 10 / 208) + 1)
    below_all = 1 / (1 - 0.8 / 208) + 1 / (1 - 0.8)
    assert pias_objective(MIX, 0.8, [1000]) == pytest.approx(below_all, rel=1e-9)


@pytest.mark.parametrize("load", [0, 1])
@pytest.mark.parametrize("solve", [static.pias_thresholds, static.optimal_thresholds])
def test_thresholds__are_refused_without_load_or_beyond_the_link(
    solve: Callable[..., Any], load: float
) -> None:
    with pytest.raises(FieldError, match="load"):
        solve(MIX, load, 8)


def test_optimal_thresholds__are_the_defaults_of_two_level_schemes() -> None:
    expected = static.optimal_thresholds(WEB_SEARCH, 0.8, 4)
    assert SCHEMES["aemon"].thresholds_bytes == SCHEMES["2lps+dctcp"].thresholds_bytes == expected


@pytest.mark.parametrize(
    ("word", "solve"), [("optimal", static.optimal_thresholds), ("pias", static.pias_thresholds)]
)
@pytest.mark.parametrize(("scheme", "queues", "levels"), [("pias", 4, 4), ("aemon", 6, 3), ("karuna", 8, 7)])
def test_solved__a_word_becomes_as_many_thresholds_as_the_scheme_has(
    word: str, solve: Callable[..., Any], scheme: str, queues: int, levels: int
) -> None:
    document = static.solved(
        {"scheme": scheme, "queues": queues, "thresholds": word}, static.Traffic(WEB_SEARCH, 0.7, 0.1)
    )
    assert tuple(document["thresholds"]) == solve(WEB_SEARCH, 0.7, levels, 0.1)
    assert Policy.from_document(document).thresholds == tuple(document["thresholds"])


@pytest.mark.parametrize("sizes", [WEB_SEARCH, DATA_MINING, MIX])
def test_known_delays__no_bucket_has_a_negative_share_of_the_flows(sizes: Sizes) -> None:
    weight = static.known_delays(sizes, 0.6, 4).weight
    assert (np.diff(weight, prepend=0.0) >= 0).all()
