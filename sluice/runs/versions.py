# SPDX-License-Identifier: Apache-2.0
"""The versions of the policy in a run, and the version under which each flow lived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from policy.desired import Policy
from policy.scoreboard import Applied, periods
from policy.units import US_PER_S

if TYPE_CHECKING:  # an installation of the simulator alone has no store
    from store.desired import PolicyVersion

Versions: TypeAlias = npt.NDArray[np.int64]
VersionOf: TypeAlias = Callable[[pa.Table], Versions]
"""Returns the version of each row of flows.parquet; 0 for a flow that lived under several."""


def always(version: int) -> VersionOf:
    """Every flow lived under this version."""
    return lambda rows: np.full(rows.num_rows, version, np.int64)


def by_time(versions: Sequence[PolicyVersion]) -> VersionOf:
    """Flows lived under the versions as the scoreboard says. `versions` are in the order of their numbers.

    An unfinished flow may have lived through each later change. So it counts only for the last version.
    """
    if len(versions) == 1:
        return always(versions[0].version)
    found = periods([Applied(v.version, v.policy.scheme, v.created_at, v.applied_at) for v in versions])

    def version_of(rows: pa.Table) -> Versions:
        began_s = rows["started_at"].to_numpy()
        lasted_s = rows["fct_us"].to_numpy().astype(float) / US_PER_S
        ended_s = began_s + np.where(np.isnan(lasted_s), np.inf, lasted_s)
        schemes, lived = rows["scheme"].to_numpy().astype(str), np.zeros(rows.num_rows, np.int64)
        for period in found:
            inside = (began_s >= period.since_s) & (ended_s <= period.until_s) & (schemes == period.scheme)
            lived[inside] = period.version
        return lived

    return version_of


def by_run(versions: dict[str, int]) -> VersionOf:
    """Flows lived under the version of the run that their ids begin with."""

    def version_of(rows: pa.Table) -> Versions:
        runs = [flow.rpartition("/")[0] for flow in rows["id"].to_pylist()]
        return np.asarray([versions.get(run, 0) for run in runs], np.int64)

    return version_of


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
