# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tests.unit.webui.conftest import Client
from tests.unit.webui.records import record

PATH = "/api/v1/classes"


def test_classes__the_limits_before_the_first_flow(client: Client) -> None:
    nothing = {"small": None, "medium": None, "large": None}
    assert client.get(PATH).json == {"limits_bytes": [100_000, 10_000_000], "seen": nothing}


def test_classes__the_sizes_that_the_records_have(client: Client) -> None:
    """A scaled workload has other limits, so the records say what small means there."""
    sizes = [("small", 100), ("small", 1900), ("medium", 2100), ("medium", 150_000)]
    scheduled = [record(f"s{n}", size_class=name, bytes=size) for n, (name, size) in enumerate(sizes)]
    watched = record("w", size_class="small", bytes=90_000, source="watched", src_port=1, ideal_us=None)
    assert client.post("/api/v1/flows", json=[*scheduled, watched]).status_code == 200
    assert client.get(f"{PATH}?source=scheduled").json["seen"] == {
        "small": {"n": 2, "least_bytes": 100, "most_bytes": 1900},
        "medium": {"n": 2, "least_bytes": 2100, "most_bytes": 150_000},
        "large": None,
    }
    assert client.get(PATH).json["seen"]["small"]["most_bytes"] == 90_000
    assert client.get(f"{PATH}?source=background").status_code == 422
