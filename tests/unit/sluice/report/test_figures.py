# SPDX-License-Identifier: Apache-2.0
"""The figures of a report, from bundles whose files may be damaged."""

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.policy.errors import SluiceError
from sluice.report.charts import QUEUE_TIMES, TIMES, Moves, queues_over_time, threshold_moves
from sluice.report.runs import Flows, Run, Variant, find_runs, variants
from sluice.report.tables import (
    PLAIN,
    Board,
    Estimate,
    Scale,
    board,
    of_class,
    ratio,
    slowdown_by_size,
    time_scale,
)
from sluice.runs.bundle import BundleWriter
from tests.kit.bundles import bundle, document, flow, random_flows
from tests.kit.known import known


def runs_with(tmp_path: Path, fct_us_by_seed: Mapping[int, float | None]) -> list[Run]:
    for seed, fct_us in fct_us_by_seed.items():
        bundle(tmp_path / str(seed), document(seed=seed), [flow(1, 1000, fct_us)])
    return find_runs([tmp_path])


def mean_fct(runs: Sequence[Run]) -> Estimate | None:
    return of_class(runs, "fct_us", "all", "mean")


def test_ratio__seed_by_seed(tmp_path: Path) -> None:
    above = runs_with(tmp_path / "a", {1: 200.0, 2: 900.0})
    below = runs_with(tmp_path / "b", {1: 100.0, 2: 300.0})
    deviation: Any = pytest.approx(0.5**0.5)
    assert ratio(above, below, mean_fct) == Estimate(2.5, deviation)


def test_ratio__mean_by_mean_where_the_seeds_differ(tmp_path: Path) -> None:
    above = runs_with(tmp_path / "a", {1: 200.0, 2: 900.0})
    below = runs_with(tmp_path / "b", {1: 100.0})
    assert ratio(above, below, mean_fct) == Estimate(5.5)


def of_sizes(sizes: npt.ArrayLike, slowdown: npt.ArrayLike) -> Flows:
    sizes, slowdown = np.array(sizes), np.array(slowdown, float)
    return Flows(sizes, np.full(len(sizes), "small"), slowdown, slowdown)


def test_slowdown_by_size__each_bin_has_its_own_figures() -> None:
    sizes = [1500] * 200 + [150_000] * 50 + [9_000_000] * 3
    slowdown = [*np.linspace(1, 2, 200), *[5.0] * 50, 7, 7, 7]
    bins = slowdown_by_size(of_sizes(sizes, slowdown))
    assert bins.size_bytes == pytest.approx([1500, 150_000, 9_000_000])
    assert bins.mean[:2] == pytest.approx([1.5, 5])
    assert (bins.p50[0], bins.p95[1]) == pytest.approx((1.5, 5))
    assert np.isnan([bins.p95[2], bins.p99[1]]).all(), "too few flows"
    assert bins.p99[0] == pytest.approx(np.percentile(slowdown[:200], 99))


@pytest.mark.parametrize(("flows", "bins"), [(2000, 20), (1999, 19), (1000, 10), (300, 10), (50, 5), (5, 1)])
def test_slowdown_by_size__bins_have_equally_many_flows(flows: int, bins: int) -> None:
    """A flow of rank n has the slowdown n, so the means of the bins say which flows they have."""
    sizes = np.geomspace(100, 1e9, flows).round()
    mixed = np.random.default_rng(1).permutation(flows)
    found = slowdown_by_size(of_sizes(sizes[mixed], mixed + 1))
    bounds = np.arange(bins + 1) * flows // bins
    assert np.ptp(np.diff(bounds)) <= 1
    assert len(found.mean) == bins
    enough = flows >= 10
    expected = [(low + 1 + high) / 2 for low, high in pairwise(bounds.tolist())]
    assert np.array_equal(found.mean, expected if enough else [np.nan], equal_nan=True)
    assert np.isfinite(found.p99).all() == (flows >= 1000)


@pytest.mark.parametrize(
    ("values_us", "unit"),
    [
        ([123.4], "µs"),
        ([300.0, 2e6], "ms"),
        ([3.2e6, 4e5], "s"),
        ([], "µs"),
    ],
)
def test_time_scale__the_unit_in_the_middle_of_what_is_compared(values_us: list[float], unit: str) -> None:
    assert time_scale(values_us).unit == unit


