# SPDX-License-Identifier: Apache-2.0
"""A run with explicit flows. Deadlines reach the kernel, endless flows are background, windows are bounded."""

from pathlib import Path
from typing import Any

import pytest

from experiments.kit.flows import read_listed
from sluice.runs.bundle import read_flows, read_samples
from sluice.runs.files import scenario_with
from sluice.runs.testbed_run import run_on_testbed
from tests.net.scenarios import GOODPUT_BPS, RATE

DEADLINE_S = 3.0
UNTIL_S = 3.5
TIMED_BYTES = round(0.84 * GOODPUT_BPS / 3 * DEADLINE_S / 8)
"""The deadline needs a little less than the flow's fair share, a third of the link."""
MAX_WINDOW = 20
Bundle = tuple[Path, dict[str, Any]]


def document() -> dict[str, Any]:
    """Return a scenario: a flow with a deadline and two endless ones."""
    return {
        "name": "deadlines",
        "seed": 1,
        "sample": "50ms",
        "fabric": {"topology": "single", "hosts": 4, "host_rate": RATE, "buffer": "200KB"},
        "scheme": {"name": "datcp", "mark_min": "40KB", "mark_max": "60KB"},
        "transport": {"rto_min": "40ms", "max_window": MAX_WINDOW},
        "workload": {
            "flow": [
                {
                    "from": "h2",
                    "to": "h1",
                    "bytes": f"{TIMED_BYTES}B",
                    "deadline": f"{DEADLINE_S}s",
                    "label": "timed",
                },
                {"from": "h3", "to": "h1", "until": f"{UNTIL_S}s", "label": "background"},
                {"from": "h4", "to": "h1", "until": f"{UNTIL_S}s", "label": "background"},
            ]
        },
    }


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The run's bundle and its summary."""
    out = tmp_path_factory.mktemp("deadlines")
    return out, run_on_testbed(scenario_with(document()), out)


def test_summary__without_endless_flows(bundle: Bundle) -> None:
    out, summary = bundle
    assert summary["fct_us"]["all"]["n"] == 1
    assert summary["unfinished"] == 0
    assert summary["deadlines"]["n"] == 1
    assert [row["source"] for row in sorted(read_flows(out), key=lambda row: row["id"])] == [
        "scheduled",
        "background",
        "background",
    ]


def test_no_agent_fell_back_and_the_kernel_has_the_declaration(bundle: Bundle) -> None:
    out, summary = bundle
    of_the_machine = ("saturated", "behind", "late")
    reasons = summary["valid"]["reasons"]
    assert not [reason for reason in reasons if not any(word in reason for word in of_the_machine)]
    run = read_listed(out)
    _, needed = run.column(0, "wanted_bytes_per_s")
    # The rate that the deadline needs, as the kernel computes it.
    assert needed[0] > 0.8 * TIMED_BYTES / DEADLINE_S
    _, precedences = run.column(0, "precedence")
    assert min(precedences) < max(precedences)  # it follows the needed rate
    assert max(run.column(1, "precedence")[1]) == 1


@pytest.mark.timing
def test_the_flow_finishes_near_its_deadline(bundle: Bundle) -> None:
    """The flow leaves bandwidth to others until its deadline, and a busy machine may delay it."""
    flow = read_listed(bundle[0]).flows[0]
    assert flow.fct_s is not None
    assert 0.7 * DEADLINE_S < flow.fct_s < 1.2 * DEADLINE_S


@pytest.mark.timing
def test_endless_flows__bytes_that_arrived_and_their_end(bundle: Bundle) -> None:
    run = read_listed(bundle[0])
    for flow in run.flows[1:]:
        assert flow.end_s is not None
        assert UNTIL_S - 0.1 < flow.end_s < UNTIL_S + 0.5
    total = sum(flow.bytes for flow in run.flows)
    assert 0.85 * GOODPUT_BPS < total * 8 / UNTIL_S < 1.03 * GOODPUT_BPS


def test_max_window__bounds_the_segments_in_flight(bundle: Bundle) -> None:
    out, _ = bundle
    assert max(sample["under_way"] for sample in read_samples(out) if sample["at_s"] > 0.5) <= MAX_WINDOW
