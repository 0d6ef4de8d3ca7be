# SPDX-License-Identifier: Apache-2.0
"""Access to the web process: what a token allows, and the token with which an agent enrols.

The token of an enrolment works once, and it says which authority the agent may trust:

    token = Token("web1", "host", secret, expires_at, authority).text()   # the operator hands it to the host
    Token.parse(token)                                                    # the agent reads it

The text is "sluice-enrol-" and the base64 of a JSON object. Anyone who has the text can enrol once under this name
until it expires.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass

from sluice.policy.errors import FieldError
from sluice.policy.schema import entries
from sluice.policy.schema.entries import entry, read
from sluice.policy.schema.kinds import Choice, Text, Whole

READ = "read"
CHANGE = "change"
OWNER = "owner"
"""The token with which the web process starts. It alone makes and revokes other tokens."""
ROLES = (READ, CHANGE)
"""The roles of the tokens that the owner makes."""
_ORDER = (READ, CHANGE, OWNER)

SERVER_NAME = "web.sluice.internal"
"""The web process's name in its certificate. RFC 9476 and ICANN reserve "internal" for private names."""

TOKEN_LIFE_MAX_S = 366 * 86_400
ENROLMENT_LIFE_MAX_S = 30 * 86_400


@dataclass(frozen=True)
class Holder:
    """Whom a certificate names."""

    name: str
    kind: str


def allows(role: str, needed: str) -> bool:
    """Return whether a token of this role may do what needs the other one."""
    return _ORDER.index(role) >= _ORDER.index(needed)


KINDS = ("host", "port")
"""The kinds of agents, as heartbeats name them."""
PREFIX = "sluice-enrol-"
AGENT_LIFE_S = 30 * 86_400.0
"""How long an agent's certificate is valid, by default."""
_MAX_CHARACTERS = 1000
_EPOCH_MAX_S = 10**11


@dataclass(frozen=True)
class Token:
    """The contents of a token."""

    name: str = entry(entries.AGENT, "Name of the agent.")
    kind: str = entry(Choice(KINDS), "Kind of the agent.")
    secret: str = entry(Text(r"[A-Za-z0-9_-]{16,128}", what="the secret"), "What proves the right to enrol.")
    expires_at: int = entry(Whole(0, _EPOCH_MAX_S, "s"), "Epoch seconds.")
    authority: str = entry(
        Text(r"[0-9a-f]{64}", what="64 hexadecimal digits"), "SHA-256 of the authority's certificate."
    )

    def text(self) -> str:
        return PREFIX + base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> Token:
        """Return the token in a text. Raises FieldError that names --enrol, and never shows the text."""
        text = text.strip()
        try:
            if not text.startswith(PREFIX) or len(text) > _MAX_CHARACTERS:
                raise ValueError
            encoded = text.removeprefix(PREFIX)
            padding = "=" * (-len(encoded) % 4)
            return read(cls, json.loads(base64.urlsafe_b64decode(encoded + padding)))
        except (ValueError, binascii.Error, FieldError):
            raise FieldError(
                "--enrol", f"is not an enrolment token: copy all of it, from {PREFIX} on, from `sluice enrol`"
            ) from None
