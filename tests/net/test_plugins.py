# SPDX-License-Identifier: Apache-2.0
"""A scheme, its queue rule and a network from outside the tree, on the testbed."""

import json
import os
import subprocess
import sys
from pathlib import Path

from pyarrow.parquet import read_table

from tests.kit.pages import DOCS, of_order

PAGE = DOCS / "how-to" / "plugins.md"
HOSTS, ONE_EACH = (
    '"h1-s1", "h2-s1", "h3-s2", "h4-s2", "h5-s3", "h6-s3"',
    '"h1-s1", "h2-s2", "h3-s3"',
)
"""The links of the page's hosts, and fewer: each host has an agent."""


def test_the_page_on_the_testbed(tmp_path: Path) -> None:
    for block in of_order(PAGE, "save"):
        (tmp_path / block.argument).write_text(block.text.replace(HOSTS, ONE_EACH))
    words = ["run", "mine.toml", "--on", "testbed", "--plugin", "my_scheme.py", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "sluice", *words, "--flows", "20"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["fct_us"]["all"]["n"], summary["unfinished"]) == (20, 0)
    counted = [row["queue_bytes"] for row in read_table(tmp_path / "out" / "ports.parquet").to_pylist()]
    used = [max(of_queue) for of_queue in zip(*filter(None, counted), strict=True)]
    assert used[0] > 0
    assert used[1] > 0  # flows that have sent more than 100 KB
    assert not any(used[3:])


CONTROLS = DOCS / "how-to" / "add-a-control.md"


def test_a_control_from_a_file_beside_one_of_the_tree(tmp_path: Path) -> None:
    """The page's file, for all flows but those of one host. Records say which control each connection had."""
    for block in of_order(CONTROLS, "save"):
        (tmp_path / block.argument).write_text(block.text)
    flows = [{"from": f"h{i}", "to": "h1", "bytes": "200KB"} for i in (2, 3)]
    flows[1]["control"] = "dctcp"
    (tmp_path / "two.toml").write_text(
        'name = "two"\n[fabric]\ntopology = "single"\nhosts = 3\nhost_rate = "50Mbit"\n'
        '[scheme]\nname = "delay"\nparameters = { target_us = 6000 }\n[workload]\n'
        f"flow = [{', '.join(inline(flow) for flow in flows)}]\n"
    )
    words = ["run", "two.toml", "--on", "testbed", "--plugin", "delay.h", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "sluice", *words],
        cwd=tmp_path,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = read_table(tmp_path / "out" / "flows.parquet").to_pylist()
    assert {row["src"]: row["congestion_control"] for row in rows} == {
        "h2": "sluice_delay",
        "h3": "sluice_dctcp",
    }
    assert all(row["status"] == "finished" for row in rows)


def inline(table: dict[str, str]) -> str:
    return "{ " + ", ".join(f'{key} = "{value}"' for key, value in table.items()) + " }"