@pytest.mark.parametrize(
    ("scale", "mean", "deviation", "shown"),
    [
        (PLAIN, 0.0123, None, "0.012"),
        (PLAIN, 1234567.0, None, "1 234 567"),
        (PLAIN, 0, None, "0.00"),
        (PLAIN, 123.4, 5.67, "123 ± 6"),
        (Scale("ms", 1e-3), 1234.0, 567.0, "1.23 ± 0.57"),
    ],
)
def test_scale__three_digits_and_the_deviation_to_the_decimal_of_the_mean(
    scale: Scale, mean: float, deviation: float | None, shown: str
) -> None:
    assert scale.show(Estimate(mean, deviation)).replace("\N{NARROW NO-BREAK SPACE}", " ") == shown


def of(tmp_path: Path, slower: dict[str, float]) -> tuple[list[Variant], Board]:
    """Return the scoreboard of schemes, each so much slower than the first. The same seed gives the same flows."""
    for scheme, factor in slower.items():
        records = random_flows(1, slower=factor, scheme=scheme)
        bundle(tmp_path / scheme, document(scheme), records)
    found = variants(find_runs([tmp_path]))
    return found, board(found, found[0], 0.5, ["small", "medium", "large"])


def test_board__a_scheme_that_is_twice_as_slow_is_worse_in_all_means(tmp_path: Path) -> None:
    _, found = of(tmp_path, {"dctcp": 1.0, "pias": 2.0})
    base, other = found.rows
    assert [cell.ratio for cell in base.cells if cell.ratio] == []
    means = [
        cell for heading, cell in zip(found.headings, other.cells, strict=True) if "Small mean" in heading
    ]
    assert [(cell.ratio, cell.verdict) for cell in means] == [("×2.00 ▲ worse", "worse")]


def test_board__has_all_figures_as_csv(tmp_path: Path) -> None:
    labels, found = of(tmp_path, {"dctcp": 1.0, "pias": 2.0})
    kind, _, text = found.csv_uri.partition(",")
    assert kind == "data:text/csv;charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(unquote(text))))
    (row,) = [
        r for r in rows if (r["variant"], r["class"], r["figure"]) == (labels[1].label, "small", "mean_us")
    ]
    assert float(row["ratio"]) == pytest.approx(2.0, rel=1e-4)
    assert (row["verdict"], float(row["low"]) < float(row["value"])) == ("worse", True)


def run_with(folder: Path, changes: list[tuple[float, str, list[int]]], version: int = 1) -> Run:
    """Return a run whose thresholds changed as (seconds, port, thresholds)."""
    with BundleWriter(folder, scenario=document("mlfq-adaptive")) as bundle:
        bundle.add_records([flow(1, 1000, 100.0)])
        bundle.add_thresholds(
            {"at": at, "port": port, "policy_version": version, "thresholds_bytes": values, "flows": 0}
            for at, port, values in changes
        )
        bundle.finish(meta={"on": "simulator"}, validity_reasons=[])
    (run,) = find_runs([folder])
    return run


def moves_of(tmp_path: Path, *changes: tuple[float, str, list[int]]) -> Moves | None:
    return threshold_moves(run_with(tmp_path, list(changes)))


def sampled(folder: Path, samples: Sequence[Mapping[str, float]]) -> Run:
    """Return a run with samples of ports: bytes that wait. Port s1:n has sent n bytes with each sample."""
    with BundleWriter(folder, scenario=document("dctcp")) as writer:
        writer.add_records([flow(1, 5000, 70.0)])
        for i, waiting in enumerate(samples, start=1):
            sent = np.asarray([i * int(port.partition(":")[2]) for port in waiting])
            others = {"sent_packets": sent, "marked_packets": 0 * sent, "dropped_packets": 0 * sent}
            columns = {"port": np.asarray([*waiting]), "waiting_bytes": np.asarray([*waiting.values()])}
            writer.add_port_samples(float(i), {**columns, "sent_bytes": sent, **others})
        writer.finish(meta={"on": "simulator"}, validity_reasons=[])
    (run,) = find_runs([folder])
    return run


