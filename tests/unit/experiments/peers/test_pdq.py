# SPDX-License-Identifier: Apache-2.0
"""Figures of the experiment on PDQ."""

import numpy as np
import pytest

from experiments.peers.pdq import most_flows, most_in_time


def test_most_flows__are_where_the_line_between_two_points_crosses_99_percent() -> None:
    met = {1: [100.0, 98.0, 100.0], 3: [99.5, 90.0, 100.0], 5: [98.5, 80.0, 99.0]}
    assert most_flows(met) == pytest.approx([4.0, 0.5, 5.0])


def test_most_in_time__gives_up_the_longest_job_first() -> None:
    assert most_in_time(np.asarray([5.0, 1.0, 1.0]), np.asarray([5.0, 5.5, 6.0])) == 2
    assert most_in_time(np.asarray([5.0, 1.0, 1.0]), np.asarray([5.0, 6.0, 7.0])) == 3
