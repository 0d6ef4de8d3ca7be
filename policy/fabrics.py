# SPDX-License-Identifier: Apache-2.0
"""What a fabric can do of what a policy needs. What it cannot carry out is refused, never run as something else."""

from __future__ import annotations

from policy.desired import Policy
from policy.errors import FieldError
from policy.needs import Need

TESTBED = "testbed"
SIMULATOR = "simulator"

_OFFERS: dict[str, frozenset[Need]] = {
    TESTBED: frozenset({Need.FLOW_QUEUES, Need.SHARES, Need.CORE_MARKING}),
    SIMULATOR: frozenset(Need),
}


def missing(policy: Policy, fabric: str) -> tuple[Need, ...]:
    """What the policy needs and the fabric does not offer; empty when it can be carried out."""
    return tuple(need for need in Need if need in policy.needs - _OFFERS[fabric])


def refusal(policy: Policy, fabric: str) -> str | None:
    """Why the fabric cannot carry the policy out, with the remedy; None when it can."""
    lacking = missing(policy, fabric)
    if not lacking:
        return None
    needs = " and ".join(lacking)
    remedy = f"run it --on {SIMULATOR}" if fabric == TESTBED else "choose another scheme"
    return f"{policy.scheme} needs {needs}, which the {fabric}'s ports do not have yet: {remedy}"


def check_fabric(policy: Policy, fabric: str) -> None:
    """Raise FieldError when the fabric cannot carry the policy out."""
    problem = refusal(policy, fabric)
    if problem is not None:
        raise FieldError("scheme", problem)
