# SPDX-License-Identifier: Apache-2.0
"""The flows of a run as columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments.kit.flows import Flows, means, percentile, read_flows, says_source


def flows(fct_us: Sequence[float], **columns: Sequence[object]) -> Flows:
    """Return small flows of 1 KB that all start at once."""
    count = len(fct_us)
    usual: dict[str, object] = {
        "id": [f"r/{number}" for number in range(count)],
        "size_class": ["small"] * count,
        "bytes": [1000] * count,
        "started_s": [0.0] * count,
        "fct_us": fct_us,
        "ideal_us": [1.0] * count,
        "deadline_us": [np.nan] * count,
        "slowdown": [1.0] * count,
        "retransmissions": [0.0] * count,
    }
    return Flows(**{name: np.asarray(values) for name, values in {**usual, **columns}.items()})


def test_need_finished__a_flow_that_did_not_finish_is_no_fast_one() -> None:
    assert len(flows([1.0, 2.0]).need_finished()) == 2
    with pytest.raises(ValueError, match="unfinished"):
        flows([1.0, np.nan]).need_finished()


def test_by_number__ids_are_numbers_not_texts() -> None:
    found = flows([1.0, 2.0, 3.0], id=["r/10", "r/9", "r/0"]).by_number
    assert list(found.fct_us) == [3.0, 2.0, 1.0]


def test_means_and_percentile__where_there_is_nothing_there_is_no_value() -> None:
    found = means({"small": np.asarray([1.0, 3.0]), "large": np.asarray([])})
    assert found["small_mean"] == 2
    assert np.isnan(found["large_mean"])
    assert np.isnan(percentile(np.asarray([]), 99))
    assert percentile(np.asarray([50.0, 150.0]), 99) == pytest.approx(149)


def written(folder: Path, **more: Sequence[object]) -> Path:
    columns: dict[str, Sequence[object]] = {
        "id": ["r/1", "r/0"],
        "size_class": ["small", "small"],
        "bytes": [1, 2],
        "started_at": [101.0, 102.0],
        "fct_us": [10.0, None],
        "ideal_us": [5.0, 5.0],
        "deadline_us": [None, 8.0],
        "slowdown": [2.0, None],
        "retransmissions": [None, 1],
        **more,
    }
    pq.write_table(pa.table(columns), folder / "flows.parquet")
    (folder / "meta.json").write_text(json.dumps({"start_at": 100.0}))
    return folder


def test_read_flows__scheduled_ones_only(tmp_path: Path) -> None:
    bundle = written(tmp_path, source=["scheduled", "background"])
    found = read_flows(bundle)
    assert says_source(bundle)
    assert (list(found.bytes), list(found.started_s)) == ([1], [1.0])


def test_read_flows__a_bundle_of_an_old_version_has_scheduled_flows_only(tmp_path: Path) -> None:
    bundle = written(tmp_path)
    assert not says_source(bundle)
    found = read_flows(bundle)
    assert len(found) == 2
    assert np.isnan(found.fct_us[1])
    assert np.isnan(found.retransmissions[0])
