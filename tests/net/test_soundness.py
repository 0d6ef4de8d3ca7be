# SPDX-License-Identifier: Apache-2.0
"""The emulation must behave like the network that it represents. Otherwise, no FCT of a testbed counts.

The limits leave room for a busy machine. They detect a broken emulation: timeouts of 200 ms, silent drops, or a queue
that ignores its priority.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from sluice.runs.bundle import read_flows
from sluice.runs.files import scenario_with
from sluice.runs.testbed_run import run_on_testbed
from tests.net.scenarios import GOODPUT_BPS, scenario

pytestmark = pytest.mark.timing

Run = tuple[dict[str, Any], dict[str, Any], Path]
DEEP_MARKING = {"name": "pias", "queues": 2, "thresholds": ["10KB"], "mark_at": "60pkt"}
LONG_FLOWS = [{"from": "h2", "to": "h1"}, {"from": "h4", "to": "h1"}]


def run(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return the summary of a run, its meta data and its bundle."""
    out = tmp_path_factory.mktemp(document["name"])
    resolved = scenario_with(document)
    summary = run_on_testbed(resolved, out)
    return summary, json.loads((out / "meta.json").read_text()), out


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(scenario("idle"), tmp_path_factory)


@pytest.fixture(scope="module")
def saturated(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same flows with two endless ones that fill the link.

    They are marked late. With 20 packets (10 ms), a pause of the machine would empty the queue and waste the link.
    """
    document = scenario("saturated", scheme=DEEP_MARKING, background=LONG_FLOWS)
    return run(document, tmp_path_factory)


def test_idle_network__a_short_flow_takes_its_few_round_trips(idle: Run) -> None:
    summary, _, out = idle
    small = summary["fct_us"]["small"]
    ideal_us = read_flows(out)[0]["ideal_us"]
    assert small["n"] == 100
    assert ideal_us == pytest.approx(3830, rel=0.1)
    assert small["p50"] < ideal_us + 3_000
    assert small["p95"] < ideal_us + 10_000


def test_idle_network__no_packet_is_lost_and_no_sender_times_out(idle: Run) -> None:
    """On a busy machine, an ACK may be late. The sender then probes its tail or repeats arrived data."""
    summary, meta, _ = idle
    assert summary["unfinished"] == 0
    assert meta["tcp"]["retransmission_timeouts"] == 0
    assert meta["tcp"]["syn_retransmissions"] == 0
    tcp = meta["tcp"]
    assert tcp["retransmitted_segments"] <= max(tcp["tail_loss_probes"], tcp["needless_retransmissions"]), tcp
    assert not [reason for reason in summary["valid"]["reasons"] if "lost" in reason]


def test_strict_priority__protects_short_flows_from_saturating_ones(idle: Run, saturated: Run) -> None:
    alone, loaded = idle[0]["fct_us"]["small"], saturated[0]["fct_us"]["small"]
    assert loaded["n"] == 100
    assert loaded["p50"] <= 2 * alone["p50"]
    assert loaded["mean"] <= 2 * alone["mean"] + 1_000


def test_long_flows__fill_the_link(saturated: Run) -> None:
    """They use 95 % of what the short flows (6 %) leave of the time in which the machine served the port."""
    _, meta, _ = saturated
    used = sum(meta["background_bps"].values()) / (0.94 * GOODPUT_BPS)
    assert used >= 0.95 - meta["cpu"]["port_late_worst"]
    assert used <= 1.03


def test_long_flows__no_packet_is_lost_outside_the_queues(saturated: Run) -> None:
    summary = saturated[0]
    assert not [reason for reason in summary["valid"]["reasons"] if "lost" in reason]
    assert summary["unfinished"] == 0


def test_one_fifo__does_not_protect(saturated: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without priorities, the same flows wait behind the packets of the long ones."""
    document = scenario("fifo", scheme={"name": "dctcp", "mark_at": "20pkt"}, background=LONG_FLOWS)
    fifo = run(document, tmp_path_factory)[0]["fct_us"]["small"]
    assert fifo["p50"] > 1.5 * saturated[0]["fct_us"]["small"]["p50"]
