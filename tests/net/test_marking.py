# SPDX-License-Identifier: Apache-2.0
"""Changes of the marking scheme under traffic, from the REST API to the marks on packets."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from sluice.runs.files import scenario_with
from sluice.runs.stack import Stack
from sluice.runtime.wait import wait_until
from sluice.topologies import build_topology, measure
from sluice.topologies.measure import Sender
from sluice.topologies.testbed import Testbed
from tests.net.scenarios import scenario

BUFFER_BYTES = 50_000


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One switch. Two senders overload its port to h1, so that the backlog is within two frames of the buffer."""
    fabric = {"topology": "single", "hosts": 3, "host_rate": "20Mbit", "buffer": "50KB"}
    workload = {"mix": [{"bytes": "10KB", "share": 1.0}], "load": 0.01, "flows": 1}
    document = scenario(
        "marking", fabric=fabric, workload=workload, scheme={"name": "dctcp", "mark_at": "45500B"}
    )
    checked, *_ = scenario_with(document)
    with (
        Stack.start(checked, build_topology(checked), tmp_path_factory.mktemp("marking")) as stack,
        ExitStack() as traffic,
    ):
        bed = stack.testbed
        traffic.enter_context(measure.Receiver(bed, "h1"))
        for host in ("h2", "h3"):
            sender = Sender(host, "10.0.0.1", tags=(1,), ecn=2, size_bytes=1400, for_s=300.0)
            traffic.enter_context(measure.sending(bed, sender))
        wait_until(lambda: totals(bed)["dropped"] > 100, "the port is overloaded")
        yield stack


def totals(bed: Testbed) -> dict[str, int]:
    counters = bed.port_counters("s1:1")
    return {
        name: sum(getattr(queue, name) for queue in counters) for name in ("packets", "marked", "dropped")
    }


def wait_marked(bed: Testbed) -> None:
    """Wait until the port marks more packets."""
    before = totals(bed)["marked"]
    wait_until(lambda: totals(bed)["marked"] > before, "the port marks")


def use(stack: Stack, document: dict[str, Any]) -> None:
    """Put a policy and wait until the port agent has applied it."""
    answer = stack.put_policy(document)
    assert answer.ok, answer.body
    version = answer.json()["version"]
    wait_until(
        lambda: stack.testbed.port_agent_state().policy_version >= version,
        f"the ports have {document}",
    )


def test_k__marks_packets_that_find_a_larger_backlog(stack: Stack) -> None:
    wait_marked(stack.testbed)


@pytest.mark.parametrize(
    ("document", "thresholds"),
    [
        ({"scheme": "datcp", "mark_min": 45_500, "mark_max": 49_999}, (45_500, 49_999, None)),
        ({"scheme": "hull", "mark_at": "10KB"}, (None, None, 10_000)),
    ],
    ids=["a ramp", "a phantom queue"],
)
def test_another_way_of_marking__marks_some(
    stack: Stack, document: dict[str, Any], thresholds: tuple[int | None, ...]
) -> None:
    use(stack, document | {"buffer": BUFFER_BYTES})
    state = stack.testbed.port_agent_state().behaviour
    assert (state.mark_bytes, state.mark_max_bytes, state.phantom_mark_bytes) == thresholds
    wait_marked(stack.testbed)


def test_from_hull_to_tcp__nothing_marks(stack: Stack) -> None:
    use(stack, {"scheme": "tcp", "buffer": BUFFER_BYTES})
    before = totals(stack.testbed)
    wait_until(lambda: totals(stack.testbed)["packets"] > before["packets"] + 1500, "the port sends")
    assert totals(stack.testbed)["marked"] == before["marked"]
