# SPDX-License-Identifier: Apache-2.0
"""What agents send, from its arrival to the store."""

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from sluice.policy.network.graph import Host, Port, Switch, Topology
from sluice.policy.schema.desired import Policy
from sluice.policy.wire.agents import Heartbeat
from sluice.policy.wire.records import WATCHED, FlowRecord
from sluice.runtime.wait import wait_until
from sluice.store.desired import put_policy, put_topology
from sluice.store.flows import Added, all_flows
from sluice.store.heartbeats import Kept, put_heartbeats
from sluice.store.observed import put_agent
from sluice.webui import ingestion as module
from sluice.webui.ingestion import Heartbeats, Ingestion, Network, Outcome
from tests.kit.heartbeats import host_heartbeat
from tests.kit.networks import ideal_fct_us
from tests.unit.webui.conftest import Client
from tests.unit.webui.records import record


def batch(name: str, count: int) -> list[FlowRecord]:
    return [FlowRecord.from_document(record(f"{name}.{i}")) for i in range(count)]


def test_add__deliveries_that_arrive_at_one_moment_are_all_kept(engine: Engine) -> None:
    ingestion, shared = Ingestion(engine), batch("shared", 1)
    results: dict[str, Added] = {}

    def deliver(name: str) -> None:
        results[name] = ingestion.add([*batch(name, 3), *shared])

    threads = [threading.Thread(target=deliver, args=[name]) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sorted(added.new for added in results.values()) == [3, 3, 3, 3, 3, 4]
    assert not any(added.conflicts for added in results.values())
    assert len(all_flows(engine)) == 19


def test_add__after_an_error_the_way_is_free(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Added:
        raise OperationalError("INSERT", {}, Exception("the disk is full"))

    ingestion = Ingestion(engine)
    with monkeypatch.context() as patched:
        patched.setattr(module, "add_batch", full)
        with pytest.raises(OperationalError):
            ingestion.add(batch("a", 1))
    with ingestion.alone():
        pass
    assert ingestion.add(batch("b", 1)) == Added(1)


def test_alone__on_postgresql_a_delivery_waits_for_no_other_task(engine: Engine) -> None:
    ingestion = Ingestion(engine)
    with ingestion.alone():
        done = threading.Thread(target=ingestion.add, args=[batch("a", 1)], daemon=True)
        done.start()
        done.join(20 if engine.dialect.name == "postgresql" else 0.2)
        assert done.is_alive() == (engine.dialect.name == "sqlite")
    done.join(300)
    assert len(all_flows(engine)) == 1


HOSTS = tuple(Host(f"h{i}", f"02:00:00:00:00:0{i}", f"10.0.0.{i}", f"fd00::{i}") for i in (1, 2, 3))
RATES_BPS = {"h1": 10**9, "h2": 10**8, "h3": 0}
TOPOLOGY = Topology(
    "test",
    HOSTS,
    (Switch("s1", 1),),
    tuple(
        Port("s1", number, name, 0, rate_bps, delay_ns=5_000, edge=True)
        for number, (name, rate_bps) in enumerate(RATES_BPS.items(), 1)
    ),
)
NETWORK = Network(TOPOLOGY, {"h1": ()})


def watched(**changes: Any) -> FlowRecord:
    changes = {"source": WATCHED, "ideal_us": None, **changes}
    return FlowRecord.from_document(record("w", **changes))


@pytest.mark.parametrize(("src", "dst"), [("h1", "h2"), ("10.0.0.1", "10.0.0.2"), ("fd00::1", "h2")])
def test_completed__names_and_ideal_fct(src: str, dst: str) -> None:
    known = NETWORK.completed(watched(src=src, dst=dst))
    assert (known.src, known.dst) == ("h1", "h2")
    assert known.ideal_us == pytest.approx(ideal_fct_us(TOPOLOGY, "h1", "h2", known.bytes))
    assert known.slowdown is not None


@pytest.mark.parametrize(
    ("src", "dst"), [("h1", "192.0.2.1"), ("192.0.2.1", "h1"), ("h1", "h1"), ("h1", "h3")]
)
def test_completed__an_unknown_path_or_rate_has_no_ideal(src: str, dst: str) -> None:
    known = NETWORK.completed(watched(src=src, dst=dst))
    assert (known.src, known.dst, known.ideal_us, known.slowdown) == (src, dst, None, None)
    assert Network(None, {}).completed(watched()).ideal_us is None


def test_completed__addresses_of_containers_name_their_hosts() -> None:
    """Unless several hosts use the address, or it is a host's own."""
    network = Network(
        TOPOLOGY, {"h1": ("10.4.1.7", "172.17.0.2", "10.0.0.2"), "h2": ("10.4.2.7", "172.17.0.2")}
    )
    sent = watched(src="h1", dst="10.4.2.7")
    assert (network.completed(sent).dst, network.completed(sent).ideal_us is None) == ("h2", False)
    received = network.completed(watched(src="10.4.1.7", dst="h2", retransmissions=None))
    assert (received.src, network.is_reported_by_its_sender(received)) == ("h1", True)
    assert network.completed(watched(src="172.17.0.2", dst="10.0.0.2")).src == "172.17.0.2"
    assert network.completed(watched(src="h1", dst="10.0.0.2")).dst == "h2"


def test_post__a_flow_that_both_ends_report_is_stored_once(client: Client, engine: Engine) -> None:
    put_topology(engine, TOPOLOGY)
    put_agent(engine, "h1", host_heartbeat())
    sent, received = watched(id="a", src="10.0.0.1"), watched(id="b", src="10.0.0.1", retransmissions=None)
    batch = [sent.to_document(), received.to_document()]
    assert client.post("/api/v1/flows", json=batch).json == {"accepted": 1, "known": 1}
    (flow,) = client.get("/api/v1/flows?source=watched").json["flows"]
    assert (flow["id"], flow["src"]) == ("a", "h1")
    late = watched(id="c", deadline_us=1.0, met=False).to_document()
    client.post("/api/v1/flows", json=[late, record("s")])
    for source, n, missed, flows in (("watched", 1, 1, 2), ("scheduled", 0, 0, 1), ("all", 1, 1, 3)):
        misses = client.get(f"/api/v1/deadlines?source={source}").json
        assert (misses["n"], misses["missed"], misses["source"]) == (n, missed, source)
        fct = client.get(f"/api/v1/fct?source={source}").json
        assert fct["classes"]["all"]["n"] == fct["slowdown"]["all"]["n"] == flows
    assert client.get("/api/v1/fct").json["source"] == "scheduled"
    assert client.get("/api/v1/fct?source=background").status_code == 422


def test_settings__are_those_of_the_newest_policy(engine: Engine) -> None:
    beats = Heartbeats(engine)
    assert beats.add("a", host_heartbeat()) == Outcome(True, 0)
    assert beats.settings("a", 0)["policy_version"] == 0
    for scheme in ("pias", "sluice"):
        put_policy(engine, Policy.from_document({"scheme": scheme}), "test")
        version = beats.add("a", host_heartbeat()).policy_version
        found = beats.settings("a", version)
        assert (found["policy_version"], found["host"]["scheme"]) == (version, scheme)
        assert beats.settings("a", version) is found


def test_settings__a_host_on_which_the_policy_does_not_act_only_watches(engine: Engine) -> None:
    beats = Heartbeats(engine)
    version = put_policy(engine, Policy.from_document({"scheme": "sluice", "acts_on": ["web*"]}), "test")
    assert [beats.settings(name, version)["host"]["acts"] for name in ("web1", "db1")] == [True, False]


def _has_waiting(beats: Heartbeats, number: int) -> bool:
    return len(beats._waiting) == number


@pytest.mark.parametrize("fails", [False, True])
def test_add__what_came_while_another_was_written_is_written_together(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    go, written = threading.Event(), list[list[str]]()
    outcomes: dict[str, Outcome | Exception] = {}

    def slow(engine: Engine, beats: Mapping[str, Heartbeat], most: int) -> Kept:
        written.append(list(beats))
        if len(written) == 1:
            assert go.wait(300)
        elif fails:
            raise OperationalError("UPDATE", {}, Exception("the disk is full"))
        return put_heartbeats(engine, beats, most)

    def add(name: str) -> None:
        try:
            outcomes[name] = beats.add(name, host_heartbeat())
        except OperationalError as error:
            outcomes[name] = error

    monkeypatch.setattr(module, "put_heartbeats", slow)
    beats = Heartbeats(engine)
    threads = [threading.Thread(target=add, args=[name]) for name in "abc"]
    for number, thread in enumerate(threads):
        thread.start()
        # The first one is being written; each later one waits.
        wait_until(partial(_has_waiting, beats, number), "the heartbeat waits")
    go.set()
    for thread in threads:
        thread.join(300)
    assert written == [["a"], ["b", "c"]]
    assert outcomes["a"] == Outcome(True, 0)
    assert all(isinstance(outcomes[name], OperationalError) == fails for name in "bc")
