# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the control loop, in small: it measures what it names."""

import pytest

from experiments.bench.control import SCHEMES, measure_decoding, measure_loop

pytestmark = pytest.mark.timing


def test_decoding__is_a_hundred_times_faster_than_os_ken_on_the_same_bytes() -> None:
    for ours_per_s, os_ken_per_s in measure_decoding(ports=30).values():
        assert ours_per_s > 100 * os_ken_per_s


@pytest.mark.parametrize("scheme", SCHEMES)
def test_loop__polls_moves_rules_and_leaves_the_maps_that_the_controller_tells_of(scheme: str) -> None:
    """Five switches with 40 ports for two seconds; the maps are compared inside."""
    loop = measure_loop(scheme, 1, 2.0)
    assert (loop.ports, loop.switches) == (40, 5)
    assert 0 < loop.kept < 1.1
    assert loop.rules_per_s > 0
    assert loop.entries_per_s > 0
