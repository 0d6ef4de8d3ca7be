# SPDX-License-Identifier: Apache-2.0
"""Names of ports in a policy that the network does not have.

In a running network they are no errors: a switch may join later, and a policy may be stored before the network is
known. A scenario has its network, so there they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from policy.desired import Policy
from policy.errors import FieldError, guess, shortened
from policy.overrides import name_port

_MOST_PORTS = 8
"""A warning lists at most this many ports of the network."""


def port_warnings(policy: Policy, ports: Collection[str]) -> list[str]:
    """Return a line for each name that names none of these ports ("s1:2"). None without ports, as before a network."""
    return [
        f"{where}: {problem}. The name takes effect if such a port joins the network"
        for where, problem in _unknown(policy, ports)
    ]


def check_ports(policy: Policy, ports: Collection[str]) -> None:
    """Raise FieldError for a name that names none of these ports."""
    for where, problem in _unknown(policy, ports):
        raise FieldError(where, problem)


def _unknown(policy: Policy, ports: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield key and problem of each name that names none of these ports; nothing without ports."""
    for where, name in _names(policy):
        if ports and not any(name_port([name], port) for port in ports):
            yield where, f"the network has no port {shortened(name)}{guess(name, ports)}; {_some(ports)}"


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
