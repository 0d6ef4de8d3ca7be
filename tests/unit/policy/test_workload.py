# SPDX-License-Identifier: Apache-2.0

import tracemalloc
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sluice import topologies
from sluice.policy.errors import FieldError
from sluice.policy.figures.metrics import wire_bytes
from sluice.policy.network.graph import Topology
from sluice.policy.workload import random_flows
from sluice.policy.workload.flows import Deadlines, FlowBatch, Shift, Workload, flows_of
from sluice.policy.workload.sizes import Group, Mix, MixPart, SizeCdf
from tests.kit.networks import RATE_BPS, star

ONE_SIZE = Mix((MixPart(10_000, 1.0),))
WORKLOAD = Workload(500, load=0.8, sizes=ONE_SIZE, deadlines=Deadlines(0.5, "uniform", 1, 2, 0))


def batch() -> FlowBatch:
    return next(random_flows.random_batches(WORKLOAD, star(), np.random.default_rng(1)))


def test_flow_batch__a_part_of_it_keeps_the_numbers() -> None:
    whole = batch()
    part = whole[100:250]
    assert (len(whole), len(part), part.first) == (500, 150, 100)
    assert part.start_s.tolist() == whole.start_s[100:250].tolist()
    assert part[50:].first == 150
    assert flows_of([part], star(), "run") == flows_of([whole], star(), "run")[100:250]


