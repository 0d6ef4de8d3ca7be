# SPDX-License-Identifier: Apache-2.0
"""Names of ports in a policy that the network does not have.

They are errors if someone writes them. In a running network, a name that the policy in force has already is only a
warning: its switch may have left. Before a network is known, every name is accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sluice.policy.desired import Policy
from sluice.policy.errors import FieldError, guess, shortened
from sluice.policy.overrides import name_port

_MOST_PORTS = 8
"""A warning lists at most this many ports of the network."""


def port_warnings(policy: Policy, ports: Collection[str]) -> list[str]:
    """Return a line for each name that names none of these ports ("s1:2"). None without ports, as before a network."""
    return [
        f"{where}: {problem}. The name takes effect if such a port joins the network"
        for where, _, problem in _unknown(policy, ports)
    ]


def check_ports(policy: Policy, ports: Collection[str], before: Policy | None = None) -> None:
    """Raise FieldError for a name that names none of these ports, unless the policy `before` has the name, too."""
    known = {name for _, name in _names(before)} if before else set()
    for where, name, problem in _unknown(policy, ports):
        if name not in known:
            raise FieldError(where, problem)


def _unknown(policy: Policy, ports: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield key, name and problem of each name that names none of these ports; nothing without ports."""
    for where, name in _names(policy):
        if ports and not any(name_port([name], port) for port in ports):
            problem = f"the network has no port {shortened(name)}{guess(name, ports)}; {_some(ports)}"
            yield where, name, problem


def _names(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield each name of ports, with the key where it is."""
    for index, override in enumerate(policy.overrides):
        for name in override.ports:
            yield f"overrides[{index}].ports", name
    for name in policy.acts_at:
        yield "acts_at", name


def _some(ports: Collection[str]) -> str:
    first = ", ".join(list(ports)[:_MOST_PORTS])
    more = f" and {len(ports) - _MOST_PORTS} more" if len(ports) > _MOST_PORTS else ""
    return f"its ports are {first}{more}"
