# SPDX-License-Identifier: Apache-2.0
"""The versions of the policy in a run, and the version under which each flow lived."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.policy.figures.scoreboard import Applied, periods
from sluice.policy.schema.desired import Policy
from sluice.policy.units import US_PER_S

if TYPE_CHECKING:  # an installation of the simulator alone has no store
    from sluice.store.desired import PolicyVersion

Versions: TypeAlias = npt.NDArray[np.int64]
Times: TypeAlias = npt.NDArray[np.float64]
VersionOf: TypeAlias = Callable[[pa.Table], Versions]
"""Returns the version of each row of flows.parquet; 0 for a flow that lived under several."""


def always(version: int) -> VersionOf:
    """Every flow lived under this version."""
    return lambda rows: np.full(rows.num_rows, version, np.int64)


def by_time(versions: Sequence[PolicyVersion], dilation: float = 1.0) -> VersionOf:
    """Flows lived under the versions as the scoreboard says. `versions` are in the order of their numbers.

    An unfinished flow may have lived through each later change. So it counts only for the last version.
    `dilation`: seconds of the wall clock for each second of the FCTs, 1 except in a slow simulation.
    """
    if len(versions) == 1:
        return always(versions[0].version)
    found = periods([Applied(v.version, v.policy.scheme, v.created_at, v.applied_at) for v in versions])

    def version_of(rows: pa.Table) -> Versions:
        began_s, ended_s = _times_s(rows, dilation)
        schemes, lived = rows["scheme"].to_numpy().astype(str), np.zeros(rows.num_rows, np.int64)
        for period in found:
            inside = (began_s >= period.since_s) & (ended_s <= period.until_s) & (schemes == period.scheme)
            lived[inside] = period.version
        return lived

    return version_of


def by_run(versions: Mapping[str, int], changed_s: Mapping[int, float] | None = None) -> VersionOf:
    """Flows lived under the version of the run that their ids begin with.

    `changed_s`: version → when someone else replaced it during its run (`replaced_by_others`). A flow that ended later,
    or not at all, lived under several versions.
    """
    ends_s = changed_s or {}

    def version_of(rows: pa.Table) -> Versions:
        runs = [flow.rpartition("/")[0] for flow in rows["id"].to_pylist()]
        lived = np.asarray([versions.get(run, 0) for run in runs], np.int64)
        _, ended_s = _times_s(rows)
        until_s = np.asarray([ends_s.get(version, np.inf) for version in lived.tolist()])
        return np.where(ended_s <= until_s, lived, 0)

    return version_of


def replaced_by_others(versions: Sequence[PolicyVersion], author: str) -> dict[int, float]:
    """Return when each version was replaced, if its successor is not of this author."""
    return {one.version: after.created_at for one, after in pairwise(versions) if after.author != author}


def _times_s(rows: pa.Table, dilation: float = 1.0) -> tuple[Times, Times]:
    """Return when each flow began and ended, in seconds of the Unix epoch. An unfinished flow ends never.

    A record of a slow simulation says that its flow began one FCT before its end, but it began earlier.
    """
    started_s = rows["started_at"].to_numpy()
    lasted_s = rows["fct_us"].to_numpy().astype(float) / US_PER_S
    finished = ~np.isnan(lasted_s)
    ended_s = started_s + np.where(finished, lasted_s, np.inf)
    return np.where(finished, ended_s - dilation * lasted_s, started_s), ended_s


def policy_rows(versions: Sequence[PolicyVersion]) -> list[dict[str, Any]]:
    """Return the versions as policies.json has them."""
    return [
        policy_row(one.version, one.policy, one.author, one.created_at, one.applied_at) for one in versions
    ]


def policy_row(
    version: int,
    policy: Policy,
    author: str = "scenario",
    created_at: float | None = None,
    applied_at: float | None = None,
) -> dict[str, Any]:
    """Return one version as policies.json has it."""
    return {
        "version": version,
        "policy": policy.to_document(),
        "author": author,
        "created_at": created_at,
        "applied_at": applied_at,
    }
