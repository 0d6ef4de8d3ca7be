# SPDX-License-Identifier: Apache-2.0
"""The rules for Prometheus are valid, and each fires when it must. tests/web/test_grafana.py knows their metrics."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.store.totals import FLOW_SECONDS, FLOW_SLOWDOWN, Metric, bound_text

RULES = Path(__file__).parents[2] / "packaging/prometheus/sluice.rules.yml"


@pytest.mark.parametrize(
    "argv",
    [("check", "rules", RULES), ("test", "rules", Path(__file__).parent / "prometheus_rules.yml")],
    ids=["valid", "fire"],
)
def test_promtool(argv: tuple[str, str, Path]) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is missing; on Debian: apt-get install prometheus")
    done = subprocess.run(["promtool", *map(str, argv)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("metric", "limits"), [(FLOW_SECONDS, (1.0, 30.0)), (FLOW_SLOWDOWN, (50.0,))])
def test_a_limit_is_a_bound_of_the_histogram(metric: Metric, limits: tuple[float, ...]) -> None:
    for limit in limits:
        assert limit in metric.buckets
        assert f'le="{bound_text(limit)}"' in RULES.read_text()
