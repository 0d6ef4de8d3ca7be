# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import pytest

from experiments.checks.http_sizes import client, server
from experiments.checks.http_sizes.run import CLASSES, Run, claims
from sluice.hostagent.sockets import http


def runs(factor: float) -> list[Run]:
    return [Run({name: [factor * n, factor * (n + 1)] for name in CLASSES}, []) for n in (10.0, 20.0, 40.0)]


def test_claims__declared_sizes_must_be_faster() -> None:
    assert all(claim.holds for claim in claims({"plain": runs(1.0), "declared": runs(0.8)}))
    assert [claim.holds for claim in claims({"plain": runs(1.0), "declared": runs(1.1)})] == [
        False,
        False,
        True,
    ]


def test_claims__a_run_of_the_machine_does_not_hold() -> None:
    busy = Run({name: [1.0] for name in CLASSES}, ["the CPU was busy"])
    assert not claims({"plain": [busy], "declared": [busy]})[-1].holds


@pytest.mark.parametrize("declares", [True, False])
def test_client__takes_the_whole_of_each_response(declares: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch() -> list[float]:
        start = http.start_server if declares else asyncio.start_server
        async with await start(server.serve, "127.0.0.1", 0) as made:
            monkeypatch.setattr(client, "PORT", made.sockets[0].getsockname()[1])
            return await client.fetch_all(
                [(0.05 * n, "127.0.0.1", size) for n, size in enumerate((1, 70_000, 0))]
            )

    times_s = asyncio.run(fetch())
    assert len(times_s) == 3
    assert all(0 < time_s < 5 for time_s in times_s)
