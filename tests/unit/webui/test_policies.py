# SPDX-License-Identifier: Apache-2.0

import json
import threading
import time
from typing import Any

import pytest
from sqlalchemy import Engine

from sluice import topologies
from sluice.policy.schema.desired import Policy
from sluice.policy.wire.records import FlowRecord
from sluice.store.desired import current_version, mark_applied, put_policy, put_topology
from sluice.store.flows import add_flows
from sluice.topologies import build
from sluice.webui.policies import wait_applied
from tests.unit.webui.conftest import Client
from tests.unit.webui.records import record

PATH = "/api/v1/policy"


def test_change_policy__pending_until_the_controller_applies_it(owner: Client, engine: Engine) -> None:
    answer = owner.put(f"{PATH}?wait_s=0", json={"scheme": "pias"})
    assert (answer.status_code, answer.json["state"]) == (202, "pending")
    assert answer.json["applied_at"] is None
    assert answer.json["policy"]["queues"] == 8
    mark_applied(engine, answer.json["version"])
    current = owner.get(PATH).json["current"]
    assert current["state"] == "applied"
    assert current["version"] == answer.json["version"]


def test_change_policy__answers_200_once_it_is_applied(owner: Client, engine: Engine) -> None:
    def controller() -> None:
        while not current_version(engine):
            time.sleep(0.01)
        mark_applied(engine, current_version(engine))

    thread = threading.Thread(target=controller)
    thread.start()
    answer = owner.put(f"{PATH}?wait_s=20", json={"scheme": "dctcp"})
    thread.join()
    assert (answer.status_code, answer.json["state"]) == (200, "applied")
    assert answer.json["applied_at"] >= answer.json["created_at"]


def test_change_policy__versions_count_up_and_old_ones_are_superseded(owner: Client) -> None:
    for scheme in ("tcp", "dctcp", "mlfq-adaptive"):
        owner.put(f"{PATH}?wait_s=0", json={"scheme": scheme})
    history = owner.get(PATH).json["history"]
    assert [row["policy"]["scheme"] for row in history] == ["mlfq-adaptive", "dctcp", "tcp"]
    assert [row["state"] for row in history] == ["pending", "superseded", "superseded"]
    assert [row["version"] for row in history] == [3, 2, 1]
    assert len(owner.get(f"{PATH}?limit=2").json["history"]) == 2


@pytest.mark.parametrize("scheme", ["pfabric", "d3", "pdq"])
def test_change_policy__what_the_ports_cannot_do_is_refused_with_the_remedy(
    owner: Client, scheme: str
) -> None:
    answer = owner.put(f"{PATH}?wait_s=0", json={"scheme": scheme})
    assert (answer.status_code, answer.json["error"]["field"]) == (422, "scheme")
    assert f"{scheme} needs " in answer.json["error"]["problem"]
    assert "--on simulator" in answer.json["error"]["problem"]
    assert owner.get(PATH).json == {"current": None, "history": []}
    preview = owner.post(f"{PATH}/preview", json={"scheme": scheme})
    assert (preview.status_code, preview.json["error"]["field"]) == (422, "scheme")


def test_change_policy__overrides_are_part_of_the_document_and_their_bad_fields_are_named(
    owner: Client,
) -> None:
    overrides: list[dict[str, Any]] = [
        {"ports": ["*"], "freeze": True},
        {"ports": ["s1:2"], "thresholds": ["10KB"]},
    ]
    document = {"scheme": "mlfq-adaptive", "queues": 2, "thresholds": ["1MB"], "overrides": overrides}
    answer = owner.put(f"{PATH}?wait_s=0", json=document)
    assert answer.status_code == 202
    assert answer.json["policy"]["overrides"] == [overrides[0], {"ports": ["s1:2"], "thresholds": [10_000]}]
    overrides[1]["ports"] = ["s1"]
    answer = owner.put(f"{PATH}?wait_s=0", json=document)
    assert (answer.status_code, answer.json["error"]["field"]) == (422, "overrides[1].ports")


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "policy"),
        ({"scheme": "tcp", "speed": 1}, "speed"),
        ({"scheme": "pias", "queues": 2, "thresholds": ["1" + "0" * 5000 + "KB"]}, "thresholds"),
    ],
)
def test_change_policy__a_bad_document_is_a_422_that_names_the_field(
    owner: Client, document: Any, field: str
) -> None:
    answer = owner.put(PATH, data=json.dumps(document), content_type="application/json")
    assert (answer.status_code, answer.json["error"]["field"]) == (422, field)
    assert 0 < len(answer.json["error"]["problem"]) <= 400
    assert owner.get(PATH).json["current"] is None


def test_wait_applied__ends_when_a_newer_policy_replaces_it(engine: Engine) -> None:
    old = put_policy(engine, Policy.from_document({"scheme": "tcp"}), "test")
    put_policy(engine, Policy.from_document({"scheme": "dctcp"}), "test")
    assert wait_applied(engine, old, 3600, threading.Event()).applied_at is None


