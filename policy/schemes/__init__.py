# SPDX-License-Identifier: Apache-2.0
"""The schemes. A scheme is data. To add one, add one file here and one line in `SCHEMES`."""

from __future__ import annotations

from sluice.policy.errors import FieldError, guess, shortened
from sluice.policy.schemes.aemon import AEMON
from sluice.policy.schemes.d2tcp import D2TCP
from sluice.policy.schemes.d3 import D3
from sluice.policy.schemes.datcp import DATCP
from sluice.policy.schemes.dctcp import DCTCP
from sluice.policy.schemes.fish import FISH
from sluice.policy.schemes.hull import HULL
from sluice.policy.schemes.karuna import KARUNA
from sluice.policy.schemes.mlfq_adaptive import MLFQ_ADAPTIVE
from sluice.policy.schemes.pfabric import PFABRIC
from sluice.policy.schemes.pias import PIAS
from sluice.policy.schemes.pias_ucp import PIAS_UCP
from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule
from sluice.policy.schemes.sluice import SLUICE
from sluice.policy.schemes.tcp import TCP
from sluice.policy.schemes.tcp_priority import TCP_PRIORITY
from sluice.policy.schemes.two_level_dctcp import TWO_LEVEL_DCTCP
from sluice.policy.schemes.ucp import UCP

_ALL = (
    *(TCP, TCP_PRIORITY, DCTCP, PIAS, MLFQ_ADAPTIVE, FISH, UCP, D2TCP, DATCP, HULL),
    *(KARUNA, AEMON, PIAS_UCP, TWO_LEVEL_DCTCP, D3, PFABRIC, SLUICE),
)

SCHEMES: dict[str, Scheme] = {scheme.name: scheme for scheme in _ALL}

__all__ = ["SCHEMES", "Marking", "QueueRule", "Scheme", "ThresholdRule", "scheme_named"]


def scheme_named(name: object, field: str = "scheme") -> Scheme:
    """Return the scheme of that name. Raises FieldError that lists the schemes."""
    scheme = SCHEMES.get(name) if isinstance(name, str) else None
    if name is None:
        raise FieldError(field, f"is missing; the schemes are {', '.join(SCHEMES)}")
    if scheme is None:
        shown = shortened(name)
        raise FieldError(
            field, f"{shown} is not a scheme{guess(name, SCHEMES)}; the schemes are {', '.join(SCHEMES)}"
        )
    return scheme
