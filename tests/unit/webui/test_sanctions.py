# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import threading

import pytest
from sqlalchemy import Engine

from sluice.runtime.wait import wait_until
from sluice.store.observed import Sanction, lift_sanctions, put_sanction
from sluice.webui import services
from tests.unit.webui.conftest import Client
from tests.unit.webui.scraped import scrape

SANCTION = Sanction("s1:2", "h2", "TCP a > b", 1, 2_000_000, 500_000, 0.95, 2, 10.0, since=100.0)


def test_sanctions__who_is_demoted_now(client: Client, engine: Engine) -> None:
    assert client.get("/api/v1/sanctions").json == {"sanctions": []}
    put_sanction(engine, SANCTION)
    assert client.get("/api/v1/sanctions").json == {"sanctions": [vars(SANCTION)]}


def test_metrics__who_is_demoted_now(client: Client, engine: Engine) -> None:
    assert "sluice_host_demoted" not in scrape(client)
    put_sanction(engine, SANCTION)
    assert scrape(client)["sluice_host_demoted"] == {(("host", "h2"), ("port", "s1:2")): 1.0}
    lift_sanctions(engine, ["s1:2"])
    assert "sluice_host_demoted" not in scrape(client)


def test_events__a_sanction_does_not_wait_for_the_next_snapshot(
    client: Client, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Snapshots arrive at an interval. A snapshot that names another host arrives at once."""
    monkeypatch.setattr(services, "INTERVAL_S", 300.0)
    seen = []

    def follow() -> None:
        for chunk in client.get("/api/v1/events?count=2", buffered=False).iter_encoded():
            for line in chunk.decode().splitlines():
                if line.startswith("data: ") and '"sanctions"' in line:
                    seen.append(json.loads(line[6:])["sanctions"])

    follower = threading.Thread(target=follow)
    follower.start()
    wait_until(lambda: seen, "the first snapshot")
    put_sanction(engine, SANCTION)
    follower.join(60)
    assert seen == [[], [vars(SANCTION)]]
