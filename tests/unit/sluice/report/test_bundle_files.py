# SPDX-License-Identifier: Apache-2.0
"""A bundle with a damaged file is refused by the file's name: no other exception, and no silence."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.policy.errors import SluiceError
from sluice.report.runs import find_runs
from tests.kit.bundles import bundle, document, flow

TEXTS = (
    "",
    "{",
    "[]",
    "null",
    "7",
    '"text"',
    '{"a": null}',
    '[{"a": 1}]',
    '[{"version": 1, "policy": 2}]',
    "[" * 9999,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return bundle(tmp_path / "a", document(), [flow(1, 1000, 100.0)])


@pytest.mark.parametrize("name", ["scenario", "meta", "summary", "policies"])
def test_a_damaged_document_is_named(folder: Path, name: str) -> None:
    path = folder / f"{name}.json"
    for text in TEXTS:
        if (name, text) in {("policies", "[]"), ("meta", '{"a": null}')}:
            continue  # a bundle without policies, and one of an older version
        path.write_text(text)
        with pytest.raises(SluiceError, match=rf"{name}\.json: cannot be used: .*; run the scenario again"):
            find_runs([folder])


def test_a_document_that_is_no_text_is_named(folder: Path) -> None:
    (folder / "meta.json").write_bytes(bytes(range(256)))
    with pytest.raises(SluiceError, match=r"meta\.json: cannot be used"):
        find_runs([folder])


@pytest.mark.parametrize("name", ["flows.parquet", "ports.parquet"])
def test_a_damaged_table_is_named(folder: Path, name: str) -> None:
    path = folder / name
    path.write_text("x")
    with pytest.raises(SluiceError, match=rf"{name}: cannot be used"):
        find_runs([folder])
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(SluiceError, match=rf"{name}: cannot be used: it lacks"):
        find_runs([folder])
    path.unlink()
    path.mkdir()
    with pytest.raises(SluiceError, match=rf"{name}: cannot be used"):
        find_runs([folder])
