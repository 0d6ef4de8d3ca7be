# SPDX-License-Identifier: Apache-2.0
"""The bodies of requests about certificates and tokens."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.policy.schema import entries
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Choice, Text, Whole
from sluice.policy.wire.access import ENROLMENT_LIFE_MAX_S, KINDS, ROLES, TOKEN_LIFE_MAX_S

_PEM = Text(longest=10_000)


@dataclass(frozen=True)
class NewToken:
    """What a new token allows."""

    name: str = entry(entries.AGENT, "Name of the agent.")
    kind: str = entry(Choice(KINDS), "Kind of the agent.", default="host")
    valid_s: int = entry(
        Whole(1, ENROLMENT_LIFE_MAX_S, "s"), "The token expires after this time.", default=3600
    )


@dataclass(frozen=True)
class NewAccessToken:
    """What a new access token allows."""

    name: str = entry(entries.TOKEN, "Who uses the token.")
    role: str = entry(Choice(ROLES), "What it allows.")
    valid_s: int = entry(Whole(1, TOKEN_LIFE_MAX_S, "s"), "The token expires after this time.")


@dataclass(frozen=True)
class EnrolmentRequest:
    """A token and a key to certify."""

    secret: str = entry(Text(longest=200), "Secret of the token.")
    request: str = entry(_PEM, "Signing request in PEM.")


@dataclass(frozen=True)
class RenewalRequest:
    """A key to certify anew."""

    request: str = entry(_PEM, "Signing request in PEM.")
