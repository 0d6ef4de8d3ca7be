# SPDX-License-Identifier: Apache-2.0
"""Changes of the scheme by PUT /api/v1/policy while flows run."""

from pathlib import Path

import pytest

from experiments.checks.live_switch import EXPERIMENT, TAKES_S, run_seed
from experiments.kit.main import read_command
from sluice.policy.wire.records import FINISHED

SCHEMES = ["pias", "fish", "dctcp", "sluice", "karuna", "tcp"]


@pytest.mark.timing
def test_no_flow_fails_and_the_port_sends_on(tmp_path: Path) -> None:
    """Flow queues and shares come and go, and congestion controls and marking change."""
    argv = ["--schemes", *SCHEMES, "--every", "3", "--out", str(tmp_path)]
    outcome = run_seed(read_command(EXPERIMENT, argv), 1)
    assert sorted(switch.scheme for switch in outcome.switches) == sorted(SCHEMES)
    for switch in outcome.switches[:-1]:
        assert switch.stands, switch
        assert switch.hosts_s is not None
        assert switch.hosts_s < TAKES_S, switch
    assert len(outcome.records) > 80
    assert {record.status for record in outcome.records} == {FINISHED}
    assert outcome.losses == []
    assert outcome.longest_gap_s < 1.0, (outcome.gaps, outcome.blind_s)