def pairs(
    pattern: str,
    count: int = 20_000,
    *,
    hosts: int = 5,
    to: str | None = None,
    fanin: int = 1,
    sources: Sequence[tuple[str, ...]] = ((),),
    parts: npt.NDArray[Any] | None = None,
    seed: int = 1,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    workload = Workload(count, pattern, to, 0.5, sizes=ONE_SIZE, fanin=fanin)
    streams = [np.random.default_rng([seed, i]) for i in range(2)]
    made = random_flows.make_pattern(workload, star(hosts), sources, streams)
    return made(np.zeros(count, np.int64) if parts is None else parts)


def test_all_to_all__every_pair_is_as_likely() -> None:
    src, dst = pairs("all-to-all")
    seen = np.bincount(src * 5 + dst, minlength=25).reshape(5, 5)
    assert (np.diag(seen) == 0).all()
    others = seen[~np.eye(5, dtype=bool)]
    assert ((others - 1000) ** 2 / 1000).sum() < 43.8, "chi-square, 19 degrees of freedom, 0.1 %"


def test_sources__each_part_from_its_hosts() -> None:
    parts = np.arange(9000) % 3
    src, dst = pairs("all-to-all", 9000, sources=(("h3",), (), ("h1", "h5")), parts=parts)
    assert set(src[parts == 0]) == {2}
    assert set(src[parts == 1]) == {0, 1, 2, 3, 4}
    assert set(src[parts == 2]) == {0, 4}
    assert (src != dst).all()


def test_permutation__one_partner_each_way_and_another_for_another_seed() -> None:
    partners = []
    for seed in range(8):
        src, dst = pairs("permutation", seed=seed, hosts=16)
        of = dict(zip(src.tolist(), dst.tolist(), strict=True))
        assert all(of[s] == d for s, d in zip(src, dst, strict=True))
        assert sorted(of) == sorted(of.values()) == list(range(16))
        assert all(s != d for s, d in of.items())
        partners.append(tuple(of[s] for s in range(16)))
    assert len(set(partners)) == 8


def test_derangement__all_are_as_likely() -> None:
    rng = np.random.default_rng(1)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(3600):
        order = tuple(random_flows.derangement(4, rng))
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 9
    assert sum((n - 400) ** 2 / 400 for n in seen.values()) < 26.1, "chi-square, 8 degrees of freedom, 0.1 %"


@pytest.mark.parametrize("to", [None, "h3"])
def test_incast__different_senders_answer_one_receiver(to: str | None) -> None:
    src, dst = pairs("incast", 7 * 3000, hosts=9, fanin=7, to=to)
    for senders, receivers in zip(src.reshape(-1, 7), dst.reshape(-1, 7), strict=True):
        assert len(set(receivers)) == 1
        assert len(set(senders)) == 7
        assert receivers[0] not in senders
    assert set(dst) == ({2} if to else set(range(9)))
    assert set(src) == set(range(9)) - ({2} if to else set())


def test_distinct__every_set_is_as_likely() -> None:
    chosen = np.sort(random_flows.distinct(np.random.default_rng(1).random((10_000, 2)), 5), axis=1)
    seen = np.unique(chosen, axis=0, return_counts=True)[1]
    assert len(seen) == 10
    assert ((seen - 1000) ** 2 / 1000).sum() < 27.9, "chi-square, 9 degrees of freedom, 0.1 %"


def test_make_pattern__what_the_topology_lacks_is_named() -> None:
    with pytest.raises(FieldError, match="at most") as caught:
        pairs("incast", hosts=5, fanin=5)
    assert caught.value.field == "workload.fanin"
    with pytest.raises(FieldError, match="receiver") as caught:
        pairs("many-to-one", to="h1", sources=(("h2",), ("h1",)))
    assert caught.value.field == "workload.mix"
    with pytest.raises(FieldError, match="at least 2"):
        pairs("all-to-all", hosts=1)


SIZES = Mix((MixPart(10_000, 0.75), MixPart(100_000, 0.25)))
EVERYWHERE = Workload(20_000, load=0.8, sizes=SIZES)


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
    return random_flows.offered_loads(workload, topology, workload.sizes)


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
        workload = replace(workload, sizes=Mix((MixPart(10_000, 1.0),)), fanin=3)
    topology = star(5)
    carried = np.zeros((5, 5))
    for batch in random_flows.random_batches(workload, topology, np.random.default_rng(1)):
        np.add.at(carried, (batch.src, batch.dst), wire_bytes(batch.bytes))
    share = carried * 8 / batch.start_s[-1] / topology.ports[0].rate_bps
    for i, port in enumerate(topology.ports):
        assert loads(workload, topology)[port.id] == pytest.approx(share[:, i].sum(), rel=0.05)
        assert loads(workload, topology)[f"h{i + 1}'s uplink"] == pytest.approx(share[i].sum(), rel=0.05)


def test_check_offered__a_core_that_is_too_slow_is_named_with_the_load_that_would_do() -> None:
    with pytest.raises(FieldError, match=r"offers s\d:\d 1\.16 times .* at most 0\.681") as caught:
        random_flows.check_offered_load(EVERYWHERE, leaf_spine(10))
    assert caught.value.field == "workload.load"
    random_flows.check_offered_load(replace(EVERYWHERE, load=0.68), leaf_spine(10))
    random_flows.check_offered_load(replace(EVERYWHERE, load=None, interarrival_s=1e-9), leaf_spine(10))


def test_check_offered__sizes_after_a_shift_count() -> None:
    one = Mix((MixPart(10_000, 1.0, group=Group(("h3",))),))
    with pytest.raises(FieldError, match="h3's uplink"):
        random_flows.check_offered_load(replace(EVERYWHERE, shifts=(Shift(0.5, one),)), star(5))


# Random schedules: the same flows for any size of batches, with the requested load and shares.


PAPER_MIX = Mix(
    (MixPart(10_000, 0.8, group=Group(("h3",))), MixPart(1_000_000, 0.2, group=Group(("h2", "h4"))))
)
CDF = SizeCdf("ramp", (100.0, 100.0, 1e5, 1e6), (0.0, 0.3, 0.8, 1.0))
INTO_ONE = Workload(5000, "many-to-one", "h1", 0.8, sizes=PAPER_MIX)
ALL_TO_ALL = Workload(5000, load=0.8, sizes=CDF)
DEADLINES = Deadlines(0.3, "uniform", 5_000, 25_000, 0)
SHORT = Mix((MixPart(20_000, 1.0, group=Group(("h3",))),))
SHIFTED = replace(INTO_ONE, shifts=(Shift(0.5, SHORT),))
THERE_AND_BACK = replace(INTO_ONE, shifts=(Shift(0.2, SHORT), Shift(0.6, PAPER_MIX)))
INCAST = Workload(5000, "incast", load=0.5, sizes=Mix((MixPart(20_000, 1.0),)), fanin=3)
ANSWERS = replace(ALL_TO_ALL, pattern="incast", flows=2**62, load=0.2, sizes=ONE_SIZE, fanin=3, label="ask")
BESIDE = replace(ALL_TO_ALL, incast=ANSWERS)
EVERYTHING = {
    "many-to-one": INTO_ONE,
    "all-to-all": replace(ALL_TO_ALL, deadlines=DEADLINES, size_known=0.5),
    "exponential": replace(ALL_TO_ALL, deadlines=replace(DEADLINES, distribution="exponential", mean_us=9e3)),
    "shift": SHIFTED,
    "shift and back": THERE_AND_BACK,
    "permutation": replace(ALL_TO_ALL, pattern="permutation"),
    "incast": INCAST,
    "incast beside": BESIDE,
    "interarrival": replace(ALL_TO_ALL, load=None, interarrival_s=1e-4),
}


def columns(
    workload: Workload, seed: int = 1, topology: Topology | None = None, **options: Any
) -> dict[str, npt.NDArray[Any]]:
    batches = list(
        random_flows.random_batches(workload, topology or star(), np.random.default_rng(seed), **options)
    )
    names = [f.name for f in fields(batches[0]) if f.name != "first"]
    assert [b.first for b in batches] == np.cumsum([0, *map(len, batches[:-1])]).tolist()
    return {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in names}


def is_equal(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERYTHING)
def test_batches__the_same_flows_whatever_their_size(name: str) -> None:
    whole = columns(EVERYTHING[name], batch_flows=10**6)
    for batch_flows in (97, 4096):
        for column, values in columns(EVERYTHING[name], batch_flows=batch_flows).items():
            np.testing.assert_array_equal(
                values, whole[column], err_msg=f"{column}, batches of {batch_flows}"
            )


@pytest.mark.parametrize("name", EVERYTHING)
def test_batches__the_same_seed_the_same_flows_by_start_time(name: str) -> None:
    workload = EVERYTHING[name]
    drawn, again, other = columns(workload), columns(workload), columns(workload, seed=2)
    assert all(is_equal(drawn[key], again[key]) for key in drawn)
    assert any(not is_equal(drawn[key], other[key]) for key in drawn)
    assert (np.diff(drawn["start_s"]) >= 0).all()
    if workload.incast is None:
        assert len(drawn["start_s"]) == workload.flows
    assert (drawn["src"] != drawn["dst"]).all()


def test_batches__those_before_a_time() -> None:
    whole = columns(ALL_TO_ALL)
    until_s = float(whole["start_s"][1234])
    for batch_flows in (1000, 1234, 4096):
        part = columns(ALL_TO_ALL, until_s=until_s, batch_flows=batch_flows)
        np.testing.assert_array_equal(part["start_s"], whole["start_s"][:1234])
    assert list(random_flows.random_batches(ALL_TO_ALL, star(), np.random.default_rng(1), until_s=0.0)) == []


def test_batches__deadlines_and_told_sizes_leave_the_rest_as_it_was() -> None:
    plain, told = columns(ALL_TO_ALL), columns(replace(ALL_TO_ALL, deadlines=DEADLINES, size_known=0.4))
    for name in ("start_s", "src", "dst", "bytes", "ideal_us"):
        np.testing.assert_array_equal(plain[name], told[name])


def test_batches__memory_does_not_grow_with_the_flows() -> None:
    def peak_bytes(flows: int) -> int:
        tracemalloc.start()
        for _ in random_flows.random_batches(
            replace(ALL_TO_ALL, flows=flows), star(), np.random.default_rng(1)
        ):
            pass
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert peak_bytes(80_000) < 1.2 * peak_bytes(8_000) + 100_000


@pytest.mark.parametrize("scale", [1.0, 0.05])
def test_load__is_what_the_receivers_link_carries(scale: float) -> None:
    flows = columns(replace(INTO_ONE, flows=40_000, scale=scale))
    assert wire_bytes(flows["bytes"]).sum() * 8 / flows["start_s"][-1] == pytest.approx(
        0.8 * RATE_BPS, rel=0.03
    )


def test_interarrival__is_the_mean_gap_of_a_poisson_process() -> None:
    gaps_s = np.diff(columns(replace(ALL_TO_ALL, flows=40_000, load=None, interarrival_s=1e-4))["start_s"])
    assert gaps_s.mean() == pytest.approx(1e-4, rel=0.03)
    assert gaps_s.std() == pytest.approx(1e-4, rel=0.03)
    assert (gaps_s < 1e-4).mean() == pytest.approx(1 - np.exp(-1), abs=0.01)


def test_shifts__each_begins_at_its_part_of_the_flows() -> None:
    flows = columns(THERE_AND_BACK)["bytes"]
    assert set(flows[:1000]) == set(flows[3000:]) == {10_000, 1_000_000}
    assert set(flows[1000:3000]) == {20_000}


def test_incast__answers_to_a_request_start_at_once() -> None:
    starts = columns(replace(INCAST, flows=3000))["start_s"].reshape(-1, 3)
    assert (starts == starts[:, :1]).all()
    assert (np.diff(starts[:, 0]) > 0).all()


def test_incast_beside__the_other_flows_are_those_of_the_rest_of_the_load() -> None:
    flows = columns(BESIDE)
    others = columns(replace(ALL_TO_ALL, load=0.8 - 0.2))
    is_answer = flows["labels"] != ""
    for name in ("start_s", "src", "dst", "bytes", "ideal_us"):
        np.testing.assert_array_equal(flows[name][~is_answer], others[name])


def test_incast_beside__the_answers_have_their_part_of_the_load() -> None:
    flows = columns(replace(BESIDE, flows=40_000), topology=star(5))
    is_answer = flows["labels"] != ""
    capacity_bps = 5 * RATE_BPS
    for load, chosen in ((0.2, is_answer), (0.6, ~is_answer)):
        bps = wire_bytes(flows["bytes"][chosen]).sum() * 8 / flows["start_s"][-1]
        assert bps / capacity_bps == pytest.approx(load, rel=0.03)


def test_incast_beside__the_answers_to_a_request_start_at_once_under_its_label() -> None:
    flows = columns(BESIDE)
    is_answer = flows["labels"] != ""
    labels, requests = flows["labels"][is_answer].reshape(-1, 3), flows["start_s"][is_answer].reshape(-1, 3)
    assert (requests == requests[:, :1]).all()
    assert labels[:, 0].tolist() == labels[:, 2].tolist() == [f"ask/{i + 1}" for i in range(len(labels))]
    assert requests[-1, 0] <= flows["start_s"][~is_answer][-1]
    assert set(flows["bytes"][is_answer]) == {10_000}


@pytest.mark.parametrize("pattern", ["all-to-all", "many-to-one"])
def test_incast_beside__both_are_offered_to_a_link(pattern: str) -> None:
    to = "h2" if pattern == "many-to-one" else None
    base = replace(EVERYWHERE, pattern=pattern, to=to)
    whole = replace(base, incast=replace(base, pattern="incast", load=0.2, sizes=ONE_SIZE, fanin=3))
    topology = star(5)
    for link, load in loads(base, topology).items():
        assert loads(whole, topology)[link] == pytest.approx(load)


def test_incast_beside__a_request_to_more_hosts_than_there_are_is_refused() -> None:
    with pytest.raises(FieldError, match="at most 4") as caught:
        random_flows.check_random(replace(BESIDE, incast=replace(ANSWERS, fanin=5)), star(5))
    assert caught.value.field == "workload.incast.fanin"


@pytest.mark.parametrize(
    ("deadlines", "mean_us", "least_us"),
    [
        (DEADLINES, 15_000, 5_000),
        (Deadlines(0.3, "exponential", 1, 25_000, 15_000), 15_000, 1),
        (Deadlines(0.3, "exponential", 15_000, 25_000, 15_000), 15_000 * (1 + np.exp(-1)), 15_000),
    ],
)
def test_deadlines__for_a_share(deadlines: Deadlines, mean_us: float, least_us: float) -> None:
    flows = columns(replace(ALL_TO_ALL, flows=40_000, deadlines=deadlines))
    given_us = flows["deadline_us"][~np.isnan(flows["deadline_us"])]
    assert len(given_us) / 40_000 == pytest.approx(0.3, abs=0.01)
    assert given_us.mean() == pytest.approx(mean_us, rel=0.03)
    assert given_us.min() >= least_us
    if deadlines.distribution == "uniform":
        assert given_us.max() <= deadlines.max_us


def test_size_known__deadline_flows_always_others_by_share() -> None:
    flows = columns(replace(ALL_TO_ALL, flows=40_000, deadlines=DEADLINES, size_known=0.5))
    urgent = ~np.isnan(flows["deadline_us"])
    assert flows["size_known"][urgent].all()
    assert flows["size_known"][~urgent].mean() == pytest.approx(0.5, abs=0.01)
    assert not columns(ALL_TO_ALL)["size_known"].any()


def test_flows_of__the_columns_as_objects() -> None:
    workload = replace(ALL_TO_ALL, flows=300, scale=0.1, deadlines=DEADLINES, size_known=0.5)
    drawn = columns(workload)
    batches = random_flows.random_batches(workload, star(), np.random.default_rng(1), batch_flows=100)
    flows = flows_of(batches, star(), "run", workload.scale)
    assert [flow.id for flow in flows] == [f"run/{i}" for i in range(300)]
    assert [flow.bytes for flow in flows] == drawn["bytes"].tolist()
    assert [flow.src for flow in flows] == [f"h{i + 1}" for i in drawn["src"]]
    assert [flow.deadline_us or 0 for flow in flows] == np.nan_to_num(drawn["deadline_us"]).tolist()
    assert [flow.size_known for flow in flows] == drawn["size_known"].tolist()
    assert {flow.size_class for flow in flows if flow.bytes <= 10_000} == {"small"}
    assert {flow.size_class for flow in flows if flow.bytes > 10_000} == {"medium"}
    assert all(type(flow.bytes) is int and type(flow.start_s) is float for flow in flows), (
        "JSON takes no numpy"
    )
