# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from sluice.policy.errors import SluiceError
from sluice.policy.workload.listed_flows import ExplicitFlow, ExplicitWorkload
from sluice.runs.files import load_trace, scenario_from_file

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
        ("", "", r"workload.trace: .*flows.csv: time: is missing"),
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
