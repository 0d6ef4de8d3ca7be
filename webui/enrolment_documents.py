# SPDX-License-Identifier: Apache-2.0
"""The bodies of requests about certificates."""

from __future__ import annotations

from dataclasses import dataclass

from policy import names
from policy.enrolment import KINDS
from policy.entries import entry
from policy.kinds import Choice, Text, Whole

_PEM = Text(longest=10_000)


@dataclass(frozen=True)
class NewToken:
    """What a new token allows."""

    name: str = entry(names.AGENT, "Name of the agent.")
    kind: str = entry(Choice(KINDS), "Kind of the agent.", default="host")
    valid_s: int = entry(Whole(1, 30 * 86_400, "s"), "The token expires after this time.", default=3600)


@dataclass(frozen=True)
class EnrolmentRequest:
    """A token and a key to certify."""

    secret: str = entry(Text(longest=200), "Secret of the token.")
    request: str = entry(_PEM, "Signing request in PEM.")


@dataclass(frozen=True)
class RenewalRequest:
    """A key to certify anew."""

    request: str = entry(_PEM, "Signing request in PEM.")
