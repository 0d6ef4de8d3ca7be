# SPDX-License-Identifier: Apache-2.0
"""The throughput of listed flows, the points of a sweep, and the gaps of a port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.kit import live
from experiments.kit.experiment import Given
from experiments.kit.runners import as_on_testbed, axes, named
from sluice.policy.fabrics import SIMULATOR, TESTBED
from tests.kit.bundles import sampled


def test_rates__between_samples_and_from_the_start() -> None:
    times, values = sampled((1.1, 100_000), (1.2, 300_000)).rates(0)
    assert list(times) == pytest.approx([1.05, 1.15])
    assert list(values) == pytest.approx([8.0, 16.0])
    assert sampled((1.1, 100_000), (1.2, 300_000)).mean_rate_mbps(0, 1.05, 1.15) == pytest.approx(12.0)


def test_looks__a_gap_is_as_long_as_the_port_was_seen_standing_still() -> None:
    looks = live.Looks()
    found = [
        looks.take(packets, at_s)
        for packets, at_s in [(5, 0.0), (5, 9.0), (6, 9.1), (6, 9.2), (6, 9.6), (7, 9.7)]
    ]
    assert found[:5] == [None] * 5, "what came before the first packet is no gap"
    assert found[5] == looks.longest_gap_s == pytest.approx(0.5)


DOCUMENT: dict[str, Any] = {
    "name": "x",
    "seed": 9,
    "fabric": {"topology": "single", "hosts": 2, "host_rate": "10Mbit"},
    "scheme": {"name": "dctcp"},
    "workload": {"mix": [{"bytes": "10KB", "share": 1.0}], "load": 0.5, "flows": 3},
}
OUT = Path("nowhere")


def test_axes__settings_of_the_command_line_have_the_last_word() -> None:
    given = Given(OUT, options={"set": [("fabric.buffer", "9KB")]})
    [point] = axes(given, DOCUMENT, settings={"fabric.buffer": "8KB", "grace": "1s"})
    assert (point.document["fabric"]["buffer"], point.document["grace"]) == ("9KB", "1s")


def test_named__a_folder_without_spaces_and_the_document_of_that_name() -> None:
    point = named(DOCUMENT, "no deadline", 3, workload={"flows": 5})
    assert point.name == point.document["name"] == "no-deadline-seed3"
    assert (point.scheme, point.seed, point.document["seed"]) == ("no deadline", 3, 3)
    assert point.document["workload"] == {**DOCUMENT["workload"], "flows": 5}


def test_as_on_testbed__only_the_simulator_needs_to_be_told() -> None:
    found = axes(Given(OUT), DOCUMENT)
    assert as_on_testbed(Given(OUT, on=TESTBED), found) == found
    [emulated] = as_on_testbed(Given(OUT, on=SIMULATOR), found)
    assert emulated.document["simulator"]["links"] == "emulated"
    assert emulated.name == found[0].name
