# SPDX-License-Identifier: Apache-2.0
"""The kinds of values in documents: each kind reads a value and states what it allows, in words and as JSON schema.

Policies, scenarios, flow records and agent documents are tables of entries (`policy/entries.py`).
Each entry has a kind.
"""

from __future__ import annotations

from sluice.policy.kinds.containers import ListOf, MapOf, OneOrMore
from sluice.policy.kinds.kind import Kind, Schema
from sluice.policy.kinds.quantities import Duration, Quantity, Rate, Size
from sluice.policy.kinds.scalars import Choice, Flag, Line, Number, OneOfWhole, Text, Whole

__all__ = [
    "Choice",
    "Duration",
    "Flag",
    "Kind",
    "Line",
    "ListOf",
    "MapOf",
    "Number",
    "OneOfWhole",
    "OneOrMore",
    "Quantity",
    "Rate",
    "Schema",
    "Size",
    "Text",
    "Whole",
]
