# SPDX-License-Identifier: Apache-2.0
"""Which policies a fabric can carry out. Any other policy is refused; it never runs as a different policy."""

from sluice.policy.controls import Need
from sluice.policy.errors import FieldError
from sluice.policy.schema.desired import Policy

TESTBED = "testbed"
SIMULATOR = "simulator"

_OFFERS: dict[str, frozenset[Need]] = {
    TESTBED: frozenset({Need.FLOW_QUEUES, Need.RESERVED_DSCP}),
    SIMULATOR: frozenset(Need) - {Need.RESERVED_DSCP},
}


def missing(policy: Policy, fabric: str) -> tuple[Need, ...]:
    """The needs of the policy that the fabric does not offer; empty if it can carry out the policy."""
    return tuple(need for need in Need if need in policy.needs - _OFFERS[fabric])


def refusal(policy: Policy, fabric: str) -> str | None:
    """Why the fabric cannot carry out the policy, and the remedy; None if it can."""
    lacking = missing(policy, fabric)
    if not lacking:
        return None
    needs = " and ".join(lacking)
    remedy = f"run it --on {SIMULATOR}" if fabric == TESTBED else "omit reserved_dscp"
    return f"{policy.scheme} needs {needs}, which the {fabric}'s ports do not have: {remedy}"


def check_fabric(policy: Policy, fabric: str) -> None:
    """Raise FieldError if the fabric cannot carry out the policy, or if hosts would lack the epoch of their limits."""
    problem = refusal(policy, fabric)
    if problem is not None:
        raise FieldError("scheme", problem)
    if policy.definition.has_levels and policy.epoch is None:
        raise FieldError("epoch", "is missing: hosts and links, from which it follows, are unknown")
