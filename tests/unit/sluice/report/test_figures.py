# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sluice.report.numbers import (
    MIN_FOR_MEAN,
    MIN_FOR_P99,
    PLAIN,
    Estimate,
    Scale,
    estimate,
    factor_text,
    of_class,
    percent,
    pooled,
    ratio,
    size_text,
    slowdown_by_size,
    time_scale,
    time_text,
)
from sluice.report.runs import Flows, Run, find_runs
from tests.kit.bundles import bundle, document, flow


def runs_with(tmp_path: Path, fct_us_by_seed: Mapping[int, float | None]) -> list[Run]:
    for seed, fct_us in fct_us_by_seed.items():
        bundle(tmp_path / str(seed), document(seed=seed), [flow(1, 1000, fct_us)])
    return find_runs([tmp_path])


def about(value: float) -> Any:
    """Return what equals a value up to rounding errors."""
    return pytest.approx(value)


def mean_fct(runs: Sequence[Run]) -> Estimate | None:
    return of_class(runs, "fct_us", "all", "mean")


def test_estimate__mean_and_deviation_of_what_is_known() -> None:
    assert estimate([1.0, None, 3.0]) == Estimate(2.0, about(2**0.5), 2)
    assert estimate([5.0]) == Estimate(5.0, None, 1)
    assert estimate([None]) is None


def test_ratio__seed_by_seed(tmp_path: Path) -> None:
    above = runs_with(tmp_path / "a", {1: 200.0, 2: 900.0})
    below = runs_with(tmp_path / "b", {1: 100.0, 2: 300.0})
    assert ratio(above, below, mean_fct) == Estimate(2.5, about(0.5**0.5), 2)


def test_ratio__mean_by_mean_where_the_seeds_differ(tmp_path: Path) -> None:
    above = runs_with(tmp_path / "a", {1: 200.0, 2: 900.0})
    below = runs_with(tmp_path / "b", {1: 100.0})
    assert ratio(above, below, mean_fct) == Estimate(5.5, None, 2)


def test_pooled__finished_flows_of_all_runs(tmp_path: Path) -> None:
    runs = runs_with(tmp_path, {1: 100.0, 2: None, 3: 50.0})
    assert sorted(pooled(runs).fct_us) == [50.0, 100.0]


def of_sizes(sizes: npt.ArrayLike, slowdown: npt.ArrayLike) -> Flows:
    sizes, slowdown = np.array(sizes), np.array(slowdown, float)
    return Flows(sizes, np.full(len(sizes), "small"), slowdown, slowdown)


def test_slowdown_by_size__each_bin_has_its_own_figures() -> None:
    sizes = [1500] * 200 + [150_000] * 50 + [9_000_000] * 3
    slowdown = [*np.linspace(1, 2, 200), *[5.0] * 50, 7, 7, 7]
    bins = slowdown_by_size(of_sizes(sizes, slowdown))
    assert bins.size_bytes == pytest.approx([1500, 150_000, 9_000_000])
    assert list(bins.flows) == [200, 50, 3]
    assert bins.mean[:2] == pytest.approx([1.5, 5])
    assert bins.p99[0] == pytest.approx(np.percentile(slowdown[:200], 99))


def test_slowdown_by_size__few_flows_say_nothing() -> None:
    bins = slowdown_by_size(of_sizes([1500] * (MIN_FOR_MEAN - 1), [1.0] * (MIN_FOR_MEAN - 1)))
    assert np.isnan(bins.mean).all()
    bins = slowdown_by_size(of_sizes([1500] * (MIN_FOR_P99 - 1), [1.0] * (MIN_FOR_P99 - 1)))
    assert np.isfinite(bins.mean).all()
    assert np.isnan(bins.p99).all()
    assert len(slowdown_by_size(of_sizes([], [])).size_bytes) == 0


@pytest.mark.parametrize(
    ("values_us", "unit"),
    [
        ([123.4], "µs"),
        ([1234.0], "ms"),
        ([300.0, 2e6], "ms"),
        ([3e4, 2e6, 3e6], "ms"),
        ([3.2e6, 4e5], "s"),
        ([0.01], "µs"),
        ([], "µs"),
    ],
)
def test_time_scale__the_unit_in_the_middle_of_what_is_compared(values_us: list[float], unit: str) -> None:
    assert time_scale(values_us).unit == unit


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0123, "0.012"),
        (1.234, "1.23"),
        (45.67, "45.7"),
        (100.0, "100"),
        (1234567.0, "1 234 567"),
        (0, "0.00"),
    ],
)
def test_scale__three_digits(value: float, shown: str) -> None:
    assert PLAIN.show(Estimate(value, None, 1)) == thin(shown)


def test_scale__the_deviation_to_the_decimal_of_the_mean() -> None:
    assert PLAIN.show(Estimate(123.4, 5.67, 3)) == "123 ± 6"
    assert Scale("ms", 1e-3).show(Estimate(1234.0, 567.0, 3)) == "1.23 ± 0.57"
    assert PLAIN.show(None) == percent(None) == "–"
    assert percent(Estimate(0.123, 0.01, 2)) == "12.3 ± 1.0 %"


def test_texts_on_axes() -> None:
    assert [size_text(size) for size in (300, 100_000, 2.5e6, 1e9)] == thin(
        "300 B", "100 KB", "2.5 MB", "1 GB"
    )
    assert [time_text(time) for time in (0.5, 20, 1500, 2e6)] == thin("0.5 µs", "20 µs", "1.5 ms", "2 s")
    assert [factor_text(factor) for factor in (0.5, 2, 10_000)] == thin("0.5", "2", "10 000")


def thin(*texts: str) -> list[str] | str:
    """Return the text with thin spaces: they keep digits and units together."""
    narrow = [text.replace(" ", "\N{NARROW NO-BREAK SPACE}") for text in texts]
    return narrow if len(narrow) > 1 else narrow[0]