def test_queues_over_time__those_of_the_ports_that_sent_the_most(tmp_path: Path) -> None:
    waiting = [{f"s1:{port}": 100 * i + port for port in range(1, 12)} for i in range(3)]
    queues = queues_over_time(sampled(tmp_path, waiting))
    assert list(queues) == ["s1:11", "s1:10", "s1:9", "s1:8", "s1:7"]
    at_s, waiting_bytes = queues["s1:9"]
    assert at_s.tolist() == [1, 2, 3]
    assert waiting_bytes.tolist() == [9, 109, 209]


def test_queues_over_time__of_many_samples_the_peaks_stay(tmp_path: Path) -> None:
    peaks = {13: 500.0, 149: 700.0}
    samples = [{"s1:1": peaks.get(i, 1.0)} for i in range(150)]
    at_s, waiting_bytes = queues_over_time(sampled(tmp_path, samples))["s1:1"]
    assert (len(at_s), at_s[-1]) == (QUEUE_TIMES, 150)
    assert sorted(waiting_bytes)[-3:] == [1, 500, 700]
    assert waiting_bytes[-1] == 700
    assert (np.diff(at_s) > 0).all()


def test_queues_over_time__none_without_samples(tmp_path: Path) -> None:
    assert queues_over_time(sampled(tmp_path, [])) == {}


def test_threshold_moves__each_port_holds_its_thresholds_until_the_next_change(tmp_path: Path) -> None:
    found = known(
        moves_of(
            tmp_path, (5.0, "s1:1", [100]), (5.0, "s1:2", [100]), (7.0, "s1:1", [300]), (9.0, "s1:2", [500])
        )
    )
    assert found.at_s.tolist() == [0, 2, 4]
    assert found.median[:, 0].tolist() == [100, 200, 400]
    assert (found.low[2, 0], found.high[2, 0]) == (320, 480)


def test_threshold_moves__none_if_no_port_moves_any(tmp_path: Path) -> None:
    assert moves_of(tmp_path, (0.0, "s1:1", [100]), (1.0, "s1:1", [100]), (1.0, "s1:2", [7])) is None
    assert moves_of(tmp_path / "empty") is None


def test_threshold_moves__many_changes_become_few_points(tmp_path: Path) -> None:
    found = known(moves_of(tmp_path, *((float(i), "s1:1", [i + 1]) for i in range(2000))))
    assert found.median.shape == (TIMES, 1)
    assert found.median[-1, 0] == 2000
    assert (np.diff(found.median[:, 0]) > 0).all()


def test_threshold_moves__only_those_of_the_runs_version(tmp_path: Path) -> None:
    run: Any = run_with(tmp_path, [(0.0, "s1:1", [100]), (1.0, "s1:1", [200])], version=4)
    assert threshold_moves(Run(run.folder, run.document, run.meta, run.summary, version=4)) is not None
    assert threshold_moves(Run(run.folder, run.document, run.meta, run.summary, version=5)) is None


# A bundle with a damaged file is refused by the file's name: no other exception, and no silence.


TEXTS = (
    "",
    "{",
    "[]",
    "null",
    "7",
    '"text"',
    '{"a": null}',
    '[{"a": 1}]',
    '[{"version": 1, "policy": 2}]',
    "[" * 9999,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return bundle(tmp_path / "a", document(), [flow(1, 1000, 100.0)])


@pytest.mark.parametrize("name", ["scenario", "meta", "summary", "policies"])
def test_a_damaged_document_is_named(folder: Path, name: str) -> None:
    path = folder / f"{name}.json"
    for text in TEXTS:
        if (name, text) in {("policies", "[]"), ("meta", '{"a": null}')}:
            continue  # a bundle without policies, and one of an older version
        path.write_text(text)
        with pytest.raises(SluiceError, match=rf"{name}\.json: cannot be used: .*; run the scenario again"):
            find_runs([folder])


@pytest.mark.parametrize("name", ["flows.parquet", "ports.parquet"])
def test_a_damaged_table_is_named(folder: Path, name: str) -> None:
    path = folder / name
    path.write_text("x")
    with pytest.raises(SluiceError, match=rf"{name}: cannot be used"):
        find_runs([folder])
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(SluiceError, match=rf"{name}: cannot be used: it lacks"):
        find_runs([folder])
    path.unlink()
    path.mkdir()
    with pytest.raises(SluiceError, match=rf"{name}: cannot be used"):
        find_runs([folder])
