# SPDX-License-Identifier: Apache-2.0
"""ns2_check: its runs differ in what their names say, and its flows are those of the reference."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.checks.ns2 import FULL, SMALL, Reference, columns
from sluice.runs.files import load_cdf


@pytest.mark.parametrize("reference", [FULL, SMALL])
def test_flows__are_those_of_the_reference(reference: Reference) -> None:
    starts_s, size_bytes, source, to = columns(reference.flows, 0.8, load_cdf("web-search"), reference.hosts)
    packets = size_bytes / 1460
    assert [
        int(((row.least_packets <= packets) & (packets <= row.most_packets)).sum()) for row in reference.rows
    ] == [row.flows for row in reference.rows]
    assert (source != to).all()
    assert (np.diff(starts_s) >= 0).all()
