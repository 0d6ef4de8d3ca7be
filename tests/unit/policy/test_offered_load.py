# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sluice import topologies
from sluice.policy.errors import FieldError
from sluice.policy.figures.metrics import wire_bytes
from sluice.policy.network.graph import Topology
from sluice.policy.workload.flows import Shift, Workload
from sluice.policy.workload.random_flows import check_offered_load, offered_loads, random_batches
from sluice.policy.workload.sizes import Mix, MixPart
from tests.unit.policy.networks import star

SIZES = Mix((MixPart(10_000, 0.75, ()), MixPart(100_000, 0.25, ())))
EVERYWHERE = Workload(SIZES, "all-to-all", None, 0.8, 20_000)


def leaf_spine(core_gbps: int) -> Topology:
    return topologies.build(
        "leaf-spine",
        leaves=3,
        spines=2,
        hosts_per_leaf=4,
        host_rate_bps=10**10,
        core_rate_bps=core_gbps * 10**9,
    )


def loads(workload: Workload, topology: Topology) -> dict[str, float]:
    return offered_loads(workload, topology, workload.sizes)


def test_offered_loads__of_the_edge_are_the_load() -> None:
    found = loads(EVERYWHERE, leaf_spine(20))
    edge = [load for link, load in found.items() if "uplink" in link]
    assert edge == pytest.approx([0.8] * 12)


def test_offered_loads__of_the_core_follow_from_its_share_of_the_traffic() -> None:
    """Of a host's 11 partners, 8 are in other racks. 4 hosts share 2 uplinks of 20 Gb/s."""
    topology = leaf_spine(20)
    found = loads(EVERYWHERE, topology)
    core = [found[port.id] for port in topology.ports if not port.edge]
    assert core == pytest.approx([0.8 * 4 * 10 * 8 / 11 / 40] * 12)


@pytest.mark.parametrize("pattern", ["all-to-all", "many-to-one", "incast"])
def test_offered_loads__are_what_drawn_flows_carry(pattern: str) -> None:
    workload = replace(EVERYWHERE, pattern=pattern, flows=60_000)
    if pattern == "many-to-one":
        workload = replace(workload, to="h2")
    if pattern == "incast":
        workload = replace(workload, sizes=Mix((MixPart(10_000, 1.0, ()),)), fanin=3)
    topology = star(5)
    carried = np.zeros((5, 5))
    for batch in random_batches(workload, topology, np.random.default_rng(1)):
        np.add.at(carried, (batch.src, batch.dst), wire_bytes(batch.bytes))
    share = carried * 8 / batch.start_s[-1] / topology.ports[0].rate_bps
    for i, port in enumerate(topology.ports):
        assert loads(workload, topology)[port.id] == pytest.approx(share[:, i].sum(), rel=0.05)
        assert loads(workload, topology)[f"h{i + 1}'s uplink"] == pytest.approx(share[i].sum(), rel=0.05)


def test_check_offered__a_core_that_is_too_slow_is_named_with_the_load_that_would_do() -> None:
    with pytest.raises(FieldError, match=r"offers s\d:\d 1\.16 times .* at most 0\.681") as caught:
        check_offered_load(EVERYWHERE, leaf_spine(10))
    assert caught.value.field == "workload.load"
    check_offered_load(replace(EVERYWHERE, load=0.68), leaf_spine(10))
    check_offered_load(replace(EVERYWHERE, load=None, interarrival_s=1e-9), leaf_spine(10))


def test_check_offered__one_host_that_sends_for_all() -> None:
    one = replace(EVERYWHERE, sizes=Mix((MixPart(10_000, 1.0, ("h3",)),)))
    with pytest.raises(FieldError, match="h3's uplink 4 times"):
        check_offered_load(one, star(5))


def test_check_offered__sizes_after_a_shift_count() -> None:
    one = Mix((MixPart(10_000, 1.0, ("h3",)),))
    with pytest.raises(FieldError, match="h3's uplink"):
        check_offered_load(replace(EVERYWHERE, shifts=(Shift(0.5, one),)), star(5))
