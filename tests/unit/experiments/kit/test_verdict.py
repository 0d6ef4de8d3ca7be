# SPDX-License-Identifier: Apache-2.0
"""A verdict as a table for documents."""

from __future__ import annotations

import json

from experiments.kit.verdict import Claim, conclude, markdown


def test_markdown__a_row_a_claim(tmp_path):
    assert conclude(tmp_path, "x", [Claim("a", "b", "c", True), Claim("d", "e", "f", False)], {}) == 1
    document = json.loads((tmp_path / "verdict.json").read_text())
    assert list(markdown(document))[2:] == ["| a | b | c | yes |", "| d | e | f | **no** |"]
