# SPDX-License-Identifier: Apache-2.0
"""What a token of the web process allows."""

from __future__ import annotations

READ = "read"
CHANGE = "change"
OWNER = "owner"
"""The token with which the web process starts. It alone makes and revokes other tokens."""
ROLES = (READ, CHANGE)
"""The roles of the tokens that the owner makes."""
_ORDER = (READ, CHANGE, OWNER)

TOKEN_LIFE_MAX_S = 366 * 86_400
ENROLMENT_LIFE_MAX_S = 30 * 86_400


def allows(role: str, needed: str) -> bool:
    """Return whether a token of this role may do what needs the other one."""
    return _ORDER.index(role) >= _ORDER.index(needed)
