# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.policy.errors import FieldError
from sluice.policy.workload.flows import Workload
from sluice.policy.workload.random_flows import derangement, distinct, make_pattern
from sluice.policy.workload.sizes import Mix, MixPart
from tests.unit.policy.networks import star

ONE_SIZE = Mix((MixPart(10_000, 1.0, ()),))


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
    workload = Workload(ONE_SIZE, pattern, to, 0.5, count, fanin=fanin)
    streams = [np.random.default_rng([seed, i]) for i in range(2)]
    made = make_pattern(workload, star(hosts), sources, streams)
    return made.pairs(np.zeros(count, np.int64) if parts is None else parts)


def test_all_to_all__every_pair_is_as_likely() -> None:
    src, dst = pairs("all-to-all")
    seen = np.bincount(src * 5 + dst, minlength=25).reshape(5, 5)
    assert (np.diag(seen) == 0).all()
    others = seen[~np.eye(5, dtype=bool)]
    assert ((others - 1000) ** 2 / 1000).sum() < 43.8, "chi-square, 19 degrees of freedom, 0.1 %"


def test_many_to_one__all_others_send() -> None:
    src, dst = pairs("many-to-one", to="h2")
    assert set(dst) == {1}
    assert set(src) == {0, 2, 3, 4}


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
    for _ in range(9000):
        order = tuple(derangement(4, rng))
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 9
    assert sum((n - 1000) ** 2 / 1000 for n in seen.values()) < 26.1, (
        "chi-square, 8 degrees of freedom, 0.1 %"
    )


@pytest.mark.parametrize("to", [None, "h3"])
def test_incast__different_senders_answer_one_receiver(to: str | None) -> None:
    src, dst = pairs("incast", 7 * 3000, hosts=9, fanin=7, to=to)
    for senders, receivers in zip(src.reshape(-1, 7), dst.reshape(-1, 7), strict=True):
        assert len(set(receivers)) == 1
        assert len(set(senders)) == 7
        assert receivers[0] not in senders
    assert set(dst) == ({2} if to else set(range(9)))
    assert set(src) == set(range(9)) - ({2} if to else set())


def test_incast__the_last_request_may_be_cut() -> None:
    src, dst = pairs("incast", 10, hosts=9, fanin=4)
    assert len(src) == len(dst) == 10


@given(below=st.integers(1, 12), data=st.data())
def test_distinct__no_number_twice(below: int, data: st.DataObject) -> None:
    columns = data.draw(st.integers(1, below))
    chosen = distinct(np.random.default_rng(below).random((50, columns)), below)
    assert all(len(set(row)) == columns for row in chosen)
    assert chosen.min() >= 0
    assert chosen.max() < below


def test_distinct__every_set_is_as_likely() -> None:
    chosen = np.sort(distinct(np.random.default_rng(1).random((10_000, 2)), 5), axis=1)
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
