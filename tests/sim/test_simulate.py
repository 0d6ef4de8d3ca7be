# SPDX-License-Identifier: Apache-2.0
"""The public interface that drives the simulator from a program."""

from typing import Any

import pytest

from sluice.policy.errors import FieldError, SluiceError
from sluice.simulate import EndedFlow, Network

SINGLE = {
    "fabric": {"topology": "single", "hosts": 4, "host_rate": "10Gbit"},
    "scheme": {"name": "pias", "thresholds": ["20KB", "1MB"], "queues": 3},
    "transport": {"connections": "persistent", "initial_window": 1000},
}


def ended_alone(size_bytes: int, **more: Any) -> EndedFlow:
    network = Network(SINGLE)
    network.start("h1", "h2", size_bytes, **more)
    [flow] = network.run(1.0)
    return flow


def test_run__a_flow_alone_takes_its_ideal_time_and_is_as_it_was_started() -> None:
    flow = ended_alone(100_000, delay_s=0.25, label="mine")
    assert flow.slowdown == pytest.approx(1, abs=1e-6)
    assert (flow.source, flow.to, flow.bytes, flow.label) == ("h1", "h2", 100_000, "mine")
    assert (flow.started_s, flow.outcome, flow.retransmissions) == (0.25, "finished", 0)


def test_run__stops_at_the_next_end_or_at_the_time() -> None:
    network = Network(SINGLE)
    lone = ended_alone(100_000).fct_s
    first, second = network.start("h1", "h2", 100_000), network.start("h3", "h4", 100_000, delay_s=0.1)
    assert [flow.number for flow in network.run(1.0, to_next_end=True)] == [first]
    assert network.now_s == pytest.approx(lone, abs=1e-12)
    network.start("h4", "h3", 100_000)
    assert [flow.fct_s for flow in network.run(0.05)] == pytest.approx([lone])
    assert network.now_s == 0.05
    assert [flow.number for flow in network.run(1.0, to_next_end=True)] == [second]
    assert network.run(1.0, to_next_end=True) == []
    assert network.now_s == 1.0


def test_ports_and_senders__say_what_waits_and_what_was_sent() -> None:
    """Two hosts send to one. The policy has three queues, so the flow that has sent less goes first."""
    network = Network(SINGLE)
    long = network.start("h1", "h3", 5_000_000)
    network.run(0.002)
    short = network.start("h2", "h3", 15_000)
    [flow] = network.run(1.0, to_next_end=True)
    assert flow.number == short
    assert flow.slowdown < 1.5
    port, sender = network.ports()["s1:3"], network.senders()[long]
    assert port.waiting_bytes > 15_000
    assert 0 < sender.acked_bytes < port.sent_bytes < 5_000_000
    assert port.dropped_packets == 0 < port.sent_packets
    assert sender.window_packets > 1
    assert sender.rtt_s > 0
    network.run(1.0)
    assert network.senders() == {}
    assert network.ports()["s1:3"].waiting_bytes == 0


def test_thresholds__follow_the_traffic() -> None:
    network = Network({**SINGLE, "scheme": {"name": "mlfq-adaptive", "interval_ms": 100}})
    before = network.thresholds()["s1:2"]
    for i in range(200):
        network.start("h1", "h2", 10_000 + 100 * i, delay_s=i * 1e-3)
    network.run(0.5)
    assert network.thresholds()["s1:2"] != before
    assert network.thresholds()["s1:3"] == before


def test_faults__of_the_scenario_are_those_of_the_network() -> None:
    network = Network(
        {**SINGLE, "simulator": {"fault": [{"link": "h1-s1", "start": "1ms", "until": "300ms"}]}}
    )
    network.start("h1", "h2", 15_000)
    network.start("h1", "h2", 15_000, delay_s=0.01)
    early, late = network.run(5.0)
    assert early.slowdown < 1.5
    assert late.fct_s > 0.29
    assert network.ports()["s1:2"].dropped_packets == 0, "the host's own end loses them"


def test_a_same_program_gives_the_same_flows() -> None:
    def flows() -> list[EndedFlow]:
        network = Network("demo-simulator")
        for i in range(50):
            network.start(network.hosts[i % 16], network.hosts[(i + 3) % 16], 10_000 * (i + 1))
        return network.run(1.0)

    assert flows() == flows()


@pytest.mark.parametrize(
    ("arguments", "more", "message"),
    [
        (("h9", "h2", 1000), {}, "source: 'h9' is not a host"),
        (("h1", "h9", 1000), {}, "to: 'h9' is not a host"),
        (("h1", "h1", 1000), {}, "to: must differ"),
        (("h1", "h2", 63), {}, "size_bytes: must be"),
        (("h1", "h2", 1000), {"delay_s": -1.0}, "delay_s: must not be negative"),
    ],
)
def test_start__wrong_arguments_are_refused_by_name(arguments: Any, more: Any, message: str) -> None:
    with pytest.raises(FieldError, match=message):
        Network(SINGLE).start(*arguments, **more)


def test_network__wrong_scenarios_and_times_are_refused_by_name() -> None:
    with pytest.raises(SluiceError, match="scheme"):
        Network({"fabric": SINGLE["fabric"]})
    with pytest.raises(SluiceError, match=r"simulator.uplink"):
        Network({**SINGLE, "scheme": {"name": "homa"}, "simulator": {"uplink": "kernel"}})
    network = Network(SINGLE)
    network.run(0.5)
    with pytest.raises(FieldError, match="until_s: must not be before"):
        network.run(0.4)
