# SPDX-License-Identifier: Apache-2.0
"""Networks as graphs (one file a topology), and as real switches and hosts on this machine (testbed.py).

To add a topology, write one file with KIND, Parameters and build(values), and one line in TOPOLOGIES. The same file
outside the tree is a plugin (runtime/plugins.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.policy.errors import FieldError, SluiceError, guess, shortened
from sluice.policy.network.graph import Topology
from sluice.runtime import plugins
from sluice.topologies import dumbbell, fat_tree, from_file, leaf_spine, single
from sluice.topologies.wiring import checked, without

if TYPE_CHECKING:
    from sluice.policy.workload.scenario import Fabric, Scenario

TOPOLOGIES = {module.KIND: module for module in (single, dumbbell, leaf_spine, fat_tree, from_file)}


def build(kind: str, **parameters: Any) -> Topology:
    """Return the graph of a topology. FieldError names an unknown kind or parameter, or a value out of range."""
    modules = {**TOPOLOGIES, **plugins.TOPOLOGIES}
    if len(modules) < len(TOPOLOGIES) + len(plugins.TOPOLOGIES):
        twice = min(TOPOLOGIES.keys() & plugins.TOPOLOGIES.keys())
        raise SluiceError(f'a plugin has the topology "{twice}", which exists already: choose another KIND')
    if kind not in modules:
        problem = f"must be one of {', '.join(modules)}, not {shortened(kind)}{guess(kind, modules)}"
        raise FieldError("topology", problem)
    module = modules[kind]
    values = checked(module.Parameters, parameters)
    topology: Topology = module.build(values)
    return without(topology, values.down)


def build_topology(scenario: Scenario) -> Topology:
    """Return the network of a scenario. FieldError names a bad key of [fabric] or what the network lacks."""
    from sluice.policy.workload.scenario import (
        check_topology,  # it imports numpy, which no process of a testbed needs
    )

    topology = build_fabric(scenario.fabric)
    check_topology(scenario, topology)
    return topology


def build_fabric(fabric: Fabric) -> Topology:
    """Return the network of a [fabric] table. FieldError names a bad key of it."""
    try:
        return build(fabric.topology, **fabric.parameters)
    except FieldError as error:
        raise FieldError(f"fabric.{error.field}", error.problem) from None
