# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sluice.policy.errors import FieldError
from sluice.runs.files import scenario_from_file
from sluice.runs.testbed_run import run_on_testbed

TEXT = """
name = "burst"
[fabric]
topology = "single"
hosts = 3
host_rate = "100Mbit"
link_delay = "20us"
[scheme]
name = "d3"
[workload]
mix = [ { bytes = "10KB", share = 1.0 } ]
load = 0.5
flows = 10
"""


def test_run_on_testbed__refuses_what_its_ports_cannot_do_and_leaves_earlier_results_alone(
    tmp_path: Path,
) -> None:
    file = tmp_path / "burst.toml"
    file.write_text(TEXT)
    resolved = scenario_from_file(file)
    earlier = tmp_path / "out" / "summary.json"
    earlier.parent.mkdir()
    earlier.write_text("{}")
    with pytest.raises(FieldError, match=r"d3 needs explicit rates.*--on simulator"):
        run_on_testbed(resolved, earlier.parent)
    assert earlier.read_text() == "{}"
