# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tomllib

import pytest

from tools.reference import scale_page
from tools.reference.scale_page import FatTree


def test_fat_tree__counts_of_the_smallest() -> None:
    tree = FatTree(4)
    assert (tree.switches, tree.ports, tree.hosts) == (20, 80, 16)


def test_the_plan__multiplies_the_costs_of_the_file() -> None:
    costs = tomllib.loads(scale_page.COSTS.read_text())
    tree = FatTree(28)
    cores = tree.ports * costs["controller_us"] / 1e6
    row = next(
        line for line in scale_page.text().splitlines() if line.startswith("| controller: ports × cost")
    )
    assert float(row.split("|")[3].split()[0]) == pytest.approx(cores, rel=0.05)


def test_the_largest_tree_is_the_smallest_with_ten_thousand_switches() -> None:
    largest = scale_page.PODS[-1]
    assert FatTree(largest - 2).switches < 10_000 <= FatTree(largest).switches
