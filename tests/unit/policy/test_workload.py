# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np

from sluice.policy.wire.records import by_source
from sluice.policy.workload.flows import Deadlines, FlowBatch, Workload, flows_of
from sluice.policy.workload.random_flows import random_batches
from sluice.policy.workload.sizes import Mix, MixPart
from tests.unit.policy.networks import star

WORKLOAD = Workload(
    Mix((MixPart(10_000, 1.0, ()),)),
    "all-to-all",
    None,
    0.8,
    500,
    deadlines=Deadlines(0.5, "uniform", 1, 2, 0),
)


def batch() -> FlowBatch:
    return next(random_batches(WORKLOAD, star(), np.random.default_rng(1)))


def test_flow_batch__a_part_of_it_keeps_the_numbers() -> None:
    whole = batch()
    part = whole[100:250]
    assert (len(whole), len(part), part.first) == (500, 150, 100)
    assert part.start_s.tolist() == whole.start_s[100:250].tolist()
    assert part[50:].first == 150
    assert flows_of([part], star(), "run") == flows_of([whole], star(), "run")[100:250]


def test_by_source__partitions_the_schedule() -> None:
    flows = flows_of([batch()], star(), "run")
    grouped = by_source(flows)
    assert sorted(f.id for part in grouped.values() for f in part) == sorted(f.id for f in flows)
    assert all(flow.src == name for name, part in grouped.items() for flow in part)