@pytest.mark.parametrize(
    ("keys", "field", "name"),
    [
        ({"overrides": [{"ports": ["s1:2", "s1:9"], "freeze": True}]}, "overrides[0].ports", "s1:9"),
        ({"acts_at": ["s1:1", "s9:*"]}, "acts_at", "s9:*"),
    ],
)
def test_change_policy__a_port_that_the_network_lacks_is_refused(
    owner: Client, engine: Engine, keys: dict[str, Any], field: str, name: str
) -> None:
    put_topology(engine, topologies.build("single", hosts=2))
    document = {"scheme": "mlfq-adaptive", **keys}
    for answer in (
        owner.put(f"{PATH}?wait_s=0", json=document),
        owner.post(f"{PATH}/preview", json=document),
    ):
        assert (answer.status_code, answer.json["error"]["field"]) == (422, field)
        problem = answer.json["error"]["problem"]
        assert problem.startswith(f'the network has no port "{name}"')
        assert problem.endswith("its ports are s1:1, s1:2")
    assert owner.get(PATH).json["current"] is None


def test_change_policy__a_port_of_the_policy_in_force_that_has_left_is_a_warning(
    owner: Client, engine: Engine
) -> None:
    document = {"scheme": "mlfq-adaptive", "overrides": [{"ports": ["s1:2", "s1:9"], "freeze": True}]}
    path = f"{PATH}?wait_s=0"
    assert owner.put(path, json=document).json["warnings"] == []  # no network is known yet
    put_topology(engine, topologies.build("single", hosts=2))
    answer = owner.put(path, json={**document, "queues": 2})
    assert answer.status_code == 202
    (warning,) = answer.json["warnings"]
    assert warning.startswith('overrides[0].ports: the network has no port "s1:9"')
    assert answer.json["policy"]["overrides"] == document["overrides"]


# ── What a document leaves out ──────────────────────────────────────────────────────────────────

IN_FORCE = {"scheme": "mlfq-adaptive", "queues": 2, "mark_at": "12pkt", "buffer": "60KB", "window_ms": 5000}


def put_in_force(engine: Engine) -> None:
    """A network of 5 Mb/s, and the policy that an operator has chosen for it."""
    put_topology(engine, build("leaf-spine", host_rate_bps=5_000_000, core_rate_bps=5_000_000))
    put_policy(engine, Policy.from_document(IN_FORCE), "test")


def traffic(count: int = 400) -> list[FlowRecord]:
    """Flows of two sizes over 100 s, to two hosts."""
    sizes = [200_000 if number % 5 == 0 else 4_000 for number in range(count)]
    return [
        FlowRecord.from_document(
            record(
                f"run/{number}",
                src="h3",
                dst=f"h{1 + number % 2}",
                bytes=size,
                started_at=1e9 + number * 100 / count,
            )
        )
        for number, size in enumerate(sizes)
    ]


def test_change_policy__keeps_what_belongs_to_the_network(owner: Client, engine: Engine) -> None:
    put_in_force(engine)
    policy = owner.put(f"{PATH}?wait_s=0", json={"scheme": "pias"}).json["policy"]
    assert (policy["mark_at"], policy["buffer"], policy["window_ms"]) == (18_000, 60_000, 5000)
    owner.put(f"{PATH}?wait_s=0", json={"scheme": "tcp"})
    policy = owner.put(f"{PATH}?wait_s=0", json={"scheme": "dctcp"}).json["policy"]
    assert (policy["mark_at"], policy["buffer"]) == (18_000, 60_000)


def test_change_policy__fixed_thresholds_follow_the_measured_traffic(owner: Client, engine: Engine) -> None:
    put_in_force(engine)
    document = {"scheme": "pias", "queues": 2, "thresholds": "optimal"}
    refused = owner.put(f"{PATH}?wait_s=0", json=document)
    assert refused.status_code == 422
    assert "needs the records of at least 200 flows" in refused.json["error"]["problem"]
    add_flows(engine, traffic())
    (threshold,) = owner.put(f"{PATH}?wait_s=0", json=document).json["policy"]["thresholds"]
    assert 4_000 <= threshold < 200_000
    omitted = owner.put(f"{PATH}?wait_s=0", json={"scheme": "pias", "queues": 2})
    assert omitted.json["policy"]["thresholds"] == [threshold]


def test_preview_policy__is_what_a_put_makes_of_it_and_changes_nothing(owner: Client, engine: Engine) -> None:
    put_in_force(engine)
    add_flows(engine, traffic())
    preview = owner.post(f"{PATH}/preview", json={"scheme": "pias"})
    assert preview.status_code == 200
    assert current_version(engine) == 1
    assert preview.json["against"] == 1
    put = owner.put(f"{PATH}?wait_s=0", json={"scheme": "pias"})
    assert put.json["policy"] == preview.json["policy"]


def test_preview_policy__before_the_first_policy_everything_is_fitted_to_the_links(
    client: Client, engine: Engine
) -> None:
    put_topology(engine, build("leaf-spine", host_rate_bps=5_000_000, core_rate_bps=5_000_000))
    answer = client.post(f"{PATH}/preview", json={"scheme": "dctcp"}).json
    assert answer["against"] is None
    assert answer["policy"]["mark_at"] == 18_000
    because = {one["field"]: one["because"] for one in answer["changes"]}
    assert because["mark_at"] == because["buffer"] == "fitted to 5 Mb/s and a round trip of 10.1 ms"
