# SPDX-License-Identifier: Apache-2.0
"""What fills the gaps of a policy's document in a running network: its links, its policies so far, its traffic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Engine

from sluice.policy.errors import FieldError
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import check_ports
from sluice.policy.schema.fitting import Fitted, Surroundings, differences, fitted, path_of
from sluice.policy.thresholds.static import LEAST_FLOWS, LEAST_S, measured_traffic
from sluice.store.desired import current_topology, policy_history, policy_in_force
from sluice.store.flow_list import newest_traffic

VERSIONS = 50
"""How many policies are searched for the network's K."""
_LACKING = f"the records of at least {LEAST_FLOWS} flows over {LEAST_S:.0f} s"


def fitted_here(engine: Engine, document: object) -> Fitted:
    """Return the policy of a document in the network of this store. Raises FieldError, also for an unknown port."""
    if not isinstance(document, Mapping):
        raise FieldError("policy", "must be an object with at least a scheme")
    topology = current_topology(engine)
    around = _surroundings(engine, topology)
    change = fitted(document, around)
    check_ports(
        change.policy,
        topology.port_by_id if topology else (),
        around.before[0] if around.before else None,
    )
    return change


def _surroundings(engine: Engine, topology: Topology | None) -> Surroundings:
    return Surroundings(
        path_of(topology) if topology else None,
        tuple(version.policy for version in policy_history(engine, VERSIONS)),
        measured_traffic(newest_traffic(engine), _rates_bps(topology)) if topology else None,
        _LACKING,
        fits_thresholds=True,
    )


def _rates_bps(topology: Topology) -> dict[str, int]:
    return {host.name: topology.edge_port(host.name).rate_bps for host in topology.hosts}


def preview_document(engine: Engine, change: Fitted) -> dict[str, Any]:
    """Return the whole policy of a document, and what it changes of the policy in force."""
    in_force = policy_in_force(engine)
    found = differences(in_force.policy if in_force else None, change)
    return {
        "policy": change.policy.to_document(),
        "against": in_force.version if in_force else None,
        "changes": [asdict(one) for one in found],
    }
