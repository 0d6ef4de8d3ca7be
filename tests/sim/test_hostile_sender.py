# SPDX-License-Identifier: Apache-2.0
"""One host sends 1,500 packets a second into a port of 20 Mb/s, whatever is marked or lost. Others share the port."""

from typing import Any, NamedTuple

import numpy as np

from sluice.policy.schemes.queues import demotion_levels
from sluice.simulator import _fabric as core
from tests.sim import kit
from tests.sim.kit import GBIT, MS, PAYLOAD, US, Link, S
from tests.sim.runs import run

RATE_BPS, FLOOD_PER_S, SECONDS = 20_000_000, 1500, 6
SINK, ATTACKER, HOSTS = 0, 1, 7
THRESHOLDS = (10_000, 30_000, 100_000, 300_000, 10**6, 3 * 10**6, 10**7)
SIZES, SHARES = (2_000, 8_000, 20_000, 60_000, 100_000), (0.3, 0.3, 0.2, 0.1, 0.1)


class Outcome(NamedTuple):
    """What small and large flows got. Unfinished small flows count as flows of infinite duration."""

    mean_ms: float
    p99_ms: float
    large_bps: float


def queue_map() -> list[int]:
    """Tags of attained service by THRESHOLDS; the flood's tags in the last queue (`kit.as_priority`)."""
    found = kit.priority_map()
    for tag, level in enumerate(demotion_levels(THRESHOLDS), start=1):
        found[tag] = level
    return found


BY_PORT: dict[str, object] = {"mark_bytes": 97_500, "buffer_bytes": 360_000}
BY_QUEUE: dict[str, object] = {
    "mark_bytes": 30_000,
    "buffer_bytes": 600_000,
    "mark_by": core.MarkBy.queue,
    "last_mark_bytes": 90_000,
}
"""As scheme sluice marks with a threshold of 20 packets."""


def shared_port(order: core.DropOrder, marks: dict[str, object]) -> kit.Net:
    net = kit.single(
        HOSTS,
        # A packet of the flood is a flow of its own: it must never be retransmitted.
        kit.transport(tags_deadlines=True, rto_initial_ps=100 * S),
        up=Link(GBIT, 50 * US),
        down=Link(RATE_BPS, 50 * US, more={"drop_order": order, **marks}),
    )
    net.fabric.set_queue_of(net.towards[SINK], queue_map())
    return net


def small_flows() -> list[tuple[int, int, int]]:
    """Return (start, source, bytes) of flows of up to 100 KB at a load of 0.3."""
    rng = np.random.default_rng(1)
    mean_bytes = float(np.dot(SIZES, SHARES))
    count = round(0.3 * RATE_BPS / 8 / mean_bytes * SECONDS)
    starts = np.sort(rng.uniform(0, SECONDS * S, count))
    return [(int(start), int(rng.integers(2, HOSTS)), int(rng.choice(SIZES, p=SHARES))) for start in starts]


def outcome(order: core.DropOrder, *, flood: bool, marks: dict[str, object] = BY_PORT) -> Outcome:
    net = shared_port(order, marks)
    flows: list[tuple[int, int, int, str, dict[str, int]]] = [
        (start, source, size, "small", {}) for start, source, size in small_flows()
    ]
    flows += [(0, source, 1, "large", {"until_ps": SECONDS * S}) for source in (2, 3)]
    if flood:
        starts = (S // 5 + n * S // FLOOD_PER_S for n in range(FLOOD_PER_S * SECONDS))
        flows += [(start, ATTACKER, PAYLOAD, "flood", kit.as_priority(7, start)) for start in starts]
    flows.sort(key=lambda flow: flow[0])
    kinds = np.array([kind for *_, kind, _ in flows])
    for start, source, size, _, more in flows:
        net.flow(source, SINK, size, start, **more)
    net.run(2 * SECONDS * S)
    ended = net.results()
    fct_ms = np.full(len(flows), np.inf)
    fct_ms[ended["id"]] = ended["fct_ps"] / MS
    small = fct_ms[kinds == "small"]
    large_bytes = ended["delivered_bytes"][kinds[ended["id"]] == "large"].sum()
    return Outcome(
        float(small.mean()),
        float(np.percentile(small, 99, method="higher")),
        float(large_bytes) * 8 / SECONDS,
    )


def test_a_flood_below_them_leaves_others_what_they_had() -> None:
    before, during = (outcome(core.DropOrder.urgency, flood=flood) for flood in (False, True))
    assert during.mean_ms < 1.2 * before.mean_ms
    assert during.p99_ms < 1.5 * before.p99_ms
    assert during.large_bps > 0.9 * before.large_bps


def test_a_flood_costs_others_nothing_if_each_queue_marks_by_itself() -> None:
    """The smaller room of the last queue leaves to the others what they need, for it does not mark them."""
    before, during = (outcome(core.DropOrder.urgency, flood=flood, marks=BY_QUEUE) for flood in (False, True))
    assert during.mean_ms < 1.01 * before.mean_ms
    assert during.p99_ms < 1.01 * before.p99_ms
    assert during.large_bps > 0.9 * before.large_bps


def test_the_same_flood_stops_small_flows_if_the_port_drops_what_arrives() -> None:
    """The law is what protects them: without it, some small flow never ends."""
    assert outcome(core.DropOrder.arrival, flood=True).mean_ms == np.inf


# A host opens thousands of one-packet connections to a port. Three others send flows of 10 KB and 1 MB there.


HONEST, HOSTILE, PORT = ("h2", "h3", "h4"), "h5", "s1:1"


def flow(source: str, size: str, start_us: int) -> dict[str, Any]:
    return {"from": source, "to": "h1", "bytes": size, "start": f"{start_us}us"}


def thresholds(*, robust: bool) -> set[int]:
    """Return the port's thresholds after the first quarter of a second."""
    rng = np.random.default_rng(1)
    flows = [
        flow(str(rng.choice(HONEST)), "1000KB" if rng.random() < 0.1 else "10KB", at)
        for at in range(0, 600_000, 1000)
    ]
    flows += [flow(HOSTILE, "100B", at) for at in range(100_000, 600_000, 200)]
    made = run(
        {
            "name": "hostile-ends",
            "fabric": {"topology": "single", "hosts": 5, "host_rate": "1Gbit", "link_delay": "10us"},
            "scheme": {
                "name": "mlfq-adaptive",
                "queues": 2,
                "thresholds": ["10KB"],
                "percentiles": [50],
                "window_ms": 200,
                "interval_ms": 50,
                "robust_ends": robust,
            },
            "workload": {"flow": sorted(flows, key=lambda one: int(one["start"][:-2]))},
        }
    )
    until = [move for move in made.thresholds(PORT) if move.at_s <= 0.6]
    return {move.thresholds_bytes[0] for move in until if move.at_s >= 0.25 or move is until[-1]}


def test_tiny_connections_of_one_host_move_no_threshold_with_robust_ends() -> None:
    assert thresholds(robust=True) == {10_000}
    assert thresholds(robust=False) == {1_000}, "they are the median"
