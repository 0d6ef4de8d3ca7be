# SPDX-License-Identifier: Apache-2.0
"""Scenario, distribution and flow files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.workload.listed_flows import ExplicitFlow, ExplicitWorkload
from sluice.runs.files import (
    SCENARIOS,
    load_cdf,
    load_trace,
    read_document,
    scenario_from_file,
    scenario_with,
)


@pytest.mark.parametrize("name", sorted(path.stem for path in SCENARIOS.glob("*.toml")))
def test_scenario_from_file__scenarios_that_come_along_are_valid_and_have_a_name(name: str) -> None:
    scenario, *_ = scenario_from_file(Path(name))
    assert scenario.name == name


GOOD = """
name = "mine"
[fabric]
topology = "single"
hosts = 4
host_rate = "100Mbit"
[scheme]
name = "dctcp"
[workload]
sizes = "web-search"
pattern = "many-to-one"
to = "h1"
load = 0.8
flows = 10
"""
GOOD_RANDOM = GOOD[GOOD.index("sizes =") : GOOD.index("flows")]
BAD_CDF = "1 0\n5 0.9\n9 0.5\n10 1\n"
BAD = {
    "unknown key": (
        "load = 0.8",
        "load = 0.8\nlaod = 0.8",
        "workload.laod",
        "did you mean load?",
    ),
    "unit missing": ('"100Mbit"', '"100"', "fabric.host_rate", 'for example "10Gbit"'),
    "CDF not monotone": (
        '"web-search"',
        '"{folder}/bad.cdf"',
        "workload.sizes",
        "bad.cdf: line 3: sizes and",
    ),
    "no such table": ('"web-search"', '"websearch"', "workload.sizes", "the known names are aditya"),
    "no such CDF": ('"web-search"', '"{folder}/none.cdf"', "workload.sizes", "give the path"),
    "no such trace": (GOOD_RANDOM, 'trace = "none.txt"\n', "workload.trace", "give a table"),
    "no such host": ('"h1"', '"h77"', "workload.to", "hosts are h1"),
}
"""Name → (text to replace in a good scenario, its replacement, the key and the remedy in the message)."""


@pytest.mark.parametrize("case", BAD)
def test_bad_scenarios__one_line_with_file_key_and_remedy(case: str, tmp_path: Path) -> None:
    old, new, key, remedy = BAD[case]
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    scenario_from_file(path)
    (tmp_path / "bad.cdf").write_text(BAD_CDF)
    assert old in GOOD
    path.write_text(GOOD.replace(old, new.replace("{folder}", str(tmp_path)), 1))
    with pytest.raises(SluiceError) as caught:
        scenario_from_file(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: {key}: ")
    assert remedy in message


def test_load_trace__another_text_is_no_list_of_flows(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text("5.0 8731 2\n48.0 4774 3\n")
    with pytest.raises(
        SluiceError, match=r"workload.trace: .*trace\.txt is no list of flows: give a table of"
    ):
        load_trace(str(path))


def test_scenario_with__a_named_scheme_replaces_the_table() -> None:
    scenario, resolved, _ = scenario_with(read_document(Path("paper-mix")), scheme={"name": "tcp"}, seed=9)
    assert scenario.policy.scheme == "tcp"
    assert scenario.seed == 9
    assert resolved["scheme"] == {"name": "tcp"}
    assert resolved["workload"]["flows"] == 1200


@pytest.mark.parametrize("read", [load_cdf, load_trace])
def test_a_name_that_is_too_long_is_no_file(read: Callable[[str], object]) -> None:
    with pytest.raises(FieldError, match="there is no file"):
        read("a" * 300 + ".cdf")
    with pytest.raises(SluiceError, match="File name too long"):
        read_document(Path("a" * 300))


SCENARIO = """
name = "mine"
fabric = {{ topology = "single", hosts = 3 }}
scheme = {{ name = "dctcp" }}
[workload]
trace = "{file}"
"""


def flows(folder: Path, file: Path, more: str = "") -> tuple[ExplicitFlow, ...]:
    (folder / "mine.toml").write_text(SCENARIO.format(file=file) + more)
    workload = scenario_from_file(folder / "mine.toml")[0].workload
    assert isinstance(workload, ExplicitWorkload)
    return workload.flows


def csv(folder: Path, text: str | bytes) -> Path:
    file = folder / "flows.csv"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_csv_and_parquet_hold_the_same_flows(tmp_path: Path) -> None:
    text = "\ufefftime, src ,dst,bytes,deadline\n# a comment\n0s,h1,h3,20KB,5ms\n\n 120us,h2,h3,1MB,\n"
    expected = (
        ExplicitFlow("h1", "h3", 0.0, 20_000, deadline_us=5000.0),
        ExplicitFlow("h2", "h3", 0.00012, 1_000_000),
    )
    assert flows(tmp_path, csv(tmp_path, text)) == expected
    columns = {"src": ["h1", "h2"], "dst": ["h3", "h3"], "time_us": [0.0, 120.0]}
    columns |= {"bytes": [20_000, 1_000_000], "deadline_us": [5000, None]}
    parquet.write_table(pa.table(columns), tmp_path / "flows.parquet")
    assert flows(tmp_path, tmp_path / "flows.parquet") == expected
    assert len(flows(tmp_path, tmp_path / "flows.parquet", "flows = 1")) == 1


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("time,src,dst,bytes\n0s,h1,h3,1KB\n1,h1,h3,1KB\n", "", r"flows.csv: line 3: time: .*not a quantity"),
        ("time,src,dst,bytes\n0s,h1,h3\n", "", r"flows.csv: line 2: has 3 values, but there are 4 columns"),
        (
            "time,src,dst,bytes\n0s,h1,h9,1KB\n",
            "",
            r"workload.trace: .*flows.csv, line 2: 'h9' is not a host",
        ),
        (b"time,src,dst,bytes\n0s,h1,\xff,1KB\n", "", r"workload.trace: .*flows.csv"),
        (b"time,src,dst,bytes\n0s,h1,\0,1KB\n", "", r"workload.trace: .*flows.csv: line 2: "),
        ("time,src,dst,bytes\n", "", "has no flow"),
        ("time,src,dst,bytes\n0s,h1,h3,1KB\n", 'to = "h1"', r"workload.to: is not a key here"),
        ("time,src,dst,bytes\n0s,h1,h3,1KB\n", "flows = 2", r"workload.flows: must be at most 1"),
        ("time,src,dst,bytes\n0s,h1,h3,1KB\n", "[deadlines]\nshare = 0.5", r"deadlines: is for random flows"),
    ],
)
def test_an_error_names_the_line(tmp_path: Path, text: str | bytes, more: str, message: str) -> None:
    with pytest.raises(SluiceError, match=message):
        flows(tmp_path, csv(tmp_path, text), more)


def test_what_is_no_table_is_answered(tmp_path: Path) -> None:
    (tmp_path / "flows.parquet").write_text("no parquet")
    with pytest.raises(SluiceError, match=r"workload.trace: cannot read .*flows.parquet"):
        load_trace(str(tmp_path / "flows.parquet"))
    with pytest.raises(SluiceError, match=r"there is no file .*none.csv"):
        load_trace(str(tmp_path / "none.csv"))
