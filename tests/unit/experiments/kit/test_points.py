# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.kit.experiment import Given
from experiments.kit.points import as_on_testbed, axes, named
from sluice.policy.fabrics import SIMULATOR, TESTBED

DOCUMENT: dict[str, Any] = {
    "name": "x",
    "seed": 9,
    "fabric": {"topology": "single", "hosts": 2, "host_rate": "10Mbit"},
    "scheme": {"name": "dctcp"},
    "workload": {"mix": [{"bytes": "10KB", "share": 1.0}], "load": 0.5, "flows": 3},
}
OUT = Path("nowhere")


def test_axes__what_the_command_line_does_not_say_the_scenario_says() -> None:
    [point] = axes(Given(OUT), DOCUMENT)
    assert (point.scheme, point.load, point.seed) == ("dctcp", 0.5, 9)
    assert point.document["workload"]["flows"] == 3


def test_axes__every_combination_of_what_is_given() -> None:
    given = Given(OUT, seeds=(1, 2), loads=(0.3, 0.4), flows=7)
    found = axes(given, DOCUMENT, variants={"a": {"name": "pias"}, "b": {"name": "tcp"}})
    assert len(found) == 8
    assert {point.document["workload"]["flows"] for point in found} == {7}
    assert {point.scheme: point.document["scheme"]["name"] for point in found} == {"a": "pias", "b": "tcp"}


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
