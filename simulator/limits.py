# SPDX-License-Identifier: Apache-2.0
"""What the simulator refuses. It needs no compiled core, so a run can be refused before anything is compiled."""

from sluice.policy import controls
from sluice.policy.controls import Need
from sluice.policy.errors import FieldError
from sluice.policy.schema.desired import Policy
from sluice.policy.workload.listed_flows import ExplicitWorkload
from sluice.policy.workload.scenario import SPRAYS, Scenario


def check_scenario(scenario: Scenario) -> None:
    """Raise FieldError if the simulator lacks what the scenario asks for."""
    if scenario.background:
        raise FieldError(
            "background",
            'runs on the testbed only; on the simulator use [[workload.flow]] with until = "…"',
        )
    check_paths(scenario, scenario.policy)


def check_paths(scenario: Scenario, policy: Policy) -> None:
    """Raise FieldError if the scenario's settings exclude the policy: it reserves rates along one path, and flows take
    several; or its control paces packets, and hosts have the kernel's queues."""
    others = (controls.selectable()[name] for name in sorted(scenario.workload.controls))
    for control in (policy.definition.control, *others):
        if control.file and not control.of_window and scenario.simulator.uplink == "kernel":
            raise FieldError(
                "simulator.uplink",
                f'must not be "kernel" with congestion control {control.name}, which says itself when packets leave',
            )
    if Need.GRANTS in policy.needs:
        _check_messages(scenario, policy)
    if scenario.simulator.shared_buffer:
        _check_shared_buffer(scenario, policy, pfc=scenario.simulator.shared_buffer.pfc)
    if Need.EXPLICIT_RATES in policy.needs and scenario.simulator.faults:
        raise FieldError(
            "simulator.fault",
            f"must not stand beside scheme {policy.scheme}: ports would keep what they granted",
        )
    if Need.EXPLICIT_RATES in policy.needs and scenario.simulator.multipath in SPRAYS:
        raise FieldError(
            "simulator.multipath",
            f'must be "per-flow" with scheme {policy.scheme}, which reserves rates along one path of a flow',
        )


def _check_shared_buffer(scenario: Scenario, policy: Policy, *, pfc: bool) -> None:
    """Raise FieldError if something else decides what a port drops, or if a host does not wait for its own port."""
    if scenario.simulator.links == "emulated":
        raise FieldError("simulator.links", 'must be "real" with shared_buffer')
    if policy.needs & {Need.SHORTEST_FIRST, Need.EXPLICIT_RATES} or (policy.urgent_first and not pfc):
        raise FieldError(
            "simulator.shared_buffer",
            f"must not stand beside scheme {policy.scheme}, whose ports choose what they drop. "
            "With urgent_first = false, or with pfc, they do not, except those of d3, pdq and pfabric",
        )
    if pfc and (scenario.simulator.uplink in ("kernel", "unshaped") or Need.GRANTS in policy.needs):
        raise FieldError(
            "simulator.shared_buffer.pfc",
            'must be false with uplink = "kernel" or "unshaped", with scheme homa and with a transport of your own: '
            "their hosts would not resume",
        )


def _check_messages(scenario: Scenario, policy: Policy) -> None:
    """Raise FieldError if a transport of messages cannot send the flows of the scenario."""
    if scenario.simulator.uplink != "fabric":
        raise FieldError(
            "simulator.uplink",
            f'must be "fabric" with scheme {policy.scheme}, whose hosts send the shortest message first',
        )
    if scenario.workload.controls:
        raise FieldError("workload", f"must name no control with scheme {policy.scheme}, which is not TCP")
    if isinstance(scenario.workload, ExplicitWorkload) and any(
        f.bytes is None for f in scenario.workload.flows
    ):
        raise FieldError("workload.flow", f"must have no endless flow with scheme {policy.scheme}")
    levels = policy.parameters.to_document().get("unscheduled_levels", 0) if policy.parameters else 0
    if levels >= policy.queues:
        raise FieldError(
            "scheme.parameters.unscheduled_levels",
            f"must be below scheme.queues = {policy.queues}, not {levels}",
        )
