# SPDX-License-Identifier: Apache-2.0
"""Flows that a scenario lists: throughput from their samples."""

from __future__ import annotations

import pytest

from tests.kit.finished_runs import flow, sampled


def test_rates__between_samples_and_from_the_start() -> None:
    times, values = sampled((1.1, 100_000), (1.2, 300_000)).rates(0)
    assert list(times) == pytest.approx([1.05, 1.15])
    assert list(values) == pytest.approx([8.0, 16.0])


def test_rates__samples_that_lie_too_close_together_tell_none() -> None:
    times, _ = sampled((1.1, 100_000), (1.101, 200_000)).rates(0)
    assert list(times) == pytest.approx([1.05])


def test_mean_rate__between_any_two_times() -> None:
    run = sampled((1.1, 100_000), (1.2, 300_000))
    assert run.mean_rate_mbps(0, 1.0, 1.2) == pytest.approx(12.0)
    assert run.mean_rate_mbps(0, 1.05, 1.15) == pytest.approx(12.0)


def test_column__only_where_it_is_known() -> None:
    times, values = sampled((1.1, 1)).column(0, "precedence")
    assert len(times) == len(values) == 0


def test_flow__as_text() -> None:
    assert str(flow("x", bytes=10_000_000, fct_s=3.456)) == "10 MB in 3.46 s"
    assert str(flow("x", bytes=10_000_000, fct_s=None, reason="quenched")) == "10 MB quenched"
    assert flow("x", fct_s=None).end_s is None
    assert flow("x").end_s == 1.5
